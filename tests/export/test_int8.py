"""int8 by onnxruntime's operators: what is quantised, how finely, and what is left alone."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from patchwords.errors import UsageError
from patchwords.export.int8 import REACH, quantise


def product(weight: np.ndarray) -> onnx.ModelProto:
    """x to x W, where both are also multiplied with each other, as in attention."""
    width = weight.shape[0]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "y"), helper.make_node("MatMul", ["y", "y"], ["z"], "z")]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "z")],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["y"], {"x": x})[0]


def test_a_product_with_a_matrix_is_near_and_one_of_activations_stays() -> None:
    draw = np.random.default_rng(0)
    weight = (draw.standard_normal((64, 64)) * np.geomspace(1e-3, 1e3, 64)).astype(np.float32)  # outputs differ in size
    x = draw.standard_normal((64, 64)).astype(np.float32)
    model = product(weight)
    quantise(model)
    assert [node.op_type for node in model.graph.node] == [
        *("DynamicQuantizeLinear", "MatMulInteger", "Cast", "Mul", "Mul"),
        "MatMul",
    ]
    error = np.abs(run(model, x) - x @ weight) / np.abs(x @ weight).max(0)
    assert error.max() < 0.05
    assert not np.array_equal(run(model, x), x @ weight)


def test_two_products_fit_the_sixteen_bits_of_processors_without_vnni() -> None:
    assert 2 * 255 * REACH < 1 << 15


def test_an_output_that_is_always_zero_stays_zero() -> None:
    weight = np.zeros((8, 8), np.float32)
    weight[:, 1] = 1
    model = product(weight)
    quantise(model)
    assert not run(model, np.ones((8, 8), np.float32))[:, 0].any()


def test_the_head_stays(exported) -> None:
    model = onnx.load(exported(precision="int8").path)
    kinds = {each.name: each.data_type for each in model.graph.initializer}
    heads = [node for node in model.graph.node if node.op_type == "Gemm"]
    assert [kinds[node.input[1]] for node in heads] == [TensorProto.FLOAT]
    matrices = [each for each in model.graph.initializer if len(each.dims) == 2 and each.data_type == TensorProto.INT8]
    assert len(matrices) == 4 * 2  # qkv, out and the MLP's two, of two blocks


def test_a_graph_without_linear_layers_is_refused() -> None:
    model = product(np.ones((8, 8), np.float32))
    del model.graph.node[0]
    with pytest.raises(UsageError, match="none but in its head"):
        quantise(model)
