"""The door to the GPU's decoder: whole lists at once, and one that is refused does not take the others with it."""

import importlib
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from patchwords.data import nvjpeg

CPU = torch.device("cpu")
CALLS: list[int] = []


class Library:
    """As torchvision.io is, but a file is decoded to its first byte, and an empty one refused."""

    ImageReadMode = SimpleNamespace(RGB="RGB")

    @staticmethod
    def decode_jpeg(files: list[Tensor], mode: str, device: torch.device) -> list[Tensor]:
        CALLS.append(len(files))
        assert mode == "RGB"
        if any(len(file) and int(file[0]) == 77 for file in files):
            raise torch.OutOfMemoryError("the device is full")
        if not all(len(file) for file in files):
            raise RuntimeError("Error while decoding JPEG images: 2")
        return [torch.full((3, 2, 2), int(file[0]), dtype=torch.uint8, device=device) for file in files]


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    stream = SimpleNamespace(synchronize=lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(importlib, "import_module", {"torchvision.io": Library}.__getitem__)


def files(*first: int | None) -> list[Tensor]:
    return [torch.tensor([] if byte is None else [byte, 9], dtype=torch.uint8) for byte in first]


def test_all_are_decoded_at_once() -> None:
    found = nvjpeg.decode(files(3, 1, 2), CPU)
    assert [int(picture[0, 0, 0]) for picture in found if picture is not None] == [3, 1, 2]
    assert CALLS == [3]


def test_one_that_is_refused_is_none_and_the_others_are_there() -> None:
    found = nvjpeg.decode(files(3, None, 2, None), CPU)
    assert [None if picture is None else int(picture[0, 0, 0]) for picture in found] == [3, None, 2, None]


def test_memory_that_is_full_is_no_matter_of_the_files() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        nvjpeg.decode(files(3, 77), CPU)
    assert CALLS == [2]


def test_whether_it_works_is_found_by_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nvjpeg.objection(CPU) == ""
    assert CALLS == [1]

    def without(*_: object, **__: object) -> None:
        raise RuntimeError("decode_jpegs_cuda: torchvision not compiled with nvJPEG support\nand a trace")

    monkeypatch.setattr(Library, "decode_jpeg", without)
    assert nvjpeg.objection(CPU) == "torchvision says: decode_jpegs_cuda: torchvision not compiled with nvJPEG support"
