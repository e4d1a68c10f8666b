"""torch's graph as an ONNX graph, with the names that a person would give, and nothing of this machine in it."""

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.export import ExportedProgram

from patchwords import __version__
from patchwords.errors import ModelError, UsageError
from patchwords.export.quiet import quiet
from patchwords.export.wish import Wish
from patchwords.pages.wording import memory

OPSET = 20  # the first with GELU as one operator
MOST_BYTES = (1 << 31) - (1 << 24)  # of weights: protobuf's 2 GiB, less room for the graph
ABOVE_ZERO = "above_zero"
LEAST = np.float32(np.finfo(np.float32).tiny)


def check_bytes(weights: int) -> None:
    """Refuses what no single ONNX file can hold, before anything is done."""
    if weights > MOST_BYTES:
        raise UsageError(
            f"the weights are {memory(weights)}, and one ONNX file holds 2 GiB at most: "
            "write a .pt2, or choose a smaller model"
        )


@torch.no_grad()  # as it was traced: attention's layout in memory depends on it, and so whether views fit
def graph(program: ExportedProgram, wish: Wish, output: str) -> onnx.ModelProto:
    """The ONNX model of a traced one; its only input is called by `wish.input`."""
    try:
        with quiet():
            made = torch.onnx.export(
                program,
                (),
                dynamo=True,
                opset_version=OPSET,
                verbose=False,
                input_names=[wish.input],
                output_names=[output],
            )
        assert made is not None
        model: onnx.ModelProto = made.model_proto
    except Exception as error:  # an operator that ONNX has not, or a graph that grew over protobuf's limit
        reason = str(error).partition("\n")[0]
        raise ModelError(f"it cannot be written as ONNX: {type(error).__name__} {reason}; try a .pt2") from error
    _name_axes(model, wish)
    _forget(model)
    _keep_pads(model)
    _widen_indices(model)
    return model


def _name_axes(model: onnx.ModelProto, wish: Wish) -> None:
    """`batch`, and where they may be any `height` and `width`, for the solver's own names."""
    (given,), (answer,) = model.graph.input, model.graph.output
    axes = given.type.tensor_type.shape.dim
    axes[0].dim_param = answer.type.tensor_type.shape.dim[0].dim_param = "batch"
    if wish.sizes == "any":
        first = 1 if wish.input == "pixels" else 2
        axes[first].dim_param, axes[first + 1].dim_param = "height", "width"


def _forget(model: onnx.ModelProto) -> None:
    """Without what the exporter notes for itself, shapes of every step in its own names among it."""
    for node in model.graph.node:
        del node.metadata_props[:]
    for held in (*model.graph.initializer, *model.graph.input, *model.graph.output):
        del held.metadata_props[:]
    del model.graph.value_info[:], model.graph.metadata_props[:], model.metadata_props[:]
    domains = {node.domain for node in model.graph.node} | {""}
    kept = [opset for opset in model.opset_import if opset.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    model.graph.name = "patchwords"
    model.producer_name, model.producer_version = "patchwords", __version__


def _keep_pads(model: onnx.ModelProto) -> None:
    """Zeros before a maximum, as BiT has them, made the least number above zero.

    onnxruntime moves a padding by zero into the MaxPool after it, which pads by minus infinity instead: wherever all
    of a window is negative the answer would be another. It leaves alone what is not zero.
    """
    made = {name: node for node in model.graph.node for name in node.output}
    values = {each.name: each for each in model.graph.initializer}
    for pool in model.graph.node:
        pad = made.get(pool.input[0]) if pool.op_type == "MaxPool" else None
        if pad is not None and pad.op_type == "Pad" and _is_zero(pad, values):
            del pad.input[2:]
            pad.input.append(ABOVE_ZERO)
            if ABOVE_ZERO not in values:
                values[ABOVE_ZERO] = numpy_helper.from_array(np.array(LEAST), ABOVE_ZERO)
                model.graph.initializer.append(values[ABOVE_ZERO])


def _is_zero(pad: onnx.NodeProto, values: dict[str, onnx.TensorProto]) -> bool:
    if len(pad.input) < 3 or not pad.input[2]:
        return True
    return pad.input[2] in values and not numpy_helper.to_array(values[pad.input[2]]).any()


def _widen_indices(model: onnx.ModelProto) -> None:
    """The rows of large tables, as BEiT's biases have them, in int64: torch leaves them int32, which ONNX forbids."""
    nodes = list[onnx.NodeProto]()
    for node in model.graph.node:
        if node.op_type == "GatherND":
            wide = f"{node.output[0]}_index"
            nodes.append(helper.make_node("Cast", [node.input[1]], [wide], wide, to=TensorProto.INT64))
            node.input[1] = wide
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
