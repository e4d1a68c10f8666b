"""`patchwords.train`, the face of it all: what a run is told, keeps and gives back."""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import patchwords
from patchwords.data.sources.door import open_data
from patchwords.errors import DataError, ModelError, PatchwordsError, UsageError
from patchwords.objectives.distill import Distill
from patchwords.training.find_rate import find_rate
from patchwords.training.recipe import read
from patchwords.training.signals import StoppedError
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


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a report, which has tests of its own."""
    monkeypatch.setattr("patchwords.training.train.report", lambda *_: None)


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


@pytest.mark.parametrize("name", ["cifar10", "flower_photos"])
def test_a_run_folder_hides_no_data_set(name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run would take its own folder for its data."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"would hide the data set {name}; choose another name"):
        train(data, out=name)
    assert not Path(name).exists()


def test_a_folder_called_digits_is_learned_from_by_its_path_alone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / "digits" / name).mkdir(parents=True)
        for number in range(5):
            Image.new("L", (8, 8), 30 * number).save(tmp_path / "digits" / name / f"{number}.png")
    plain = train("", recipe="digits", change={"duration": "1 steps"}, device="cpu")
    assert json.loads((plain.folder / "run.json").read_text())["data"] == "digits"
    assert len(json.loads((plain.folder / "classes.json").read_text())) == 10
    own = train(Path("digits"), recipe="digits", change={"duration": "1 steps"}, device="cpu")
    assert json.loads((own.folder / "run.json").read_text())["data"] == str(tmp_path / "digits")


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


def test_positions_that_started_anew_go_on_after_a_resume(data: Path, tmp_path: Path) -> None:
    tiny(data, tmp_path / "before")
    changes = {"weights": str(tmp_path / "before"), "image": [12, 12], "positions": "anew"}
    whole = tiny(data, tmp_path / "whole", **changes)

    class Stop(Notes):
        def step(self, done: int, total: int) -> None:
            if done == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError):
        tiny(data, tmp_path / "stopped", Stop(), **changes)
    assert read(tmp_path / "stopped" / "recipe.toml").positions == "anew"
    found = train(resume=tmp_path / "stopped", device="cpu").model.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in whole.model.state_dict().items())


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


# Data that is open already


def test_opened_data_is_trained_on_as_it_is(data: Path, tmp_path: Path) -> None:
    one = tiny(data, tmp_path / "path")
    two = train(open_data(data), recipe="digits", change=TINY, device="cpu", out=tmp_path / "data", called="mine")
    assert two.scores.numbers() == one.scores.numbers()
    for name in ("model.safetensors", "data.json"):
        assert (two.folder / name).read_bytes() == (one.folder / name).read_bytes()
    assert json.loads((one.folder / "run.json").read_text())["data"] == str(data)
    assert json.loads((two.folder / "run.json").read_text())["data"] == "mine"


def test_opened_data_was_looked_at_by_whoever_opened_it(data: Path, tmp_path: Path, monkeypatch) -> None:
    notes, looks = Notes(), []
    monkeypatch.setattr("patchwords.training.train.look", lambda *_: looks.append(1))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "squares").mkdir()  # has nothing to do with it
    train(open_data(data), recipe="digits", change=TINY, device="cpu", out=tmp_path / "run", watcher=notes)
    assert looks == []
    assert notes.said[0] == "squares: 38 pictures of 2 classes (24 to train, 8 to val, 6 to test)"
    assert json.loads((tmp_path / "run/run.json").read_text())["data"] == "squares"
    tiny(data, tmp_path / "path")
    assert looks == [1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weights": "nowhere.npz"}, "nowhere.npz does not exist"),
        ({"parts.depth": 0}, "depth 0 is below 1"),
        ({"freeze": "blocks 9"}, "the model has 1"),
        ({}, "run is not empty"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_before_all_pictures_are_looked_at(
    change: dict[str, Any], sentence: str, data: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("patchwords.training.train.look", lambda *_: pytest.fail("hours may have gone by"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mine.txt").touch()
    with pytest.raises(PatchwordsError, match=sentence):
        tiny(data, tmp_path / "run", **change)


def test_a_package_that_is_missing_is_said_before_the_data_is_opened(data: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    notes = Notes()
    with pytest.raises(UsageError, match="--tensorboard needs a package"):
        train(data, recipe="digits", change=TINY, out=tmp_path / "run", tensorboard=True, watcher=notes)
    assert notes.said == []


def test_a_look_that_is_broken_off_leaves_nothing(data: Path, tmp_path: Path, monkeypatch) -> None:
    def look(*_: Any) -> None:
        assert (tmp_path / "run").is_dir()  # where it can be written
        raise SystemExit(130)

    monkeypatch.setattr("patchwords.training.train.look", look)
    with pytest.raises(SystemExit):
        tiny(data, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_that_was_moved_is_found_where_it_was_last_said_to_be(data: Path, tmp_path: Path) -> None:
    run = tiny(data, tmp_path / "run").folder
    moved = data.rename(tmp_path / "moved.npz")
    with pytest.raises(UsageError, match=f"say where it is now, `patchwords train DATA --resume {run}`"):
        train(resume=run, device="cpu", watcher=Notes())
    train(moved, resume=run, device="cpu", watcher=Notes())
    assert json.loads((run / "run.json").read_text())["data"] == str(moved)
    train(resume=run, device="cpu", watcher=Notes())


def test_a_run_on_opened_data_goes_on_with_the_same_data_alone(data: Path, tmp_path: Path) -> None:
    found = open_data(data)
    run = train(found, recipe="digits", change=TINY, device="cpu", out=tmp_path / "run", called="mine")
    again = train(found, resume=tmp_path / "run", device="cpu")
    assert again.scores.numbers() == run.scores.numbers()
    with pytest.raises(DataError, match="not what the run began with"):
        train(replace(found, val=found.train), resume=tmp_path / "run", device="cpu")
    with pytest.raises(UsageError, match="'mine' does not exist"):
        train(resume=tmp_path / "run", device="cpu")


def test_one_of_several_trainings_says_with_which_command_to_go_on(data: Path, tmp_path: Path) -> None:
    found, command = open_data(data), "patchwords evaluate me --resume all"
    train(found, recipe="digits", change=TINY, device="cpu", out=tmp_path / "run", again=command)
    with pytest.raises(UsageError, match=f"one training of several: go on with all of them, `{command}`"):
        train(data, resume=tmp_path / "run", device="cpu")
    train(found, resume=tmp_path / "run", device="cpu", again=command)


def test_a_stopped_one_of_several_says_so_too(data: Path, tmp_path: Path) -> None:
    class Stop(Notes):
        def step(self, done: int, total: int) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError, match="and saved; `the whole command` goes on"):
        train(
            open_data(data),
            recipe="digits",
            change=TINY,
            device="cpu",
            out=tmp_path / "run",
            watcher=Stop(),
            again="the whole command",
        )


def test_a_recipe_that_was_read_is_taken_too(data: Path, tmp_path: Path) -> None:
    one = tiny(data, tmp_path / "name")
    two = train(data, recipe=read("digits", TINY), device="cpu", out=tmp_path / "value")
    assert (two.folder / "recipe.toml").read_text() == (one.folder / "recipe.toml").read_text()


def test_the_folder_keeps_the_scores_of_the_result(data: Path, tmp_path: Path) -> None:
    run = tiny(data, tmp_path / "run")
    assert json.loads((run.folder / "run.json").read_text())["scores"] == run.scores.numbers()


def test_a_signal_that_comes_too_late_is_told(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny(data, tmp_path / "first").signal == 0
    monkeypatch.setattr("patchwords.training.train.report", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert tiny(data, tmp_path / "second").signal == signal.SIGTERM


# Those it learns from


@pytest.fixture
def taught(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run whose teacher was named from where it stood."""
    monkeypatch.chdir(tmp_path)
    tiny(data, Path("teacher"))
    return learn(data, "student").folder


