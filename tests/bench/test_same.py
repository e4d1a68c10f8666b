"""Logits are compared by their size, and what is too far is refused with a sentence."""

import pytest
import torch

from patchwords.bench.same import NEAR, difference, exact, expect_same
from patchwords.errors import ModelError


def test_the_difference_is_a_share_of_the_logits() -> None:
    wanted = torch.randn(8, 10)
    assert difference(1.01 * wanted, wanted) == pytest.approx(0.01, rel=1e-4)
    assert difference(100 * 1.01 * wanted, 100 * wanted) == pytest.approx(0.01, rel=1e-4)


@pytest.mark.parametrize("precision", NEAR)
def test_too_far_is_refused(precision: str) -> None:
    wanted = torch.randn(8, 10)
    near, far = (1 + 0.5 * NEAR[precision]) * wanted, (1 + 2 * NEAR[precision]) * wanted
    assert expect_same("timm", near, wanted, precision) < NEAR[precision]
    with pytest.raises(ModelError, match=f"timm in {precision} computes other logits"):
        expect_same("timm", far, wanted, precision)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ModelError, match="other logits"):
        expect_same("timm", torch.full((2, 3), torch.nan), torch.randn(2, 3), "bf16")


def test_zeros_prove_nothing() -> None:
    with pytest.raises(ModelError, match="all zero"):
        expect_same("timm", torch.zeros(2, 3), torch.zeros(2, 3), "float32")


def test_another_shape_is_refused() -> None:
    with pytest.raises(ModelError, match=r"\[2, 4\]"):
        expect_same("timm", torch.zeros(2, 4), torch.zeros(2, 3), "float32")


def test_exactness_ends_with_its_block() -> None:
    before = torch.backends.cudnn.allow_tf32
    with exact():
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32 == before
