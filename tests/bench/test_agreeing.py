"""A model that learned something, on the spot."""

import torch

from patchwords.bench.agreeing import Asked, agreeing, trained

CPU = torch.device("cpu")


def asked(**given: object) -> Asked:
    usual = {
        "model": "ViT-Mu/8",
        "device": CPU,
        "precisions": ("float32",),
        "image": 16,
        "classes": 2,
        "learns": "float32",
    }
    return Asked(**usual | {"steps": 40, "batch": 32, "shown": 64} | given)


def test_it_learns_and_is_plain_again(heard: list[str]) -> None:
    model = trained(asked(), heard.append)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not any("forward" in vars(part) for part in model.modules())


def test_it_tells_how_good_it_is_and_how_often_it_agrees(heard: list[str]) -> None:
    (row,) = agreeing(asked(steps=2), heard.append).rows
    assert row.further["agreement"] == 1.0
    assert any("kinds of gratings" in remark for remark in heard)