def learn(data: Path, out: str, **changes: Any) -> Run:
    return tiny(data, Path(out), **{"objective.kind": "distill", "objective.teacher": "teacher"} | changes)


def go_on(run: Path, **changes: Any) -> Run:
    return train(resume=run, change=changes, device="cpu", watcher=Notes())


def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


def test_the_teacher_is_found_again_from_anywhere(taught: Path, tmp_path: Path, monkeypatch) -> None:
    assert read(taught / "recipe.toml").objective == Distill(teacher=str(tmp_path / "teacher"))
    elsewhere(tmp_path, monkeypatch)
    assert go_on(tmp_path / taught).scores
    (tmp_path / taught / "checkpoints").rename(tmp_path / "gone")  # as if it had been killed before it saved
    assert go_on(tmp_path / taught).scores


def test_another_teacher_on_resume_is_refused(data: Path, taught: Path, tmp_path: Path) -> None:
    tiny(data, Path("other"), seed=1)
    (tmp_path / "teacher").rename(tmp_path / "moved")
    (tmp_path / "other").rename(tmp_path / "teacher")
    with pytest.raises(ModelError, match=r"objective.teacher /.*/teacher is not the model that the run began with"):
        go_on(taught)
    assert go_on(taught, **{"objective.teacher": "moved"}).scores  # the same one, at another place


def test_a_setting_that_names_no_model_may_not_change_with_it(taught: Path) -> None:
    with pytest.raises(UsageError, match=r"objective.how was 'hard' and would be 'soft'"):
        go_on(taught, **{"objective.how": "soft"})


def test_a_stop_while_the_teacher_is_asked_leaves_before_the_first_step(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Impatient(Notes):
        def working(self, what: str, done: int, total: int) -> None:
            if what.startswith("asking the teacher"):
                os.kill(os.getpid(), signal.SIGTERM)

        def step(self, done: int, total: int) -> None:
            raise AssertionError("a step was made")

    monkeypatch.chdir(tmp_path)
    tiny(data, Path("teacher"))
    still = {"data.augment.flip": 0.0, "data.mix.mixup": 0.0, "objective.cache": True}
    with pytest.raises(StoppedError, match=r"while asking the teacher .*: nothing is lost") as caught:
        learn(data, "student", watcher=Impatient(), **still)
    assert caught.value.exit_code == 128 + signal.SIGTERM
    assert go_on(tmp_path / "student").scores


def test_a_run_without_labels_says_what_comes_next(data: Path, tmp_path: Path) -> None:
    silent = {"objective.kind": "mae", "objective.width": 16, "objective.depth": 1, "objective.heads": 2}
    without = {"best": "last", "data.mix.mixup": 0.0, "parts.dropout": 0.0}
    run = tiny(data, tmp_path / "run", **silent | without)
    assert f"`patchwords train DATA --weights {run.folder}` fine-tunes it" in run.following
    with pytest.raises(UsageError, match="learned without labels"):
        run.scores  # noqa: B018
    assert tiny(data, tmp_path / "labelled").following == ""
