"""Sums over the programs of a kernel are those of torch."""

import pytest
import torch

sums_triton = pytest.importorskip("patchwords.speed.kernels.sums_triton", reason="Triton is not installed")


@pytest.mark.parametrize("shape", [(1, 5), (300, 2, 33), (256, 16), (513, 3, 3, 3)])
def test_every_part_counts_once(shape: tuple[int, ...], device: torch.device) -> None:
    parts = torch.randn(shape, device=device)
    found = sums_triton.summed(parts)
    torch.testing.assert_close(found.double(), parts.double().sum(0), rtol=1e-5, atol=1e-4)
    assert torch.equal(found, sums_triton.summed(parts))
