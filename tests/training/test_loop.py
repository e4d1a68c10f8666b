"""One loop: from any step to the same rows, calls and bits, whatever stops it on the way."""

import copy
import itertools
import math
import signal
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchwords.data.order import Order
from patchwords.errors import NonFiniteError
from patchwords.training.distributed import World
from patchwords.training.guard import EVERY
from patchwords.training.loop import MOST_ROLLBACKS, Loop, State
from patchwords.training.schedule import Schedule
from patchwords.training.signals import StoppedError, Wish
from patchwords.training.update import Loaded
from patchwords.training.watch import Log, Moment

SAMPLES, BATCH, TOTAL = 42, 6, 23  # 7 steps an epoch
DUE = frozenset({7, 14, 21, 23})
FOR_EVER = 1e9  # minutes


@pytest.fixture(autouse=True)
def frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row after every step, since the runs here are short."""
    monkeypatch.setattr("patchwords.training.loop.EVERY", 1)


class KilledError(BaseException):
    """As kill -9 would end it: nobody gets to save."""


class Names:
    """A source of which only names are asked."""

    def name(self, index: int) -> str:
        return f"{index}.jpg"


class Toy(nn.Module):
    """An objective whose whole knowledge is one number."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.model.weight, 0.5)
        self.requires_grad_(False)
        self.after: list[float] = []

    def after_step(self, progress: float) -> None:
        self.after.append(progress)


@dataclass
class Step:
    """An update that can be written down: the number moves by what the batch holds, and the rate."""

    objective: Toy
    poison: dict[int, float]
    skips: bool
    batch: int = BATCH
    made: list[int] = field(default_factory=list)
    progress: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    forgotten: int = 0

    def __post_init__(self) -> None:
        self.optimizer = SimpleNamespace(param_groups=[{"lr": 0.0, "scale": 2.0}])
        self.scaler = SimpleNamespace(is_enabled=lambda: False)

    def forget(self) -> None:
        self.forgotten += 1

    def __call__(self, loaded: Loaded, step: int, progress: float) -> tuple[dict[str, Tensor], Tensor]:
        assert self.objective.training
        self.made.append(step)
        self.progress.append(progress)
        self.rates.append(self.optimizer.param_groups[0]["lr"])
        weight = self.objective.model.weight
        push = loaded.labels.float().mean() * self.poison.get(step, 1.0)
        if not (self.skips and not push.isfinite()):
            with torch.no_grad():
                weight.mul_(0.9).add_(push * self.rates[-1])
        loss = (weight.detach().sum() - push).abs()
        return {"loss": loss, "accuracy": loss.sin()}, push / 3


@dataclass
class Pictures:
    """Batches that say which they are."""

    opened: list[int] = field(default_factory=list)
    closed: int = 0

    def batches(self, start: int, stop: int) -> Generator[Loaded]:
        self.opened.append(start)
        order = Order(3, SAMPLES)
        try:
            for step in range(start, stop):
                indices, views = order.take(step * BATCH, (step + 1) * BATCH)
                yield Loaded(torch.empty(0), torch.from_numpy(indices), indices, views)
        finally:
            self.closed += 1


