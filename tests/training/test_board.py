"""The metrics for TensorBoard."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from patchwords.errors import UsageError
from patchwords.training.board import board


class Writer:
    """Stands for TensorBoard's."""

    made: list["Writer"] = []  # noqa: RUF012

    def __init__(self, folder: str):
        self.folder, self.scalars, self.flushed = folder, [], 0
        self.made.append(self)

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None:
        self.flushed += 1


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> type[Writer]:
    stand_in: Any = ModuleType("torch.utils.tensorboard")
    stand_in.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
    Writer.made.clear()
    return Writer


def test_every_number_of_a_row_becomes_a_scalar_under_its_kind(writer: type[Writer], tmp_path: Path) -> None:
    write = board(tmp_path)
    write({"kind": "train", "step": 12, "epoch": 0.5, "seconds": 2.5, "loss": 1.25, "lr": 1e-3})
    write({"kind": "val", "step": 24, "epoch": 1.0, "accuracy": 0.5, "count": 7})
    (made,) = writer.made
    assert made.folder == str(tmp_path / "tensorboard")
    assert made.scalars == [
        ("train/loss", 1.25, 12),
        ("train/lr", 1e-3, 12),
        ("val/accuracy", 0.5, 24),
        ("val/count", 7, 24),
    ]
    assert made.flushed == 2


def test_without_the_package_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UsageError, match=r"pip install 'patchwords\[tensorboard\]'"):
        board(tmp_path)


def test_what_is_no_number_is_left_out(writer: type[Writer], tmp_path: Path) -> None:
    board(tmp_path)({"kind": "val", "step": 1, "epoch": 1.0, "note": "x", "none": None, "table": SimpleNamespace()})
    assert writer.made[0].scalars == []
