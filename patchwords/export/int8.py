"""Linear layers in int8: weights scaled by output, once; what comes to them scaled as it comes (dynamic).

The operators are those of onnxruntime's own dynamic quantisation, so that it fuses them. The head stays as it is: in
int8, logits that are near one another would be the same.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from patchwords.errors import UsageError

REACH = 63  # seven bits: two products of 255 with more would not fit the 16 bits that processors without VNNI add in


def quantise(model: onnx.ModelProto) -> None:
    """Every product with a constant matrix, in place. A head is a Gemm, since it sees vectors, not sequences."""
    graph = model.graph
    weights = {each.name: each for each in graph.initializer}
    chosen = {node.output[0]: node.input[1] for node in graph.node if _is_linear(node, weights)}
    if not chosen:
        raise UsageError("int8 is for linear layers, and this model has none but in its head: leave out --precision")
    nodes, scaled = list[NodeProto](), set[str]()
    for node in graph.node:
        if node.output[0] not in chosen:
            nodes.append(node)
            continue
        given = node.input[0]
        if given not in scaled:
            scaled.add(given)
            nodes.append(helper.make_node("DynamicQuantizeLinear", [given], _names(given), f"{given}_int8"))
        nodes += _product(node)
    taken = set(chosen.values())
    replaced = [each for name in sorted(taken) for each in _quantised(name, numpy_helper.to_array(weights[name]))]
    kept = [each for each in graph.initializer if each.name not in taken]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend([*kept, *replaced])


def _is_linear(node: NodeProto, weights: Mapping[str, TensorProto]) -> bool:
    return node.op_type == "MatMul" and node.input[1] in weights and len(weights[node.input[1]].dims) == 2


def _names(given: str) -> list[str]:
    """Numbers, scale and zero point of what is quantised."""
    return [f"{given}_int8", f"{given}_scale", f"{given}_zero"]


def _product(node: NodeProto) -> Iterator[NodeProto]:
    """(a - zero) b in whole numbers, then times both scales."""
    (numbers, scale, zero), (weight, scales, none) = (_names(name) for name in node.input)
    name = node.output[0]
    yield helper.make_node("MatMulInteger", [numbers, weight, zero, none], [f"{name}_whole"], f"{name}_whole")
    yield helper.make_node("Cast", [f"{name}_whole"], [f"{name}_float"], f"{name}_float", to=TensorProto.FLOAT)
    yield helper.make_node("Mul", [scale, scales], [f"{name}_scales"], f"{name}_scales")
    yield helper.make_node("Mul", [f"{name}_float", f"{name}_scales"], [name], name)


def _quantised(name: str, weight: NDArray[np.float32]) -> Iterator[TensorProto]:
    """A matrix (inputs, outputs) with a scale for each output."""
    numbers, scale, zero = _names(name)
    largest = np.abs(weight).max(0)
    scales = np.where(largest > 0, largest / REACH, 1).astype(np.float32)
    yield numpy_helper.from_array(np.rint(weight / scales).astype(np.int8), numbers)
    yield numpy_helper.from_array(scales, scale)
    yield numpy_helper.from_array(np.zeros(len(scales), np.int8), zero)
