"""Who keeps a run's files: everything that a run is comes back from a checkpoint, and the best model stays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import patchwords
from patchwords.data.augment.augment import Augment
from patchwords.data.finish import Finish
from patchwords.data.mix import Mix
from patchwords.data.preprocess import Preprocess
from patchwords.models.names import Config
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.speed.precision import scaler
from patchwords.training import optimizer
from patchwords.training.average import Average
from patchwords.training.distributed import World
from patchwords.training.groups import groups
from patchwords.training.keeper import BEST, RunKeeper
from patchwords.training.loop import State
from patchwords.training.optimizer import AdamW
from patchwords.training.run import checkpoint
from patchwords.training.run.folder import RunFolder
from patchwords.training.update import Loaded, Update
from patchwords.training.watch import Log
from patchwords.weights.card import Card

CPU = torch.device("cpu")


class Heard(Log):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, remark: str) -> None:
        self.notes.append(remark)


class Owner(Classification):
    """An objective that owns something beside its model."""

    def __init__(self, model: Any, settings: Supervised):
        super().__init__(model, settings)
        self.register_buffer("seen", torch.zeros(1))


@pytest.fixture
def make(small_configs: dict[str, Config], tmp_path: Path) -> Callable[..., tuple[RunKeeper, Update]]:
    """A new process's parts around the same folder, at their beginning."""

    def parts(*, average: bool = True, writes: bool = True, seed: int = 0) -> tuple[RunKeeper, Update]:
        torch.manual_seed(seed)
        config = small_configs["plain"]
        objective = Owner(config.build(), Supervised())
        built = optimizer.build(AdamW(lr=0.01), groups(objective, decay=0.1, layer_decay=1.0), CPU)
        classes = tuple("abcde")
        finish = Finish(Augment(), Mix(), Preprocess(), 5, 0)
        update = Update(
            module=objective,
            objective=objective,
            optimizer=built,
            scaler=scaler("float32", CPU),
            finish=finish,
            world=World(0, 1, CPU),
            watcher=Log(),
            precision="float32",
            clip=0.0,
            batch=4,
            micro=4,
            first=0,
        )
        folder = RunFolder.visit(tmp_path)
        keeper = RunKeeper(
            folder=folder,
            objective=objective,
            card=Card(model=config, preprocess=Preprocess(size=config.image), classes=classes),
            optimizer=built,
            scaler=update.scaler,
            average=Average(objective.model, 0.9) if average else None,
            keep=2,
            writes=writes,
            watcher=Heard(),
        )
        return keeper, update

    return parts


def move(keeper: RunKeeper, update: Update, step: int) -> None:
    """One step of a run."""
    images = torch.randint(0, 256, (4, 3, 32, 24), dtype=torch.uint8, generator=torch.Generator().manual_seed(step))
    update(Loaded(images, torch.arange(4), np.arange(4), np.full(4, step)), step, 0.0)
    keeper.objective.get_buffer("seen").add_(1)
    if keeper.average:
        keeper.average.update(step)


def everything(keeper: RunKeeper) -> dict[str, Tensor]:
    tensors, _ = optimizer.state(keeper.optimizer)
    average = keeper.average.state() if keeper.average else {}
    found = {**keeper.objective.state_dict(), **tensors, **{f"average.{name}": each for name, each in average.items()}}
    return {name: each.detach().clone() for name, each in found.items()}


def assert_equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    different = [name for name in left if not torch.equal(left[name], right[name])]
    assert different == []


Make = Callable[..., tuple[RunKeeper, Update]]


@pytest.mark.parametrize("average", [True, False])
def test_everything_comes_back_and_goes_on_to_the_same_bits(make: Make, average: bool) -> None:
    keeper, update = make(average=average)
    for step in range(3):
        move(keeper, update, step)
    keeper.save(State(step=3, best=0.5, counted=2, sums={"loss": 0.1 + 0.2}, skipped=[1], seconds=1.25))
    before = everything(keeper)
    other, again = make(average=average, seed=9)
    state = other.restore()
    assert_equal(everything(other), before)
    assert (state.step, state.best, state.counted, state.sums, state.skipped, state.seconds) == (
        3, 0.5, 2, {"loss": 0.1 + 0.2}, [1], 1.25
    )  # fmt: skip
    for one, its in ((keeper, update), (other, again)):
        move(one, its, 3)
    assert_equal(everything(other), everything(keeper))


def test_it_comes_back_from_the_last_of_several(make: Make) -> None:
    keeper, update = make()
    kept = {}
    for step in range(4):
        keeper.save(State(step=step))
        kept[step] = everything(keeper)
        move(keeper, update, step)
    assert keeper.restore().step == 3
    assert_equal(everything(keeper), kept[3])