class Shelf:
    """Checkpoints in memory; what is not in one is lost with the process."""

    again = "patchwords train --resume here"

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.saved: list[dict[str, Any]] = []
        self.held: list[float] = []
        self.objective: Toy | None = None

    def row(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def hold(self) -> None:
        assert self.objective
        self.held.append(float(self.objective.model.weight))

    def save(self, state: State) -> None:
        assert self.objective
        weight = self.objective.model.weight.detach().clone()
        assert weight.isfinite().all(), "a poisoned checkpoint"
        state.metrics = len(self.rows)
        self.saved.append({"state": copy.deepcopy(asdict(state)), "weight": weight})

    def restore(self) -> State:
        assert self.objective
        last = copy.deepcopy(self.saved[-1])
        with torch.no_grad():
            self.objective.model.weight.copy_(last["weight"])
        del self.rows[last["state"]["metrics"] :]
        return State(**last["state"])


class Witness(Log):
    """Hears everything, and may act on a step."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []
        self.moments: list[Moment] = []
        self.scores: list[tuple[int, bool]] = []
        self.act: Callable[[int], None] = lambda done: None

    def note(self, remark: str) -> None:
        self.notes.append(remark)

    def step(self, done: int, total: int) -> None:
        assert total == TOTAL
        self.steps.append(done)
        self.act(done)

    def moment(self, moment: Moment) -> None:
        self.moments.append(moment)

    def scored(self, row: dict[str, Any], best: bool) -> None:
        self.scores.append((row["step"], best))


@dataclass
class Run:
    """A run and what becomes of it; `process` is a new process over the same shelf."""

    scores: dict[int, float] = field(default_factory=dict)  # by step; else as the weight is
    poison: dict[int, float] = field(default_factory=dict)
    nonfinite: str = "stop"
    best: str = "accuracy"
    patience: int = 0
    minutes: float = FOR_EVER
    due: frozenset[int] = DUE
    shelf: Shelf = field(default_factory=Shelf)
    judged: list[int] = field(default_factory=list)
    during_judging: Callable[[int, Wish], None] = lambda step, wish: None
    world: World = field(default_factory=lambda: World(0, 1, torch.device("cpu")))
    average: Any = None

    def process(self) -> Loop:
        """A fresh process: the same parts, at their beginning or at the last checkpoint."""
        objective, wish = Toy(), Wish()
        self.shelf.objective = objective
        self.watcher = Witness()
        self.feed = Pictures()
        self.update = Step(objective, self.poison, self.nonfinite == "skip")
        loop = Loop(
            objective=objective,  # type: ignore[arg-type]
            update=self.update,  # type: ignore[arg-type]
            average=self.average,
            plan=Schedule(warmup="3 steps").plan(total=TOTAL, per_epoch=SAMPLES / BATCH),
            lr=0.1,
            feed=self.feed,
            judge=lambda: self._judge(loop),
            keeper=self.shelf,  # type: ignore[arg-type]
            order=Order(3, SAMPLES),
            source=Names(),  # type: ignore[arg-type]
            world=self.world,
            watcher=self.watcher,
            wish=wish,
            state=State(),
            due=self.due,
            best=self.best,
            patience=self.patience,
            nonfinite=self.nonfinite,
            minutes=self.minutes,
        )
        if self.shelf.saved:
            loop.resume(self.shelf.restore())
        else:
            self.shelf.save(loop.state)
        return loop

    def _judge(self, loop: Loop) -> dict[str, float] | None:
        step = loop.state.step
        loop.objective.eval()
        self.during_judging(step, loop.wish)
        if loop.wish.number:
            return None
        self.judged.append(step)
        value = self.scores.get(step, float(self.shelf.objective.model.weight))  # type: ignore[union-attr]
        return {"accuracy": value, "loss": value, "count": 5}

    def told(self) -> list[dict[str, Any]]:
        """The rows without what a clock says."""
        times = ("seconds", "images_per_second", "waiting")
        return [{key: row[key] for key in row if key not in times} for row in self.shelf.rows]

    def end(self) -> dict[str, Any]:
        """All that a run ends with."""
        state = {key: value for key, value in self.shelf.saved[-1]["state"].items() if key != "seconds"}
        return {"rows": self.told(), "state": state, "weight": float(self.shelf.objective.model.weight)}  # type: ignore[union-attr]


def whole(**settings: Any) -> Run:
    run = Run(**settings)
    run.process().run()
    return run


# A run without trouble


def test_every_step_is_made_once_with_its_batch_rate_and_progress() -> None:
    run = Run()
    loop = run.process()
    state = loop.run()
    assert state is loop.state
    assert run.update.made == list(range(TOTAL))
    assert run.watcher.steps == list(range(1, TOTAL + 1))
    assert run.update.progress == [step / TOTAL for step in range(TOTAL)]
    assert loop.objective.after == [(step + 1) / TOTAL for step in range(TOTAL)]  # type: ignore[attr-defined]
    plan = Schedule(warmup="3 steps").plan(total=TOTAL, per_epoch=7)
    assert run.update.rates == [2.0 * (0.1 * plan.rate(step)) for step in range(TOTAL)]  # the group's factor is 2
    assert run.feed.opened == [0]
    assert run.feed.closed == 1


def test_it_is_judged_when_due_and_after_the_last_step() -> None:
    run = whole()
    assert run.judged == sorted(DUE)
    rows = [row for row in run.told() if row["kind"] == "val"]
    assert [(row["step"], row["epoch"]) for row in rows] == [(7, 1.0), (14, 2.0), (21, 3.0), (23, round(23 / 7, 6))]
    assert rows[0].keys() == {"kind", "step", "epoch", "accuracy", "loss", "count"}


def test_rows_are_no_more_frequent_than_looks_at_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.training.loop.EVERY", EVERY)
    rows = [row["step"] for row in whole().told() if row["kind"] == "train"]
    assert rows == sorted({EVERY, 2 * EVERY} | DUE)


def test_a_row_tells_the_means_of_the_steps_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.training.loop.ROWS", 2)  # so that a row is due every four steps
    run = whole()
    rows = [row for row in run.told() if row["kind"] == "train"]
    assert [row["step"] for row in rows] == [4, 7, 8, 12, 14, 16, 20, 21, 23]
    losses = [float(loss) for loss in _losses()]
    for before, row in zip([0, *(row["step"] for row in rows)], rows, strict=False):
        span = losses[before : row["step"]]
        assert row["loss"] == pytest.approx(sum(span) / len(span), rel=1e-5)
        assert row["accuracy"] == pytest.approx(sum(map(math.sin, span)) / len(span), rel=1e-5)
        assert row["epoch"] == round(row["step"] / 7, 6)
        assert row["lr"] == run.update.rates[row["step"] - 1] / 2
        assert row["norm"] > 0


def _losses() -> list[float]:
    run = Run()
    loop = run.process()
    found: list[float] = []
    count = loop._counts

    def watch(step: int, numbers: dict[str, Tensor], norm: Tensor) -> bool:
        found.append(float(numbers["loss"]))
        return count(step, numbers, norm)

    loop._counts = watch  # type: ignore[method-assign]
    loop.run()
    return found


def test_there_are_at_most_twenty_rows_an_epoch() -> None:
    order = Order(3, 6 * 333)
    loop = Run().process()
    loop.order = order
    loop.__post_init__()
    assert loop.every == 17  # of 333 steps


def test_the_watcher_hears_where_the_run_is() -> None:
    run = whole()
    assert len(run.watcher.moments) == TOTAL
    last = run.watcher.moments[-1]
    assert (last.epoch, last.epochs) == (TOTAL / 7, TOTAL / 7)
    assert last.seconds_left == 0
    assert last.images_per_second > 0
    assert 0 <= last.waiting <= 1
    assert last.memory > 1 << 20
    assert run.watcher.moments[0].seconds_left > 0


def test_the_average_follows_every_update() -> None:
    seen: list[tuple[int, int]] = []
    average = SimpleNamespace(update=lambda step: seen.append((step, run.update.made[-1])))
    run = Run(average=average)
    run.process().run()
    assert seen == [(step, step) for step in range(TOTAL)]


# The best


@pytest.mark.parametrize(
    ("best", "scores", "steps"),
    [
        ("accuracy", {7: 0.5, 14: 0.7, 21: 0.6, 23: 0.7}, [7, 14]),
        ("loss", {7: 0.5, 14: 0.7, 21: 0.4, 23: 0.4}, [7, 21]),
        ("accuracy", {7: 0.9, 14: 0.1, 21: 0.1, 23: 0.1}, [7]),
        ("loss", {7: 0.9, 14: 0.8, 21: 0.7, 23: 0.6}, [7, 14, 21, 23]),
    ],
)
def test_the_best_is_highest_by_accuracy_and_lowest_by_loss_and_the_first_of_equals(
    best: str, scores: dict[int, float], steps: list[int]
) -> None:
    run = Run(best=best, scores=scores)
    state = run.process().run()
    assert [step for step, better in run.watcher.scores if better] == steps
    assert len(run.shelf.held) == len(steps)
    assert (state.best_step, state.best) == (steps[-1], scores[steps[-1]])


def test_without_a_score_the_last_model_is_kept_and_none_is_called_the_best() -> None:
    run = Run(best="last", scores={7: 0.9, 14: 0.1, 21: 0.5, 23: 0.1})
    state = run.process().run()
    assert (state.step, state.best_step) == (TOTAL, TOTAL)
    assert run.shelf.held[-1] == float(run.shelf.objective.model.weight)  # type: ignore[union-attr]
    assert run.watcher.scores == [(step, False) for step in sorted(DUE)]


def test_it_stops_early_after_so_many_evaluations_without_a_better_one() -> None:
    scores = {7: 0.5, 14: 0.4, 21: 0.5}
    run = Run(patience=2, scores=scores)
    state = run.process().run()
    assert (state.step, state.stopped, state.best_step) == (21, True, 7)
    assert run.shelf.saved[-1]["state"]["stopped"]
    again = run.process()
    assert again.run().step == 21  # a run that has stopped stays so
    assert run.update.made == []
    assert run.judged == [7, 14, 21]


def test_a_better_one_starts_the_patience_anew() -> None:
    run = Run(patience=2, scores={7: 0.5, 14: 0.4, 21: 0.6, 23: 0.1})
    assert run.process().run().step == TOTAL


def test_a_finished_run_does_nothing_more() -> None:
    run = whole()
    before = run.told()
    assert run.process().run().step == TOTAL
    assert run.update.made == []
    assert run.told() == before
    assert run.judged == sorted(DUE)


# Stopping and going on


def stop_at(step: int, number: int) -> Callable[[Run, Loop], None]:
    def arrange(run: Run, loop: Loop) -> None:
        run.watcher.act = lambda done: loop.wish.hear(number, None) if done == step else None

    return arrange


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_asked_to_stop_it_saves_within_one_step_and_says_how_to_go_on(number: int, code: int, word: str) -> None:
    run = Run()
    loop = run.process()
    stop_at(11, number)(run, loop)
    with pytest.raises(StoppedError) as caught:
        loop.run()
    assert caught.value.exit_code == code
    assert str(caught.value) == (
        f"stopped by {word} after step 11 of 23, and saved; `patchwords train --resume here` goes on"
    )
    assert run.shelf.saved[-1]["state"]["step"] == 11
    assert run.feed.closed == 1


def test_asked_before_the_first_step_it_saves_that() -> None:
    run = Run()
    loop = run.process()
    loop.wish.hear(signal.SIGTERM, None)
    with pytest.raises(StoppedError):
        loop.run()
    assert run.shelf.saved[-1]["state"]["step"] == 0


@pytest.mark.parametrize("rows", [1, 2, 20])
def test_stopped_after_any_step_it_goes_on_to_the_same_end(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.training.loop.ROWS", rows)
    wanted = whole()
    for step in range(TOTAL):
        run = Run()
        loop = run.process()
        stop_at(step, signal.SIGTERM)(run, loop)
        if step == 0:
            loop.wish.hear(signal.SIGTERM, None)
        with pytest.raises(StoppedError):
            loop.run()
        first = run.update.made
        run.process().run()
        assert first + run.update.made == list(range(TOTAL))
        assert run.judged == wanted.judged
        assert run.end() == wanted.end()


@pytest.mark.parametrize("minutes", [0.0, FOR_EVER], ids=["saving every step", "saving once"])
def test_killed_after_any_step_it_goes_on_to_the_same_end(minutes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.training.loop.ROWS", 2)
    wanted = whole().end()
    for step in range(1, TOTAL + 1):
        run = Run(minutes=minutes)
        loop = run.process()
        run.watcher.act = lambda done, step=step: kill() if done == step else None
        with pytest.raises(KilledError):
            loop.run()
        run.process().run()
        assert run.end() == wanted


def kill() -> None:
    raise KilledError


def test_killed_again_and_again_it_still_comes_to_the_same_end() -> None:
    wanted, chance = whole().end(), np.random.default_rng(0)
    run = Run(minutes=0.0)
    for _ in range(40):
        loop, left = run.process(), int(chance.integers(1, 4))
        run.watcher.act = lambda done, last=loop.state.step + left: kill() if done >= last else None
        try:
            loop.run()
            break
        except KilledError:
            continue
    assert run.end() == wanted


@pytest.mark.parametrize("step", sorted(DUE))
def test_an_evaluation_is_not_lost_when_a_stop_comes_during_it(step: int) -> None:
    wanted = whole()
    run = Run(during_judging=lambda now, wish: wish.hear(signal.SIGINT, None) if now == step else None)
    loop = run.process()
    with pytest.raises(StoppedError, match=f"Ctrl-C after step {step} of 23") as caught:
        loop.run()
    assert caught.value.exit_code == 130
    assert step not in run.judged
    run.during_judging = lambda now, wish: None
    run.process().run()
    assert run.judged == wanted.judged
    assert run.end() == wanted.end()


def test_a_checkpoint_is_made_when_its_time_has_come() -> None:
    run = Run(minutes=1.0)
    loop = run.process()
    run.watcher.act = lambda done: setattr(loop.clock, "kept", loop.clock.kept - (61 if done == 9 else 0))
    loop.run()
    assert [saved["state"]["step"] for saved in run.shelf.saved] == [0, 9, 23]


def test_seconds_are_counted_over_all_processes() -> None:
    run = Run()
    loop = run.process()
    loop.state.seconds = 100.0
    loop.resume(loop.state)
    stop_at(3, signal.SIGINT)(run, loop)
    with pytest.raises(StoppedError):
        loop.run()
    assert 100 < run.shelf.saved[-1]["state"]["seconds"] < 110


def test_every_row_tells_the_seconds_which_go_on_after_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def second() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr("patchwords.training.clock.time", SimpleNamespace(monotonic=second))
    run = Run()
    loop = run.process()
    stop_at(9, signal.SIGTERM)(run, loop)
    with pytest.raises(StoppedError):
        loop.run()
    now[0] += 1e6  # nobody trains meanwhile
    run.process().run()
    assert [row["kind"] for row in run.shelf.rows].count("val") == len(DUE)
    seconds = [row["seconds"] for row in run.shelf.rows]
    assert all(before < after for before, after in itertools.pairwise(seconds))
    assert seconds[-1] < run.shelf.saved[-1]["state"]["seconds"] < 1e6


# Numbers that are none


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("step", [0, 5, 9, 15, 22])
def test_what_is_not_finite_ends_the_run_within_ten_steps_and_is_never_saved(step: int, value: float) -> None:
    run = Run(poison={step: value}, minutes=0.0)
    with pytest.raises(NonFiniteError) as caught:
        run.process().run()
    assert caught.value.exit_code == 6
    sentence = str(caught.value)
    assert f"step {step} gave a loss of nan and gradients of norm {value:g}" in sentence
    indices, _ = Order(3, SAMPLES).take(step * BATCH, (step + 1) * BATCH)
    assert ", ".join(f"{index}.jpg" for index in indices) in sentence
    assert "optimizer.lr" in sentence
    assert run.update.made[-1] - step < EVERY
    assert all(saved["state"]["step"] <= step for saved in run.shelf.saved)
    assert run.judged == [due for due in sorted(DUE) if due <= step]


def test_it_is_found_before_a_row_an_evaluation_or_the_end_would_tell_of_it() -> None:
    run = Run(poison={22: math.nan})
    with pytest.raises(NonFiniteError):
        run.process().run()
    assert all(math.isfinite(row["loss"]) for row in run.told())


def test_asked_to_stop_with_a_bad_step_in_hand_nothing_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.training.loop.ROWS", 1)
    run = Run(poison={3: math.nan})
    loop = run.process()
    stop_at(4, signal.SIGTERM)(run, loop)
    with pytest.raises(NonFiniteError):
        loop.run()
    assert [saved["state"]["step"] for saved in run.shelf.saved] == [0]


def test_a_skipped_step_is_told_left_out_of_the_rows_and_the_run_goes_on() -> None:
    run = Run(poison={4: math.nan, 12: math.inf}, nonfinite="skip", minutes=0.0)
    loop = run.process()
    state = loop.run()
    assert state.step == TOTAL
    assert state.skipped == [4, 12]
    assert [note for note in run.watcher.notes if "step 4 gave a loss of nan" in note and "left out" in note]
    assert all(math.isfinite(row["loss"]) for row in run.told())
    assert (5 / TOTAL) not in loop.objective.after  # type: ignore[attr-defined]
    assert len(run.watcher.notes) == 2


def test_a_run_that_skips_can_be_stopped_after_any_step_too() -> None:
    settings: dict[str, Any] = {"poison": {4: math.nan, 12: math.inf}, "nonfinite": "skip"}
    wanted = whole(**settings).end()
    for step in range(1, TOTAL):
        run = Run(**settings)
        loop = run.process()
        stop_at(step, signal.SIGTERM)(run, loop)
        with pytest.raises(StoppedError):
            loop.run()
        run.process().run()
        assert run.end() == wanted


@pytest.mark.parametrize("minutes", [0.0, FOR_EVER])
@pytest.mark.parametrize("step", [0, 5, 14, 22])
def test_a_roll_back_goes_on_as_if_the_batch_had_never_been(step: int, minutes: float) -> None:
    run = Run(poison={step: math.nan}, nonfinite="rollback", minutes=minutes)
    state = run.process().run()
    assert state.step == TOTAL
    assert state.skipped == [step]
    (note,) = run.watcher.notes
    assert f"step {step} gave a loss of nan" in note
    assert "back to step" in note
    assert run.feed.closed == len(run.feed.opened) == 2
    assert run.update.forgotten == 1  # what was recorded of the state that is gone
    without = Run()
    other = without.process()
    other.state.skipped.append(step)
    other.run()
    assert run.end() == without.end()


def test_several_bad_steps_are_undone_one_by_one() -> None:
    run = Run(poison=dict.fromkeys([3, 4, 16], math.nan), nonfinite="rollback")
    assert run.process().run().skipped == [3, 4, 16]


def test_a_run_that_rolls_back_without_end_is_given_up() -> None:
    run = Run(poison=dict.fromkeys(range(TOTAL), math.nan), nonfinite="rollback")
    with pytest.raises(NonFiniteError):
        run.process().run()
    assert len(run.watcher.notes) == MOST_ROLLBACKS


def test_killed_after_a_roll_back_it_comes_to_the_same_end() -> None:
    settings: dict[str, Any] = {"poison": {5: math.nan}, "nonfinite": "rollback"}
    wanted = whole(**settings).end()
    run = Run(**settings)
    loop = run.process()
    run.watcher.act = lambda done: kill() if done == 9 and run.watcher.notes else None
    with pytest.raises(KilledError):
        loop.run()
    run.process().run()
    assert run.end() == wanted


# Several processes


class Pair(World):
    """One of two, the other of which found a bad step, or got a signal."""

    def most(self, number: int) -> int:
        return max(number, *vars(Pair)["others"])

    def total(self, values: Tensor) -> Tensor:
        return values


def test_what_another_process_found_bad_is_bad_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(poison={6: math.nan})
    loop = run.process()
    loop.guard.add(6, torch.tensor(math.nan), torch.tensor(1.0))
    monkeypatch.setattr(Pair, "others", [-4], raising=False)  # the other looks at its step 4
    loop.world = Pair(0, 2, torch.device("cpu"))
    with pytest.raises(NonFiniteError, match="step 4 gave a loss of nan"):
        loop._look()
    loop.guard.add(6, torch.tensor(math.nan), torch.tensor(1.0))
    monkeypatch.setattr(Pair, "others", [-TOTAL], raising=False)  # nothing at the other's
    with pytest.raises(NonFiniteError, match="step 6 gave a loss of nan"):
        loop._look()


def test_only_the_first_process_saves() -> None:
    run = Run(world=World(1, 1, torch.device("cpu")))
    run.process().run()
    assert [saved["state"]["step"] for saved in run.shelf.saved] == [0]
