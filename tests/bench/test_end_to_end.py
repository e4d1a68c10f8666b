"""From files to updated weights, ours and the customary loop."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from patchwords.bench.end_to_end import Asked, end_to_end

CPU = torch.device("cpu")


def asked(**given: Any) -> Asked:
    usual = {"model": "ViT-Mu/8", "device": CPU, "batch": 2, "count": 12, "classes": 5, "image": (16, 16)}
    return Asked(**usual | {"precision": "float32", "workers": 0} | given)


def test_an_epoch_of_both(timm: ModuleType, uncompiled: object, heard: list[str]) -> None:
    def create_loader(dataset: str, **given: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return iter([(torch.rand(2, 3, 16, 16), torch.rand(2, 5)) for _ in range(6)])

    vars(sys.modules["timm.data"]).update(
        ImageDataset=lambda folder: folder, FastCollateMixup=lambda **given: given, create_loader=create_loader
    )
    ours, theirs = end_to_end(asked(), heard.append).rows
    assert ours.further.keys() == {"epoch", "steady", "resident", "busy"}
    assert ours.further["busy"] == ours.further["steady"] / ours.further["resident"]
    assert ours.ratios["timm compiled epoch"] == ours.further["epoch"] / theirs.further["epoch"]
    assert ours.ratios["timm compiled float32"] == ours.images_per_second / theirs.images_per_second


def test_a_loader_that_breaks_is_a_remark(timm: ModuleType, uncompiled: object, heard: list[str]) -> None:
    def create_loader(dataset: str, **given: Any) -> None:
        raise ValueError("Caught ValueError in worker 0\nbits are wrong")

    vars(sys.modules["timm.data"]).update(
        ImageDataset=lambda folder: folder, FastCollateMixup=lambda **given: given, create_loader=create_loader
    )
    (ours,) = end_to_end(asked(), heard.append).rows
    assert ours.ratios == {}
    assert "timm does not run: ValueError: bits are wrong" in heard
