"""Small pictures from memory."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from patchwords.bench.small import Asked, small
from patchwords.errors import UsageError

CPU = torch.device("cpu")


class Transforms(ModuleType):
    """torchvision's, as far as they are asked for."""

    def __init__(self) -> None:
        super().__init__("torchvision.transforms")
        self.made: list[str] = []

    def Compose(self, steps: list[Any]) -> Any:  # noqa: N802
        return lambda picture: torch.rand(3, picture.height, picture.width)

    def __getattr__(self, name: str) -> Any:
        return lambda *given, **named: self.made.append(name)


def asked(**given: Any) -> Asked:
    usual = {"model": "ViT-Lite-2/4", "device": CPU, "batch": 4, "count": 16, "precision": "float32", "workers": 0}
    return Asked(**usual | given)


def test_ours_and_the_customary_loop(
    timm: ModuleType, uncompiled: object, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    transforms = Transforms()
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.transforms", transforms)
    ours, theirs = small(asked(), heard.append).rows
    assert (ours.who, theirs.named) == ("ours", "timm compiled")
    assert ours.ratios["timm compiled float32"] > 0
    assert transforms.made == ["RandomCrop", "RandomHorizontalFlip", "ToTensor", "Normalize"]
    (theirs,) = small(asked(precision="fp8", who=("timm",)), heard.append).rows
    assert theirs.precision == "bf16"


def test_fewer_pictures_than_a_batch_are_refused() -> None:
    with pytest.raises(UsageError, match="count"):
        asked(count=3)
