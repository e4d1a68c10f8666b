"""A matrix is turned as a whole, whatever its shape."""

import pytest
import torch

from patchwords.speed.kernels import turn as plain

turn_triton = pytest.importorskip("patchwords.speed.kernels.turn_triton", reason="Triton is not installed")


@pytest.mark.parametrize("shape", [(64, 64), (48, 130), (200, 3), (1, 65)])
def test_the_kernel_turns_as_its_twin(shape: tuple[int, int], device: torch.device) -> None:
    matrix = torch.randn(shape, device=device)
    found = turn_triton.turned(matrix)
    assert found.is_contiguous()
    assert torch.equal(found, plain.turned(matrix))
    assert torch.equal(found, matrix.T)
