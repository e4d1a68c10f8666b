"""Nothing that is compared is constant."""

import torch

from patchwords.bench.values import pictures, randomised
from patchwords.models.build import build


def test_nothing_stays_constant() -> None:
    model = randomised(build("ViT-Mu/8", image=16, classes=5))
    assert [name for name, parameter in model.named_parameters() if parameter.min() == parameter.max()] == []


def test_what_had_values_keeps_them() -> None:
    before = build("ViT-Mu/8", image=16, classes=5)
    weight = before.embed.patch.weight.detach().clone()
    assert torch.equal(randomised(before).embed.patch.weight, weight)


def test_pictures_differ() -> None:
    one, other = pictures(2, 3, (4, 6), torch.device("cpu"), 2)
    assert one.shape == (2, 3, 4, 6)
    assert not torch.equal(one, other)
    assert one.std() > 0.5
