"""Triton's kernels are tested on a GPU where there is one, and else interpreted."""

from collections.abc import Callable

import pytest
import torch

from patchwords.speed.kernels.norm import EightRows

Same = Callable[[EightRows, EightRows], None]
STEP = 32.0  # between the largest numbers of eight bits: in a short row one that is moved is much of it


@pytest.fixture
def same_eight(device: torch.device) -> Same:
    """Scales are equal, and numbers but for some that another order of rounding moves by a step, an eighth at most.

    Triton's interpreter carries no rounding into the exponent of eight bits and knows none of the smallest numbers: it
    is not asked about powers of two and what is below them all.
    """

    def same(found: EightRows, expected: EightRows) -> None:
        assert found.rows.shape == expected.rows.shape
        assert found.rows.dtype == expected.rows.dtype == torch.float8_e4m3fn
        assert found.scale.shape == expected.scale.shape == (len(expected.rows), 1)
        torch.testing.assert_close(found.scale, expected.scale, rtol=1e-5, atol=0.0)
        one, other = found.rows.float(), expected.rows.float()
        if device.type != "cuda":
            asked = (expected.rows.view(torch.uint8) & 7 != 0) & (other.abs() > 2**-6)
            one, other = one * asked, other * asked
        assert torch.isfinite(one).all()
        assert ((one - other).norm(dim=1) <= 0.05 * other.norm(dim=1) + STEP).all()

    return same


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Other random inputs in every run: a kernel must be right for all of them."""
    torch.seed()
