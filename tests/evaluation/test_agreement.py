"""Agreement counts the pictures whose first class is the same."""

import pytest
import torch
from torch import Tensor

from patchwords.errors import UsageError
from patchwords.evaluation.agreement import BATCH, agreement


def plain(images: Tensor) -> Tensor:
    return images.flatten(1)


def test_it_is_the_share_of_pictures_with_the_same_class_first() -> None:
    images = torch.randn(2 * BATCH + 1, 1, 1, 4)

    def other(images: Tensor) -> Tensor:
        """Sees the second class first in those pictures whose first number is negative."""
        logits = plain(images).clone()
        logits[:, 1] += 100 * (logits[:, 0] < 0)
        return logits

    expected = (plain(images).argmax(1) == other(images).argmax(1)).double().mean().item()
    assert agreement(plain, other, images) == expected
    assert 0 < expected < 1


def test_scale_does_not_matter() -> None:
    assert agreement(plain, lambda images: 3 * plain(images) + 1, torch.randn(5, 1, 2, 2)) == 1.0


def test_without_pictures_there_is_none() -> None:
    with pytest.raises(UsageError, match="no pictures to agree on"):
        agreement(plain, plain, torch.empty(0, 1, 2, 2))
