"""Pictures that are made: files as large as photographs, and gratings that can be told apart."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.bench import made
from patchwords.bench.made import gratings, photographs

CPU = torch.device("cpu")


def drawn(seed: int, count: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    return gratings(count, 20, (24, 32), CPU, torch.Generator().manual_seed(seed))


def test_files_are_as_large_as_photographs(tmp_path: Path) -> None:
    folder = photographs(tmp_path / "here", 12, 3)
    files = sorted(folder.rglob("*.jpg"))
    assert len(files) == 12
    assert sorted(place.name for place in folder.iterdir()) == ["class-0000", "class-0001", "class-0002"]
    assert 80_000 < np.mean([file.stat().st_size for file in files]) < 120_000
    with Image.open(files[0]) as picture:
        assert (picture.format, picture.size) == ("JPEG", (500, 375))
    assert len({file.read_bytes() for file in files}) == 12


def test_many_files_are_few_with_several_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "DISTINCT", 4)
    files = list(photographs(tmp_path / "here", 10, 2).rglob("*.jpg"))
    assert len(files) == 10
    assert len({file.read_bytes() for file in files}) == 4


def test_the_same_seed_makes_the_same_files(tmp_path: Path) -> None:
    one, other = (photographs(tmp_path / name, 2, 1) for name in "ab")
    assert [file.read_bytes() for file in sorted(one.rglob("*.jpg"))] == [
        file.read_bytes() for file in sorted(other.rglob("*.jpg"))
    ]


def test_a_photograph_has_detail_at_every_scale() -> None:
    view = made._view(made._scene(np.random.default_rng(0)), np.random.default_rng(1))
    half = np.asarray(Image.fromarray(view).resize((250, 188)), dtype=np.float64)
    assert view.std() > 20
    assert half.std() > 15  # not only at the finest
    assert len(made._jpeg(view, 90)) > 1.5 * len(made._jpeg(view[:, :1].repeat(500, 1), 90))
    assert Image.open(io.BytesIO(made._jpeg(view, 90))).size == (500, 375)


def test_gratings_are_pictures_with_labels() -> None:
    pixels, labels = drawn(0)
    assert (pixels.dtype, tuple(pixels.shape)) == (torch.uint8, (64, 3, 24, 32))
    assert labels.min() >= 0
    assert labels.max() < 20
    assert torch.equal(pixels, drawn(0)[0])
    assert not torch.equal(pixels, drawn(1)[0])


def test_gratings_can_be_told_apart() -> None:
    """By where the spectrum is strongest, as a model could: far more often than by chance."""
    pixels, labels = gratings(1200, 20, (48, 48), CPU, torch.Generator().manual_seed(0))
    grey = pixels.float().mean(1)
    spectrum = torch.fft.rfft2(grey - grey.mean((1, 2), keepdim=True)).abs().flatten(1)
    spectrum = spectrum / spectrum.norm(dim=1, keepdim=True)
    nearest = (spectrum[1000:] @ spectrum[:1000].T).argmax(1)
    assert (labels[:1000][nearest] == labels[1000:]).float().mean() > 0.5
