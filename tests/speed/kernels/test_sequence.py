"""Sequences by the kernel and by its plain twin."""

import pytest
import torch

from patchwords.speed.kernels import sequence as plain

sequence_triton = pytest.importorskip("patchwords.speed.kernels.sequence_triton", reason="Triton is not installed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("batch", "count", "prefix", "width"), [(2, 9, 1, 48), (3, 4, 0, 64), (1, 6, 3, 129)])
def test_twins(batch: int, count: int, prefix: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
    patches = torch.randn(batch, count, width, device=device).to(dtype)
    front, rows = torch.randn(prefix, width, device=device), torch.randn(count, width, device=device)
    expected = plain.sequence(patches, front, rows, dtype)
    assert expected.shape == (batch, prefix + count, width)
    torch.testing.assert_close(sequence_triton.sequence(patches, front, rows, dtype), expected)
    torch.testing.assert_close(expected[:, prefix:], (patches.float() + rows).to(dtype))