def test_the_best_model_is_as_it_was_when_it_was_judged(make: Make, tmp_path: Path) -> None:
    keeper, update = make(average=False)
    keeper.save(State())
    move(keeper, update, 0)
    keeper.hold()
    best = {name: each.clone() for name, each in keeper.objective.model.state_dict().items()}
    move(keeper, update, 1)
    state = State(step=2, best=0.7, best_step=1)
    keeper.save(state)
    for step in range(2, 7):  # and stays when others are pruned
        move(keeper, update, step)
        state.step = step + 1
        keeper.save(state)
    place = checkpoint.best(tmp_path / "checkpoints")
    assert place is not None
    assert place.name == "step-000002"
    found = patchwords.load(place / f"{BEST}.safetensors").state_dict()
    assert_equal(dict(found), best)


def test_of_an_averaged_model_the_average_is_the_best(make: Make, tmp_path: Path) -> None:
    keeper, update = make()
    move(keeper, update, 0)
    keeper.hold()
    assert keeper.average
    average = {name: each.clone() for name, each in keeper.average.state().items()}
    move(keeper, update, 1)
    keeper.save(State(step=2))
    place = checkpoint.best(tmp_path / "checkpoints")
    assert place is not None
    assert_equal(dict(patchwords.load(place / f"{BEST}.safetensors").state_dict()), average)


def test_a_best_model_that_was_not_saved_is_forgotten_with_the_steps_after_it(make: Make, tmp_path: Path) -> None:
    keeper, update = make()
    keeper.save(State())
    move(keeper, update, 0)
    keeper.hold()
    keeper.restore()
    keeper.save(State(step=1))
    assert checkpoint.best(tmp_path / "checkpoints") is None


def test_checkpoints_hold_models_that_can_be_loaded_as_they_are(make: Make, tmp_path: Path) -> None:
    keeper, update = make()
    move(keeper, update, 0)
    keeper.save(State(step=1))
    (place,) = (tmp_path / "checkpoints").glob("step-*")
    for name in ("model", "average"):
        model = patchwords.load(place / f"{name}.safetensors")
        assert vars(model)["card"].classes == tuple("abcde")


def test_rows_after_the_checkpoint_are_cut_off(make: Make) -> None:
    keeper, _ = make()
    keeper.row({"kind": "train", "step": 1})
    keeper.save(State(step=1))
    keeper.row({"kind": "train", "step": 2})
    keeper.restore()
    assert list(keeper.folder.rows()) == [{"kind": "train", "step": 1}]


def test_rows_that_are_missing_are_said(make: Make, tmp_path: Path) -> None:
    keeper, _ = make()
    keeper.row({"kind": "train", "step": 1})
    keeper.save(State(step=1))
    (tmp_path / "metrics.jsonl").unlink()
    keeper.restore()
    assert isinstance(keeper.watcher, Heard)
    assert [note for note in keeper.watcher.notes if "lines of metrics are missing" in note]


def test_what_was_wrong_with_a_checkpoint_is_said(make: Make, tmp_path: Path) -> None:
    keeper, update = make()
    keeper.save(State())
    move(keeper, update, 0)
    keeper.save(State(step=1))
    (tmp_path / "checkpoints" / "step-000001" / "optimizer.safetensors").write_bytes(b"rot")
    assert keeper.restore().step == 0
    assert isinstance(keeper.watcher, Heard)
    assert any("step-000001" in note for note in keeper.watcher.notes)


def test_listeners_hear_every_row_and_only_of_the_process_that_writes(make: Make) -> None:
    heard: list[dict[str, Any]] = []
    for writes in (True, False):
        keeper, _ = make(writes=writes)
        keeper.listeners.append(heard.append)
        keeper.row({"step": 1, "writes": writes})
    assert heard == [{"step": 1, "writes": True}]
    assert list(keeper.folder.rows()) == heard


def test_it_says_how_to_go_on(make: Make, tmp_path: Path) -> None:
    assert make()[0].again == f"patchwords train --resume {tmp_path}"


def test_the_room_that_is_asked_for_is_enough(make: Make, tmp_path: Path) -> None:
    keeper, update = make()
    keeper.save(State())
    for step in range(6):
        move(keeper, update, step)
        if step == 1:
            keeper.hold()
        keeper.save(State(step=step + 1, best_in="step-000002" if step > 0 else ""))
    files = list((tmp_path / "checkpoints").rglob("*.safetensors"))
    used = sum(sum(each.nbytes for each in load_file(path).values()) for path in files)
    assert used <= keeper.needed()
