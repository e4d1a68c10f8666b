"""PROMISES 1, 12, 13 and 22: a run goes on exactly where it was, or says why it will not."""

import errno
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from patchwords.errors import DataError, ModelError, ResourceError, UsageError
from patchwords.training import train as training
from patchwords.training.run import checkpoint, durable
from patchwords.training.signals import StoppedError
from patchwords.training.train import train
from patchwords.training.watch import Log

UNSTEADY = ("seconds", "metrics")  # of a run's state: times, and lengths of what tells times


@dataclass
class Stopper(Log):
    """Keeps what was said, and asks to stop after a step."""

    step_to_stop: int = 1_000_000
    notes: list[str] = field(default_factory=list)

    def note(self, remark: str) -> None:
        self.notes.append(remark)

    def step(self, done: int, total: int) -> None:
        if done == self.step_to_stop:
            os.kill(os.getpid(), signal.SIGTERM)

    @property
    def said(self) -> str:
        return "\n".join(self.notes)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def stopped(photos: Path, recipe: Path, undisturbed, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Runs that were stopped after a step, each made once."""

    @cache
    def stop(step: int, folder: Path, change: tuple[tuple[str, Any], ...]) -> Path:
        run = tmp_path_factory.mktemp("stopped") / "run"
        with pytest.raises(StoppedError):
            train(folder, recipe=recipe, out=run, device="cpu", change=dict(change), watcher=Stopper(step))
        return run

    return stop


@pytest.fixture
def begun(stopped, photos: Path, tmp_path: Path) -> Callable[..., Path]:
    """`begun(step)` is a run that was stopped after a step, to go on with."""

    def begin(step: int, folder: Path = photos, **change: Any) -> Path:
        run = tmp_path / f"run-{step}"
        shutil.copytree(stopped(step, folder, tuple(change.items())), run)
        return run

    return begin


def resume(run: Path, step: int = 1_000_000, **options: Any) -> Stopper:
    """Goes on, and says what was said."""
    watcher = Stopper(step)
    try:
        train(resume=run, device="cpu", watcher=watcher, **options)
    except StoppedError:
        assert step < 1_000_000
    return watcher


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "report", lambda *_: None)


def whole(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that the last checkpoint holds."""
    found = checkpoint.find(run / "checkpoints")
    assert found
    loaded = checkpoint.load(found.path)
    for name in UNSTEADY:
        del loaded.state["run"][name]
    return loaded.state, loaded.tensors


@pytest.mark.parametrize(("first", "second"), [(1, 2), (4, 9), (6, 13), (11, 23)])
def test_a_run_in_pieces_is_the_run_in_one(first: int, second: int, begun, bits) -> None:
    pieces, one = begun(first, minutes=5.0), begun(second, minutes=5.0)
    resume(pieces, second)
    (state, tensors), (expected_state, expected) = whole(pieces), whole(one)
    for every in (state, expected_state):
        del every["run"]["best_in"]
    assert state == expected_state
    assert tensors.keys() - {"best"} == expected.keys() - {"best"}
    for part in tensors.keys() - {"best"}:
        assert tensors[part].keys() == expected[part].keys()
        assert all(torch.equal(tensors[part][name], expected[part][name]) for name in expected[part])
    assert bits(pieces).rows == bits(one).rows


# What must not change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"optimizer.lr": 0.5}, "optimizer.lr was 0.0005 and would be 0.5"),
        ({"seed": 3}, "seed was 0 and would be 3"),
        ({"batch": 16, "clip": 0.0}, "batch was 8 and would be 16; clip was 1.0 and would be 0.0"),
        ({"data.augment.erase": 0.0}, "data.augment.erase was 0.25"),
        ({"optimizer.kind": "sgd"}, "optimizer.kind was 'adamw' and would be 'sgd'"),
        ({"duration": "8 epochs"}, "duration was '4 epochs' and would be '8 epochs'"),
        ({"nonfinite": "skip"}, "nonfinite was 'stop' and would be 'skip'"),
    ],
)
def test_changed_settings_are_refused_by_name(change: dict[str, Any], said: str, begun) -> None:
    run = begun(3)
    before = whole(run)[0]
    with pytest.raises(UsageError, match="keeps its settings") as caught:
        resume(run, change=change)
    assert said in str(caught.value)
    assert whole(run)[0] == before


