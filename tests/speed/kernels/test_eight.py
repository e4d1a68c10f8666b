"""Products in eight bits, and the matrices for them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from patchwords.speed.kernels import eight as plain
from patchwords.speed.kernels import product_cublas
from patchwords.speed.kernels.norm import EightRows, rounded

eight_triton = pytest.importorskip("patchwords.speed.kernels.eight_triton", reason="Triton is not installed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(37, 96), (1030, 20), (16, 16), (3, 1)])
def test_a_matrix_is_turned(
    shape: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
    same_eight: Callable[[EightRows, EightRows], None],
) -> None:
    matrix = torch.randn(shape, device=device).to(dtype)
    matrix[:, 0] *= 1000  # an input that is another size than the others
    matrix[:, -1] *= 1e-9
    found = eight_triton.turned(matrix)
    assert found.rows.is_contiguous()
    same_eight(found, plain.turned(matrix))


def test_a_number_halfway_between_two_may_become_either(
    device: torch.device, same_eight: Callable[[EightRows, EightRows], None]
) -> None:
    matrix = torch.tensor([[-4.954636096954346e-07], [-1.996755599975586e-06], [1.4975666999816895e-06]], device=device)
    same_eight(eight_triton.turned(matrix), plain.turned(matrix))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the library's product with these scales is for GPUs")
@pytest.mark.parametrize("biased", [True, False])
def test_the_library_computes_what_the_plain_product_does(biased: bool, device: torch.device) -> None:
    x, matrix = rounded(torch.randn(37, 96, device=device)), rounded(torch.randn(48, 96, device=device))
    bias = torch.randn(48, device=device).to(torch.bfloat16) if biased else None
    found, expected = (
        each(*x, matrix.rows, matrix.scale.T, bias).double() for each in (plain.scaled_product, plain.product)
    )
    assert (found - expected).norm() <= 8e-3 * expected.norm()


@pytest.mark.parametrize("change", ["nothing", "few", "sixteen", "odd", "shifted", "turned", "scales", "single"])
def test_what_the_library_does_not_take_is_left_to_torch(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were on a GPU."""

    class There(Tensor):
        is_cuda = True

    monkeypatch.setattr(product_cublas, "missing", lambda: "")
    monkeypatch.setattr(product_cublas, "ALIGNED", 16)
    x, matrix = rounded(torch.randn(4096, 64)), rounded(torch.randn(33, 64))
    rows, scale, weights, weight_scale = *x, matrix.rows[:32], matrix.scale[:32].T
    y = torch.randn(4096, 32).to(torch.bfloat16)
    if change == "few":
        rows, scale = rows[:4080], scale[:4080]
    elif change == "sixteen":
        rows = rows.to(torch.bfloat16)
    elif change == "odd":
        weights, weight_scale, y = weights[:24], weight_scale[:, :24], y[:, :24].contiguous()
    elif change == "shifted":
        rows = torch.cat([rows.view(torch.uint8).flatten(), torch.zeros(8, dtype=torch.uint8)])[8:].view(4096, 64)
        rows = rows.view(torch.float8_e4m3fn)
    elif change == "turned":
        weights = weights.view(torch.uint8).T.contiguous().T.view(torch.float8_e4m3fn)
    elif change == "scales":
        scale = scale.double()
    elif change == "single":
        y = y.float()
    assert product_cublas.taken_eight(rows.as_subclass(There), scale, weights, weight_scale, y) == (change == "nothing")


def test_an_outlier_spoils_its_own_row_alone() -> None:
    x, matrix = torch.randn(8, 64), torch.randn(32, 64)
    x[3, 5], matrix[9, 5] = 1e6, 1e6
    y = plain.product(*rounded(x), rounded(matrix).rows, rounded(matrix).scale.T, None).float()
    dy = torch.randn(8, 32)
    back = plain.turned(matrix)
    dx = plain.product(*rounded(dy), back.rows, back.scale.T, None).float()
    for found, expected, row, col in ((y, x @ matrix.T, 3, 9), (dx, dy @ matrix, None, 5)):
        usual = torch.ones_like(found, dtype=torch.bool)
        usual[:, col] = False
        if row is not None:
            usual[row] = False
        assert (found - expected)[usual].norm() < 0.06 * expected[usual].norm()
