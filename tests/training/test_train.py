"""`patchwords.train`, the face of it all: what a run is told, keeps and gives back."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import patchwords
from patchwords.errors import UsageError
from patchwords.training.find_rate import find_rate
from patchwords.training.train import Run, train

TINY = {
    "parts.depth": 1,
    "parts.width": 16,
    "parts.mlp": 16,
    "parts.heads": 2,
    "parts.stochastic_depth": 0.0,
    "parts.dropout": 0.2,
    "data.crop.kind": "whole",
    "batch": 8,
    "duration": "4 steps",
    "evaluate": "4 steps",
}


class Notes:
    """A watcher that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, remark: str) -> None:
        self.said.append(remark)

    def step(self, done: int, total: int) -> None: ...

    def moment(self, moment: Any) -> None: ...

    def scored(self, row: dict[str, Any], best: bool) -> None: ...

    def working(self, what: str, done: int, total: int) -> None: ...


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Dark and light squares in three parts."""
    chance = np.random.default_rng(0)
    arrays = {}
    for part, count in {"train": 24, "val": 8, "test": 6}.items():
        labels = np.arange(count) % 2
        noise = chance.integers(0, 60, (count, 8, 8, 1))
        arrays |= {
            f"{part}_images": (noise + 150 * labels[:, None, None, None]).astype(np.uint8),
            f"{part}_labels": labels,
        }
    np.savez(tmp_path / "squares.npz", **arrays)
    return tmp_path / "squares.npz"


def tiny(data: Path, out: Path, watcher: Notes | None = None, **changes: Any) -> Run:
    change = TINY | changes
    return train(data, recipe="digits", change=change, device="cpu", out=out, watcher=watcher or Notes())


def test_the_test_part_is_scored_once_at_the_end(data: Path, tmp_path: Path) -> None:
    run = tiny(data, tmp_path / "run")
    assert run.scores.count == 8
    assert run.test is not None
    assert run.test.count == 6
    told = json.loads((tmp_path / "run/run.json").read_text())
    assert told["test"] == run.test.numbers()
    assert told["status"] == "finished"


def test_the_run_gives_back_the_model_that_was_scored(data: Path, tmp_path: Path) -> None:
    run = tiny(data, tmp_path / "run")
    model = run.model.eval()
    with np.load(data) as arrays:
        pixels = torch.from_numpy(arrays["val_images"]).permute(0, 3, 1, 2).float() / 255
        right = model((pixels - 0.5) / 0.5).argmax(1).numpy() == arrays["val_labels"]
    assert right.mean() == run.scores.accuracy
    assert vars(model)["card"].classes == ("0", "1")


def test_threads_and_determinism_end_with_the_run(data: Path, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    train(
        data,
        recipe="digits",
        change=TINY | {"threads": before + 1},
        out=tmp_path / "run",
        device="cpu",
        deterministic=True,
    )
    assert json.loads((tmp_path / "run/run.json").read_text())["environment"]["threads"] == before + 1
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_other_pieces_on_resume_are_said_and_refused_where_the_same_bits_are_wanted(data: Path, tmp_path: Path) -> None:
    tiny(data, tmp_path / "run")
    notes = Notes()
    train(resume=tmp_path / "run", change={"micro": 4}, device="cpu", watcher=notes)
    assert "micro is 4 now and was 8 before: the last bits may differ" in notes.said
    with pytest.raises(UsageError, match="micro is 2 now"):
        train(resume=tmp_path / "run", change={"micro": 2}, device="cpu", deterministic=True)


def test_a_frozen_body_does_not_drop_out(data: Path, tmp_path: Path) -> None:
    seen: list[bool] = []
    before = patchwords.layers.mlp.MLP.forward  # type: ignore[attr-defined]

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():  # not in evaluation
            seen.append(self.training)
        return before(self, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("patchwords.layers.mlp.MLP.forward", forward)
        tiny(data, tmp_path / "frozen", freeze="backbone")
        assert seen
        assert not any(seen)
        seen.clear()
        tiny(data, tmp_path / "free")
        assert all(seen)


def test_a_suggested_rate_means_what_the_recipe_means_by_it(data: Path, tmp_path: Path) -> None:
    plain = find_rate(data, recipe="digits", change=TINY, device="cpu", out=tmp_path / "1.png")
    scaled = find_rate(data, recipe="digits", change=TINY | {"optimizer.per": 16}, device="cpu", out=tmp_path / "2.png")
    assert scaled.suggestion == pytest.approx(2 * plain.suggestion, rel=0.06)  # of a batch of 8, rounded
