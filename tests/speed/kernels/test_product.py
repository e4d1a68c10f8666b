"""Products by cuBLASLt are those of torch; the algorithm is measured once, but not where bits must stay."""

import ctypes
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from patchwords.speed.kernels import product as plain
from patchwords.speed.kernels import product_cublas
from patchwords.speed.kernels.product_cublas import MANY, Found, quickest, taken

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="cuBLASLt is for GPUs")
SHAPES = [(MANY, 64, 192), (MANY + 8, 768, 2304), (2 * MANY, 256, 96)]  # rows, width, out


@pytest.fixture(autouse=True)
def again() -> Iterator[None]:
    """What was measured is forgotten."""
    product_cublas._shape.cache_clear()
    yield
    torch.use_deterministic_algorithms(False)


def drawn(rows: int, width: int, out: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shapes = (rows, width), (out, width), (out,), (rows, out)
    x, matrix, bias, dy = (torch.randn(shape, device=device).to(torch.bfloat16) for shape in shapes)
    return x, matrix, bias, dy


def near(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert found.dtype == torch.bfloat16
    assert (found.double() - expected).norm() <= 4e-3 * expected.norm()


@on_a_gpu
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_products(shape: tuple[int, int, int], device: torch.device) -> None:
    assert not product_cublas.missing()
    x, matrix, bias, dy = drawn(*shape, device)
    assert taken(x, matrix, bias)
    for _ in range(2):  # measured, and chosen
        near(product_cublas.product(x, matrix, None), plain.product(x.double(), matrix.double(), None))
        for each in (bias, -bias):
            near(product_cublas.product(x, matrix, each), plain.product(x.double(), matrix.double(), each.double()))
        expected = plain.product_qkv(x.double(), matrix.double(), bias.double())
        near(product_cublas.product_qkv(x, matrix, bias), expected)
        near(product_cublas.product_back(dy, matrix), plain.product_back(dy.double(), matrix.double()))


@on_a_gpu
def test_determinism_takes_what_the_library_guesses(device: torch.device) -> None:
    x, matrix, bias, _ = drawn(*SHAPES[0], device)
    torch.use_deterministic_algorithms(True)
    first = product_cublas.product(x, matrix, bias)
    shape = product_cublas._shape(x.device, MANY, 192, 64, 192, False, True)
    assert shape.best is None
    torch.use_deterministic_algorithms(False)
    product_cublas.product(x, matrix, bias)
    assert shape.best is not None
    torch.use_deterministic_algorithms(True)
    assert torch.equal(product_cublas.product(x, matrix, bias), first)


@on_a_gpu
def test_a_graph_is_recorded_whether_it_was_measured_or_not(device: torch.device) -> None:
    x, matrix, bias, _ = drawn(*SHAPES[1], device)
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = product_cublas.product(x, matrix, bias)
        x.copy_(torch.randn_like(x))
        graph.replay()
        near(found, plain.product(x.double(), matrix.double(), bias.double()))
        product_cublas.product(x, matrix, bias)


def test_q_alone_has_its_bias() -> None:
    x, matrix, bias = torch.randn(5, 4), torch.randn(9, 4), torch.randn(9)
    found, whole = plain.product_qkv(x, matrix, bias), plain.product(x, matrix, bias)
    torch.testing.assert_close(found[:, :3], whole[:, :3])
    torch.testing.assert_close(found[:, 3:] + bias[3:], whole[:, 3:])
    torch.testing.assert_close(plain.product_qkv(x, matrix, None), plain.product(x, matrix, None))


@pytest.mark.parametrize("change", ["few", "single", "turned", "odd", "shifted"])
def test_what_is_not_taken_is_made_by_torch(change: str, device: torch.device) -> None:
    x, matrix, bias, _ = drawn(MANY, 64, 32, device)
    if change == "few":
        x = x[:16]
    elif change == "single":
        x, matrix, bias = x.float(), matrix.float(), bias.float()
    elif change == "turned":
        matrix = matrix.T.contiguous().T
    elif change == "odd":
        matrix, bias = matrix[:31], bias[:31]
    elif change == "shifted":
        matrix, bias = matrix[1:25], bias[:24]
    assert not taken(x, matrix, bias)
    assert torch.equal(product_cublas.product(x, matrix, bias), plain.product(x, matrix, bias))


def test_the_quickest_is_that_of_most_rounds_and_a_tie_goes_to_the_guess() -> None:
    assert quickest([[3.0, 2.0, 9.0], [3.0, 2.0, 1.0], [3.0, 8.0, 9.0]]) == 1
    assert quickest([[2.0, 2.0], [2.0, 2.0]]) == 0


def test_what_the_library_fills_is_as_large_as_it_thinks() -> None:
    assert ctypes.sizeof(Found) == 96
    assert Found.workspace.offset == 64


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch has the library")
def test_a_torch_without_cuda_says_what_is_missing() -> None:
    assert product_cublas.missing() == "cuBLASLt is not there: this torch is built without CUDA"
