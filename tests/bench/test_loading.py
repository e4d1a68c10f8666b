"""Loading: our feed with every decoder that there is, and timm's loader beside it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from patchwords.bench.loading import DECODERS, Asked, loading
from patchwords.errors import UsageError

CPU = torch.device("cpu")


def asked(**given: Any) -> Asked:
    usual = {"device": CPU, "batch": 2, "count": 8, "classes": 2, "image": (32, 32), "workers": 0}
    return Asked(**usual | {"decoders": ("pillow",)} | given)


@pytest.fixture
def loader(timm: ModuleType) -> dict[str, Any]:
    """timm.data as far as it is asked; what the loader was told."""
    told: dict[str, Any] = {}

    def create_loader(dataset: str, **given: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        told.update(given, files=len(list(Path(dataset).rglob("*.jpg"))))
        shape = (given["batch_size"], *given["input_size"])
        return iter([(torch.rand(shape), torch.rand(given["batch_size"], 2)) for _ in range(8)])

    data = sys.modules["timm.data"]
    vars(data).update(
        ImageDataset=lambda folder: folder, FastCollateMixup=lambda **given: given, create_loader=create_loader
    )
    return told


def test_ours_and_timms(loader: dict[str, Any], heard: list[str]) -> None:
    ours, theirs = loading(asked(), heard.append).rows
    assert (ours.named, theirs.named) == ("ours pillow", "timm")
    assert ours.further.keys() == {"epoch", "steady"}
    assert ours.images_per_second > 0
    assert "timm" in ours.ratios
    assert loader["files"] == 8
    assert loader["auto_augment"] == "rand-m9-mstd0.5-inc1"
    assert loader["collate_fn"]["mixup_alpha"] == 0.8
    assert loader["num_workers"] == 0


def test_a_decoder_that_is_not_there_is_a_remark(lonely: None, heard: list[str]) -> None:
    (ours,) = loading(asked(decoders=("pillow", "nvjpeg")), heard.append).rows
    assert ours.how == "pillow"
    assert any('"nvjpeg" cannot be used' in remark for remark in heard)


def test_auto_is_none_of_the_decoders() -> None:
    assert "pillow" in DECODERS
    assert "auto" not in DECODERS


def test_too_few_pictures_are_refused() -> None:
    with pytest.raises(UsageError, match="too few"):
        asked(count=5)
    with pytest.raises(UsageError, match="decoder 'opencv' is not known"):
        asked(decoders=("opencv",))


def test_nothing_is_left_behind(lonely: None, heard: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("patchwords.bench.loading.shelf", lambda: tmp_path)
    loading(asked(), heard.append)
    assert list(tmp_path.iterdir()) == []