def test_an_unknown_setting_hears_the_nearest_name(begun) -> None:
    with pytest.raises(UsageError, match=r"optimzer.*did you mean optimizer"):
        resume(begun(3), change={"optimzer": "sgd"})


def test_how_it_is_computed_may_change(begun, bits, undisturbed, no_report) -> None:
    run = begun(5)
    resume(run, 9, change={"data.workers": 2, "data.timeout": 60.0, "keep": 3, "minutes": 1.0})
    resume(run)
    assert bits(run) == undisturbed.bits


def test_the_same_command_with_resume_goes_on(recipe: Path, photos: Path, begun, bits, undisturbed, no_report) -> None:
    """Its recipe leaves `micro` open, which the run had to settle."""
    run = begun(5)
    train(photos, recipe=recipe, resume=run, device="cpu", batch=8)
    assert bits(run) == undisturbed.bits


def test_a_batch_that_was_left_open_stays_what_it_became(begun, no_report) -> None:
    run = begun(3, batch="auto")
    resume(run, batch="auto")


def test_a_new_place_is_refused(begun, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out"):
        resume(begun(3), out=tmp_path / "elsewhere")


def test_a_file_more_or_less_is_named(photos: Path, begun, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    run = begun(3, folder)
    (folder / "moss" / "new.jpg").write_bytes((folder / "moss" / "001.jpg").read_bytes())
    with pytest.raises(DataError, match=r"moss/new\.jpg is new"):
        resume(run)
    (folder / "moss" / "new.jpg").unlink()
    (folder / "sky" / "002.jpg").rename(tmp_path / "002.jpg")
    with pytest.raises(DataError, match=r"sky/002\.jpg is gone"):
        resume(run)
    (tmp_path / "002.jpg").rename(folder / "sky" / "002.jpg")
    (folder / "sky" / "005.jpg").write_bytes(b"another")
    with pytest.raises(DataError, match="sizes of pictures"):
        resume(run)


def test_a_folder_that_was_moved_is_still_the_same(photos: Path, begun, bits, undisturbed, tmp_path, no_report) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    run = begun(3, folder)
    folder.rename(tmp_path / "moved")
    with pytest.raises(UsageError, match="does not exist"):
        resume(run)
    train(tmp_path / "moved", resume=run, device="cpu")
    assert bits(run) == undisturbed.bits


# Where it goes on


@pytest.fixture
def two_threads() -> Iterator[Callable[[], None]]:
    yield lambda: torch.set_num_threads(2)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(False)


def test_another_number_of_threads_is_said_or_refused(two_threads, begun, no_report) -> None:
    run = begun(20)
    two_threads()
    with pytest.raises(UsageError, match="number of threads is 2 now and was 1 before"):
        resume(run, deterministic=True)
    assert "the number of threads is 2 now and was 1 before" in resume(run).said


def test_all_that_can_change_the_bits_is_said(begun, monkeypatch: pytest.MonkeyPatch, no_report) -> None:
    run, now = begun(23), training.environment
    changed = dict.fromkeys(("patchwords", "torch", "numpy", "pillow", "device", "threads", "world_size"), "another")
    monkeypatch.setattr(training, "environment", lambda device: now(device) | changed)
    assert resume(run).said.count("is another now") == len(changed)


def test_two_trainings_in_one_folder_are_refused(launch, begin, undisturbed, photos, recipe, bits, tmp_path) -> None:
    run = tmp_path / "run"
    process = launch(*begin(run))
    while process.step < 1:
        assert not process.ended(), process.said
        time.sleep(0.005)
    process.send(signal.SIGSTOP)
    try:
        with pytest.raises(UsageError, match=f"in use by process {process.pid}"):
            resume(run)
        with pytest.raises(UsageError, match="never overwritten"):
            train(photos, recipe=recipe, out=run, device="cpu")
    finally:
        process.send(signal.SIGCONT)
    assert process.wait() == 0, process.said
    assert bits(run) == undisturbed.bits


def test_a_finished_run_says_so_and_stays_what_it_is(undisturbed, bits, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(undisturbed.run, run)
    before = {path: path.read_bytes() for path in run.rglob("*.safetensors")}
    said = resume(run).said
    assert "finished" in said
    assert {path: path.read_bytes() for path in run.rglob("*.safetensors")} == before
    assert bits(run) == undisturbed.bits
    assert (run / "report.html").exists()


def test_a_run_that_stopped_early_stays_stopped(
    photos: Path, recipe: Path, undisturbed, bits, tmp_path, no_report
) -> None:
    change = {"patience": 2}  # all answers are right at once, and it cannot get better
    run = train(photos, recipe=recipe, out=tmp_path / "run", device="cpu", change=change).folder
    before = bits(run)
    assert before.state["run"]["step"] < 24
    assert "finished" in resume(run).said
    assert bits(run) == before


@pytest.mark.parametrize("place", ["", "nowhere"])
def test_what_is_no_run_is_refused(place: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run folder to resume"):
        resume(tmp_path / place)


# What was lost


def lose_the_folder(last: Path) -> None:
    shutil.rmtree(last)


def flip_a_bit(last: Path) -> None:
    raw = bytearray((last / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (last / "model.safetensors").write_bytes(raw)


def cut_the_manifest(last: Path) -> None:
    (last / "MANIFEST.json").write_text("{")


def lose_a_file(last: Path) -> None:
    (last / "optimizer.safetensors").unlink()


def lose_the_pointers(last: Path) -> None:
    for name in ("last", "best"):
        (last.parent / name).unlink()


@pytest.mark.parametrize("harm", [lose_the_folder, flip_a_bit, cut_the_manifest, lose_a_file, lose_the_pointers])
def test_the_checkpoint_before_it_is_as_good(harm: Callable[[Path], None], begun, bits, undisturbed, no_report) -> None:
    run = begun(20)
    found = checkpoint.find(run / "checkpoints")
    assert found
    harm(found.path)
    said = resume(run).said
    assert "going on from step-" in said
    assert bits(run) == undisturbed.bits


@pytest.mark.parametrize("harm", [lose_the_folder, flip_a_bit, cut_the_manifest])
def test_a_best_one_that_is_lost_does_not_end_the_run(harm: Callable[[Path], None], begun, no_report) -> None:
    run = begun(20, minutes=1e-6)
    best = checkpoint.best(run / "checkpoints")
    last = checkpoint.find(run / "checkpoints")
    assert best
    assert last
    assert best != last.path
    harm(best)
    resume(run)
    assert (run / "model.safetensors").exists()


def test_the_best_model_outlives_a_checkpoint_that_is_written_again(begun, bits, undisturbed, no_report) -> None:
    """It is in the checkpoint after step 7; stopped at once, the resumed run writes that one anew."""
    run = begun(7, minutes=5.0)
    best = checkpoint.best(run / "checkpoints")
    assert best
    assert best.name == "step-000007"

    class Hasty(Stopper):
        def note(self, remark: str) -> None:
            if "going on" in remark:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError, match="after step 7"):
        train(resume=run, device="cpu", watcher=Hasty())
    resume(run)
    assert bits(run) == undisturbed.bits


def test_with_no_good_one_left_it_says_so(begun) -> None:
    run = begun(9)
    for path in (run / "checkpoints").glob("step-*/model.safetensors"):
        flip_a_bit(path.parent)
    with pytest.raises(ModelError, match=r"no checkpoint .* can be used"):
        resume(run)


def test_a_disk_that_fills_up_is_told_by_its_checkpoint(
    photos: Path, recipe: Path, undisturbed, bits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_report
) -> None:
    """PROMISE 3, for a whole run: what cannot be saved is named, though what is written afterwards fails too."""
    run, create = tmp_path / "run", durable.create

    class Full(Stopper):
        def step(self, done: int, total: int) -> None:
            if done == 13:
                monkeypatch.setattr(durable, "create", refuse)

    def refuse(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ResourceError, match=r"step-0000\d\d could not be written .* bytes are needed") as caught:
        train(photos, recipe=recipe, out=run, device="cpu", watcher=Full())
    assert caught.value.exit_code == 5
    monkeypatch.setattr(durable, "create", create)
    resume(run)
    assert bits(run) == undisturbed.bits


def test_a_run_without_a_first_checkpoint_begins(begun, bits, undisturbed, no_report) -> None:
    """Killed between its recipe and its first checkpoint."""
    run = begun(3)
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink(missing_ok=True)
    resume(run)
    assert bits(run) == undisturbed.bits
