"""What an ONNX file may hold to be run: operators of ONNX and numbers of its own, nothing that reads other files."""

from collections.abc import Iterator

import onnx

OWN = ("", "ai.onnx")


def objection(model: onnx.ModelProto) -> str:
    """Why a file is not run, or nothing."""
    if model.functions or model.training_info or model.graph.sparse_initializer:
        return "functions, a training part or sparse tensors"
    if foreign := [each.domain for each in model.opset_import if each.domain not in OWN]:
        return f"operators of {foreign[0]!r}"
    for node in model.graph.node:
        if node.domain not in OWN:
            return f"the operator {node.op_type!r} of {node.domain!r}"
        for part in node.attribute:
            if part.HasField("g") or part.graphs or part.HasField("sparse_tensor") or part.sparse_tensors:
                return f"a graph within {node.op_type!r}"
    if any(each.external_data or each.data_location == onnx.TensorProto.EXTERNAL for each in _tensors(model)):
        return "numbers that lie in another file"
    return ""


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from model.graph.initializer
    for node in model.graph.node:
        for part in node.attribute:
            yield from (part.t, *part.tensors)
