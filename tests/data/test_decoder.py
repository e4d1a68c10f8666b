"""Which decoder is used: the one that is asked for or a reason why not, and else the fastest that is there."""

from collections.abc import Iterable

import pytest
import torch

from patchwords.data import decoder, nvjpeg
from patchwords.data.decoder import Decoder, chosen
from patchwords.data.loader import Loading
from patchwords.errors import UsageError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
BOTH = ("simplejpeg", "torchvision")


def only(installed: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing else were installed."""
    monkeypatch.setattr(decoder, "find_spec", lambda name: object() if name in installed else None)
    monkeypatch.setattr(nvjpeg, "objection", lambda device: "")


@pytest.mark.parametrize(
    ("installed", "device", "channels", "expected"),
    [
        (BOTH, CUDA, 3, "nvjpeg"),
        (["simplejpeg"], CUDA, 3, "pillow"),
        ([], CUDA, 3, "pillow"),
        (BOTH, CUDA, 1, "pillow"),
        (BOTH, CPU, 3, "pillow"),
    ],
)
def test_the_fastest_that_can_be_used_is_chosen_and_said(
    installed: list[str], device: torch.device, channels: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(installed, monkeypatch)
    notes: list[str] = []
    assert chosen("auto", device, channels, notes.append) == expected
    assert notes == [f"JPEG files are decoded by {expected}"]


@pytest.mark.parametrize("name", ["pillow", "simplejpeg", "nvjpeg"])
def test_what_is_asked_for_is_taken(name: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    only(BOTH, monkeypatch)
    assert chosen(name, CUDA, 3, print) == name


@pytest.mark.parametrize(
    ("name", "installed", "device", "channels", "reason"),
    [
        ("nvjpeg", ["simplejpeg"], CUDA, 3, "torchvision is not installed"),
        ("simplejpeg", ["torchvision"], CUDA, 3, "simplejpeg is not installed"),
        ("nvjpeg", BOTH, CPU, 3, "the device is cpu"),
        ("simplejpeg", BOTH, CPU, 3, "the device is cpu"),
        ("nvjpeg", BOTH, CUDA, 1, "the model takes 1"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    name: Decoder,
    installed: list[str],
    device: torch.device,
    channels: int,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(installed, monkeypatch)
    with pytest.raises(UsageError, match=f"{reason}.*pillow"):
        chosen(name, device, channels, print)


def test_another_name_is_refused() -> None:
    with pytest.raises(UsageError, match="opencv"):
        Loading(decoder="opencv")  # type: ignore[arg-type]


def test_a_library_that_does_not_work_is_passed_over_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    only(BOTH, monkeypatch)
    monkeypatch.setattr(nvjpeg, "objection", lambda device: "torchvision says: not compiled with nvJPEG")
    assert chosen("auto", CUDA, 3, lambda note: None) == "pillow"
    with pytest.raises(UsageError, match=r"not compiled with nvJPEG.*pillow"):
        chosen("nvjpeg", CUDA, 3, print)
