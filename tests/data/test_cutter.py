"""Pictures that the device decodes and cuts are those that Pillow decodes and cuts, whatever kind of file they are."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from patchwords.data import nvjpeg, uncut
from patchwords.data.cutter import Cutter
from patchwords.data.decoder import Decoder
from patchwords.data.glimpses import Glimpses
from patchwords.data.loader import Cut
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.transforms import CropKind, PaddedCrop, RandomCrop, WholeCrop
from patchwords.data.uncut import Collect, Uncut, together
from patchwords.errors import ResourceError

CPU = torch.device("cpu")
ORIENTATION = 0x0112  # the camera's note
SMALL = Preprocess(size=(20, 24), interpolation="bicubic")


def smooth(height: int, width: int) -> Image.Image:
    rows, cols = np.mgrid[0:height, 0:width]
    waves = [128 + 90 * np.sin(rows / 9 + shift) * np.cos(cols / 11 - shift) for shift in (0, 1, 2)]
    return Image.fromarray(np.stack(waves, axis=2).astype(np.uint8))


def written(image: Image.Image, kind: str = "JPEG", turn: int = 1, **options: object) -> bytes:
    tags, file = Image.Exif(), io.BytesIO()
    tags[ORIENTATION] = turn
    image.save(file, kind, exif=tags, **options)  # type: ignore[arg-type]
    return file.getvalue()


COMMON: dict[str, bytes] = {
    "4:2:0": written(smooth(60, 71), subsampling="4:2:0", quality=90),
    "4:2:2": written(smooth(60, 71), subsampling="4:2:2", quality=90),
    "4:4:4": written(smooth(60, 71), subsampling="4:4:4", quality=90),
    "poor": written(smooth(75, 64), quality=40),
    "odd": written(smooth(33, 47), quality=90),
    **{f"turned {turn}": written(smooth(48, 61), turn=turn, quality=90) for turn in range(2, 9)},
}
ENDED = written(smooth(50, 60)) + b"\r\n\0\0"  # some programs leave this behind
COMMON["with something behind"] = ENDED
OTHERS: dict[str, bytes] = {  # which Pillow alone decodes
    "progressive": written(smooth(60, 71), progressive=True),
    "grey": written(smooth(60, 71).convert("L")),
    "cmyk": written(smooth(60, 71).convert("CMYK")),
    "tiny": written(smooth(9, 50)),
    "png": written(smooth(60, 71), "PNG"),
    "webp": written(smooth(60, 71), "WEBP"),
}
EVERY = COMMON | OTHERS


def by_pillow(files: Sequence[Tensor], device: torch.device) -> list[Tensor | None]:
    """What stands for the GPU where there is none: it knows nothing of orientation, and refuses what begins with 0."""
    found: list[Tensor | None] = []
    for file in files:
        image = Image.open(io.BytesIO(file.numpy().tobytes()))
        assert image.format == "JPEG"
        assert image.mode == "RGB"
        found.append(torch.from_numpy(np.array(image)).permute(2, 0, 1).to(device))
    return found


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "gpu" not in request.keywords:
        monkeypatch.setattr(nvjpeg, "decode", by_pillow)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    names = [f"{number:02}.jpg" for number in range(len(EVERY))]
    for name, content in zip(names, EVERY.values(), strict=True):
        (tmp_path / name).write_bytes(content)
    return Files(tmp_path, Names(names), np.arange(len(EVERY)))


def needs(decoder: str) -> None:
    if decoder == "simplejpeg":
        pytest.importorskip("simplejpeg")


def task(count: int = len(EVERY)) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(count), np.arange(count) % 3


def collected(cut: Cut, decoder: Decoder) -> Uncut:
    return Collect(cut, decoder)(task(len(cut.source)))


def shown(cut: Cut, decoder: Decoder, device: torch.device = CPU) -> dict[str, np.ndarray]:
    crops, damages = Cutter(cut, device, print)(collected(cut, decoder))
    assert damages == []
    return {name: stack.cpu().numpy().astype(int) for name, stack in crops.items()}


DECODERS = pytest.mark.parametrize("decoder", ["simplejpeg", "nvjpeg"])
CROPS = [RandomCrop(scale=(0.2, 1.0)), PaddedCrop(pixels=3), WholeCrop()]


@DECODERS
@pytest.mark.parametrize("crop", CROPS, ids=lambda crop: crop.kind)
@pytest.mark.parametrize("orientation", ["upright", "stored"])
def test_every_kind_of_file_is_cut_as_pillow_cuts_it(
    files: Files, crop: CropKind, orientation: str, decoder: Decoder
) -> None:
    needs(decoder)
    cut = Cut(files, crop, Preprocess(size=(20, 24), orientation=orientation), 3, seed=1)  # type: ignore[arg-type]
    found, wanted = shown(cut, decoder)["image"][:, 0], cut(task()).images
    for name, one, other in zip(EVERY, found, wanted, strict=True):
        assert np.abs(one - other).max() <= 1, name


@pytest.mark.gpu
@pytest.mark.parametrize("orientation", ["upright", "stored"])
def test_a_gpu_decodes_every_kind_as_pillow_does(files: Files, orientation: str) -> None:
    cut = Cut(files, RandomCrop(), Preprocess(size=(20, 24), orientation=orientation), 3, seed=1)  # type: ignore[arg-type]
    found, wanted = shown(cut, "nvjpeg", torch.device("cuda"))["image"][:, 0], cut(task()).images
    for name, one, other in zip(EVERY, found, wanted, strict=True):
        assert np.abs(one - other).mean() <= 2, name
        assert np.quantile(np.abs(one - other), 0.99) <= 8, name


@DECODERS
def test_only_common_files_are_left_to_the_device(files: Files, decoder: Decoder) -> None:
    needs(decoder)
    found = collected(Cut(files, RandomCrop(), SMALL, 3, 1), decoder)
    left = [name for name, content in zip(EVERY, found.contents, strict=True) if content is not None]
    done = [name for name, crops in zip(EVERY, found.crops, strict=True) if crops is not None]
    assert left == list(COMMON)
    assert done == list(OTHERS)


@DECODERS
def test_several_crops_of_a_picture_are_decoded_once(
    files: Files, decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(decoder)
    glimpses = Glimpses(large=1, small=2, size=(10, 12))
    cut = Cut(files, RandomCrop(), SMALL, 3, 1, glimpses)
    found, wanted = shown(cut, decoder), cut(task())
    assert found.keys() == {"image", "large", "small"}
    assert np.abs(found["image"][:, 0] - wanted.images).max() <= 1
    for name, stack in wanted.further.items():
        assert found[name].shape == stack.shape
        assert np.abs(found[name] - stack).max() <= 1


@DECODERS
def test_addresses_and_labels_are_those_of_the_pictures(files: Files, decoder: Decoder) -> None:
    needs(decoder)
    found, (indices, views) = collected(Cut(files, RandomCrop(), SMALL, 3, 1), decoder), task()
    assert np.array_equal(found.indices, indices)
    assert np.array_equal(found.views, views)
    assert np.array_equal(found.labels, indices)


@DECODERS
def test_pieces_together_are_the_whole(files: Files, decoder: Decoder) -> None:
    needs(decoder)
    cut = Cut(files, RandomCrop(), SMALL, 3, 1)
    indices, views = task()
    parts = [Collect(cut, decoder)((indices[part], views[part])) for part in (slice(0, 5), slice(5, 6), slice(6, None))]
    crops, _ = Cutter(cut, CPU, print)(together(parts))
    assert np.array_equal(crops["image"].numpy().astype(int), shown(cut, decoder)["image"])


# Broken pictures

TEXT = b"this is no picture at all"
TORN = COMMON["4:2:0"][:-400]


@pytest.fixture
def damaged(tmp_path: Path) -> Files:
    contents = [COMMON["4:4:4"], TORN, TEXT, COMMON["4:2:0"], b"", OTHERS["png"], OTHERS["png"][:-300]]
    names = [f"{number}.jpg" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_bytes(content)
    return Files(tmp_path, Names(names), np.arange(len(contents)))


@DECODERS
def test_what_is_broken_is_named_and_replaced_as_pillow_does_it(damaged: Files, decoder: Decoder) -> None:
    needs(decoder)
    cut = Cut(damaged, RandomCrop(), SMALL, 3, 1)
    found, wanted = collected(cut, decoder), cut(task(7))
    assert found.labels.tolist() == wanted.labels.tolist() == [0, 3, 3, 3, 5, 5, 0]
    assert sorted(found.damages) == sorted(wanted.damages)
    crops, _ = Cutter(cut, CPU, print)(found)
    assert np.abs(crops["image"][:, 0].numpy().astype(int) - wanted.images).max() <= 1


def test_what_the_device_refuses_goes_to_pillow_and_is_said_once(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(some: Sequence[Tensor], device: torch.device) -> list[Tensor | None]:
        return [None if number in (1, 4) else one for number, one in enumerate(by_pillow(some, device))]

    monkeypatch.setattr(nvjpeg, "decode", refusing)
    cut, notes = Cut(files, RandomCrop(), SMALL, 3, 1), []
    cutter = Cutter(cut, CPU, notes.append)
    for _ in range(2):
        crops, damages = cutter(collected(cut, "nvjpeg"))
        assert damages == []
        assert np.abs(crops["image"][:, 0].numpy().astype(int) - cut(task()).images).max() <= 1
    (note,) = notes
    assert "refused by the GPU" in note


def test_what_both_refuse_is_broken_and_replaced(damaged: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file would be that is whole to look at, and breaks when it is decoded."""
    monkeypatch.setattr(nvjpeg, "decode", lambda files, device: [None] * len(files))
    monkeypatch.setattr(uncut.Collect, "_content", lambda self, raw, *_: np.frombuffer(bytearray(raw), np.uint8))
    cut = Cut(damaged, RandomCrop(), SMALL, 3, 1)
    found, wanted = collected(cut, "nvjpeg"), cut(task(7))
    crops, damages = Cutter(cut, CPU, print)(found)
    assert found.labels.tolist() == wanted.labels.tolist()
    assert {damage.name for damage in found.damages + damages} == {damage.name for damage in wanted.damages}
    assert np.array_equal(crops["image"][:, 0].numpy(), wanted.images)


def test_memory_that_is_full_is_an_error_that_says_what_to_do(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("the device is full")

    monkeypatch.setattr(nvjpeg, "decode", full)
    cut = Cut(files, RandomCrop(), SMALL, 3, 1)
    with pytest.raises(ResourceError, match=r"19 pictures.*data\.decoder"):
        Cutter(cut, CPU, print)(collected(cut, "nvjpeg"))


def test_no_picture_at_all_is_left_to_the_device(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(OTHERS["png"])
    cut = Cut(Files(tmp_path, Names(["0.jpg"]), np.array([7])), WholeCrop(), SMALL, 3, 0)
    crops, _ = Cutter(cut, CPU, print)(Collect(cut, "nvjpeg")(task(1)))
    assert np.array_equal(crops["image"][:, 0].numpy(), cut(task(1)).images)
