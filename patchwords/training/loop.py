"""One loop for every objective: update, look, evaluate, save; from any step to the same bits."""

import math
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn, stack, tensor

from patchwords.data.order import Order
from patchwords.data.sources.source import Source
from patchwords.errors import NonFiniteError
from patchwords.evaluation.classify import LOWER_IS_BETTER
from patchwords.objectives.objective import Objective
from patchwords.training.average import Average
from patchwords.training.clock import Clock, peak
from patchwords.training.distributed import World
from patchwords.training.guard import EVERY, Bad, Guard
from patchwords.training.optimizer import rates
from patchwords.training.schedule import Plan
from patchwords.training.signals import StoppedError, Wish, word
from patchwords.training.update import Loaded, Update, named
from patchwords.training.watch import Moment, Watcher

ROWS = 20  # of training metrics in an epoch, at most
MOST_ROLLBACKS = 10
LAST = "last"  # no score: the later model is the better one


@dataclass
class State:
    """Where a run is; with the tensors, all that it needs to go on."""

    step: int = 0  # updates made
    evaluated: int = 0  # the step of the last evaluation
    best: float | None = None
    best_step: int = 0
    best_in: str = ""  # the checkpoint that holds the best model
    waited: int = 0  # evaluations since the best one
    stopped: bool = False  # early, since nothing got better
    skipped: list[int] = field(default_factory=list)  # steps whose gradients were not finite, left out
    sums: dict[str, float] = field(default_factory=dict)  # of the metrics since the last row
    counted: int = 0  # steps in them
    seconds: float = 0.0
    metrics: int = 0  # bytes of metrics.jsonl


class Keeper(Protocol):
    """Who keeps a run's files."""

    @property
    def again(self) -> str:
        """The command that goes on with the run."""

    def row(self, row: dict[str, Any]) -> None:
        """A line of metrics."""

    def hold(self) -> None:
        """The model is the best so far: the next checkpoint will hold it as it is now."""

    def save(self, state: State) -> None:
        """A checkpoint."""

    def restore(self) -> State:
        """Everything as the last checkpoint has it."""


class Feed(Protocol):
    def batches(self, start: int, stop: int) -> Generator[Loaded]: ...


class Judge(Protocol):
    def __call__(self) -> dict[str, float] | None:
        """The scores of the model as it is, or None when it was asked to stop."""


class _RolledBackError(Exception):
    """The run stands at an earlier step again."""


