"""q, k and v side by side, by the kernel and by its plain twin."""

import pytest
import torch

from patchwords.speed.kernels import pack as plain

pack_triton = pytest.importorskip("patchwords.speed.kernels.pack_triton", reason="Triton is not installed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width"), [(1, 8), (70, 64), (33, 200)])
def test_twins(rows: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
    q, k, v = (torch.randn(rows, width, device=device).to(dtype) for _ in range(3))
    (packed, sums), (expected, totals) = pack_triton.pack(q, k, v), plain.pack(q, k, v)
    assert torch.equal(packed, expected)
    torch.testing.assert_close(sums, totals, atol=1e-4, rtol=1e-4)