@dataclass
class Loop:
    """The parts of a run, and the run."""

    objective: Objective
    update: Update
    average: Average | None
    plan: Plan
    lr: float
    feed: Feed
    judge: Judge
    keeper: Keeper
    order: Order
    source: Source
    world: World
    watcher: Watcher
    wish: Wish
    state: State
    due: frozenset[int]  # steps after which the model is judged
    best: str  # the score that decides
    patience: int  # evaluations without a better one before it stops; 0 for never
    nonfinite: str
    minutes: float  # between two checkpoints

    def __post_init__(self) -> None:
        self.total = self.plan.total
        self.per_epoch = self.order.samples / self.update.batch
        self.every = max(EVERY, math.ceil(self.per_epoch / ROWS))  # a row waits for the device, as a look does
        self.frozen = [part for part in self.objective.model.modules() if _is_frozen(part)]
        self.guard = Guard(norms=not self.update.scaler.is_enabled())
        self.rollbacks = 0
        self._begin()

    def _begin(self) -> None:
        self.clock = Clock(self.state.seconds)
        self.names = list(self.state.sums)  # of the numbers whose sums the window holds
        mine = self.state.sums if self.world.leads else {}  # they are everybody's
        self.window = tensor([mine.get(name, 0.0) for name in self.names], device=self.world.device)
        self._learning()

    def resume(self, state: State) -> None:
        """Stands where a checkpoint was made."""
        self.state = state
        self._begin()

    def run(self) -> State:
        """Goes on from the state until the end; asked to stop, it saves and raises `StoppedError`."""
        while True:
            try:
                with closing(self.feed.batches(self.state.step, self.total)) as batches:
                    self._run(batches)
                return self.state
            except _RolledBackError:
                self.update.forget()
                self._begin()

    def _run(self, batches: Generator[Loaded]) -> None:
        while True:
            if self.state.step in self.due and self.state.evaluated < self.state.step:
                self._evaluate()
            if self.state.step >= self.total or self.state.stopped:
                return
            self._heed()
            with self.clock.waiting():
                loaded = next(batches)
            self._step(loaded)
            if self.guard.due():
                self._look()

    def _learning(self) -> None:
        """Dropout and its kin only where something learns: a frozen part is what it is in evaluation."""
        self.objective.train()
        for part in self.frozen:
            part.eval()

    def _step(self, loaded: Loaded) -> None:
        step = self.state.step
        rates(self.update.optimizer, self.lr * self.plan.rate(step))
        if step not in self.state.skipped:
            numbers, norm = self.update(loaded, step, step / self.total)
            if self._counts(step, numbers, norm):
                if self.average:
                    self.average.update(step)
                self.objective.after_step((step + 1) / self.total)
        self.state.step = step + 1
        self.clock.images += self.update.batch
        self.watcher.step(self.state.step, self.total)
        if self.state.step % self.every == 0 or self.state.step in self.due:
            self._row()

    def _counts(self, step: int, numbers: dict[str, Tensor], norm: Tensor) -> bool:
        """Adds to the sums of the metrics; what is wrong is seen at the next look, or at once where it is left out."""
        if self.nonfinite == "skip" and self._is_left_out(numbers["loss"], norm):
            self.state.skipped.append(step)
            self.watcher.note(f"{self._found(Bad(step, float(numbers['loss']), float(norm)))}; the step was left out")
            return False
        self.guard.add(step, numbers["loss"], norm)
        if not self.guard.norms:
            norm = norm.nan_to_num(0.0, 0.0, 0.0)  # an overflow of fp16, whose step the scaler left out
        values = stack([value.float() for value in (*numbers.values(), norm / self.world.size)])
        self.window = self.window + values if self.state.counted else values
        self.names = [*numbers, "norm"]
        self.state.counted += 1
        return True

    def _is_left_out(self, loss: Tensor, norm: Tensor) -> bool:
        """Whether the update was not made since something was not finite; what overflows with fp16 is no such thing."""
        if self.guard.norms:
            return not bool(norm.isfinite())
        return self.world.most(int(not bool(loss.isfinite()))) > 0

    def _row(self) -> None:
        """A line of metrics: means over the steps since the last one, and over all processes."""
        self._look()
        if not self.state.counted:
            return
        means = {name: total / self.state.counted for name, total in self._totals().items()}
        speed, waiting = self.clock.lap()
        epoch, rate = self.state.step / self.per_epoch, self.lr * self.plan.rate(self.state.step - 1)
        self.names, self.state.counted = [], 0
        paces = {"images_per_second": round(speed, 2), "waiting": round(waiting, 4)}
        self.keeper.row(self._place("train") | means | {"lr": rate} | paces)
        left = (self.total - self.state.step) * self.update.batch / speed
        self.watcher.moment(
            Moment(
                epoch=epoch,
                epochs=self.total / self.per_epoch,
                loss=means["loss"],
                accuracy=means.get("accuracy"),
                rate=rate,
                images_per_second=speed,
                waiting=waiting,
                memory=peak(self.world.device),
                seconds_left=left,
            )
        )

    def _place(self, kind: str) -> dict[str, Any]:
        """What a line of metrics begins with: where in the run it stands."""
        step = self.state.step
        epoch, seconds = round(step / self.per_epoch, 6), round(self.clock.seconds(), 3)
        return {"kind": kind, "step": step, "epoch": epoch, "seconds": seconds}

    def _totals(self) -> dict[str, float]:
        """The sums of the metrics since the last row, over all processes."""
        if not self.names:
            return {}
        return dict(zip(self.names, self.world.total(self.window).tolist(), strict=True))

    def _evaluate(self) -> None:
        self._look()
        scores = self.judge()
        self._learning()
        if scores is None:
            self._leave(self.world.most(self.wish.number))
            return
        state = self.state
        value = float(state.step) if self.best == LAST else scores[self.best]
        better = state.best is None or (value < state.best if self.best in LOWER_IS_BETTER else value > state.best)
        if better:
            state.best, state.best_step = value, state.step
            self.keeper.hold()
        state.evaluated, state.waited = state.step, 0 if better else state.waited + 1
        state.stopped = bool(self.patience) and state.waited >= self.patience
        row = self._place("val") | scores
        self.keeper.row(row)
        self.watcher.scored(row, better and self.best != LAST)
        if state.stopped or state.step >= self.total:
            self._save()
        self.clock.lap()  # the next row tells the speed of training alone

    def _heed(self) -> None:
        """What any process was asked, or finds due, all do together."""
        asked = self.world.most(2 * self.wish.number + self.clock.due(self.minutes))
        if asked > 1:
            self._leave(asked // 2)
        if asked:
            self._look()
            self._save()

    def _leave(self, number: int) -> None:
        self._look()
        self._save()
        place = f"after step {self.state.step} of {self.total}"
        raise StoppedError(number, f"stopped by {word(number)} {place}, and saved; `{self.keeper.again}` goes on")

    def _save(self) -> None:
        start = time.monotonic()
        self.state.sums = self._totals()
        self.state.seconds = self.clock.seconds()
        if self.world.leads:
            self.keeper.save(self.state)
        self.clock.saved(start)

    def _look(self) -> None:
        """Whether all steps since the last look were finite; what is not is told, and stops or is undone."""
        bad = self.guard.look()
        first = -self.world.most(-(bad.step if bad else self.total))  # the earliest that any process found in its part
        if first == self.total:
            return
        if bad is None or bad.step != first:
            bad = Bad(first, math.nan, math.nan)
        sentence = self._found(bad)
        if self.nonfinite != "rollback" or self.rollbacks >= MOST_ROLLBACKS:
            raise NonFiniteError(
                f"{sentence}; nothing of it was saved. Start anew with a lower optimizer.lr, with clip, or nonfinite "
                f"set to skip or rollback; `{self.keeper.again}` would come to the same step"
            )
        self.rollbacks += 1
        skipped = {*self.state.skipped, bad.step}  # the checkpoint may be older than the last step left out
        self.state = self.keeper.restore()
        self.state.skipped = sorted(skipped.union(self.state.skipped))
        self.watcher.note(f"{sentence}; back to step {self.state.step}, and on without that batch")
        raise _RolledBackError

    def _found(self, bad: Bad) -> str:
        start = bad.step * self.update.batch
        indices, _ = self.order.take(start, start + self.update.batch)
        return (
            f"step {bad.step} gave a loss of {bad.loss:g} and gradients of norm {bad.norm:g}, with the pictures "
            f"{named(self.source, indices)}"
        )


def _is_frozen(part: nn.Module) -> bool:
    """Whether it has parameters, and none of them learns."""
    learn = [parameter.requires_grad for parameter in part.parameters()]
    return bool(learn) and not any(learn)
