"""Who keeps a run's files: lines of metrics, and checkpoints of all that the run is."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from patchwords.objectives.objective import Objective
from patchwords.training import optimizer
from patchwords.training.average import Average
from patchwords.training.loop import State
from patchwords.training.run import checkpoint, manifest, pointers
from patchwords.training.run.folder import RunFolder
from patchwords.training.run.manifest import DamagedError
from patchwords.training.watch import Watcher
from patchwords.weights.card import Card
from patchwords.weights.load import write_native

MODEL, AVERAGE, BEST, OBJECTIVE, OPTIMIZER = "model", "average", "best", "objective", "optimizer"


@dataclass
class RunKeeper:
    """The parts of a run, and the folder where they are kept; only the first of several processes writes."""

    folder: RunFolder
    objective: Objective
    card: Card
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    average: Average | None
    keep: int
    writes: bool
    watcher: Watcher
    listeners: list[Callable[[dict[str, Any]], None]] = field(default_factory=list)
    command: str = ""  # that goes on with the run, where it is not `patchwords train`
    held: dict[str, Tensor] | None = field(init=False, default=None)  # the best model, until the next checkpoint

    @property
    def again(self) -> str:
        return self.command or f"patchwords train --resume {self.folder.path}"

    def row(self, row: dict[str, Any]) -> None:
        if self.writes:
            self.folder.append(row)
            for listener in self.listeners:
                listener(row)

    def hold(self) -> None:
        if self.writes:
            kept = self.average.state() if self.average else self.objective.model.state_dict()
            self.held = {name: tensor.clone() for name, tensor in kept.items()}

    def save(self, state: State) -> None:
        state.metrics = self.folder.metrics_size()
        state.best_in = pointers.name(state.step) if self.held else state.best_in
        tensors, scalars = optimizer.state(self.optimizer)
        owned = self._owned()
        checkpoint.save(
            self.folder.checkpoints,
            state.step,
            {OPTIMIZER: tensors} | ({OBJECTIVE: owned} if owned else {}),
            state={"run": asdict(state), OPTIMIZER: scalars, "scaler": self.scaler.state_dict()},
            write={f"{stem}.safetensors": partial(self._write, state=kept) for stem, kept in self._models().items()},
            keep=self.keep,
            best=state.best_in or None,
            needed=self.needed(),
        )
        self.held = None

    def restore(self) -> State:
        """The last checkpoint that is whole, into the parts; metrics that came after it are cut off."""
        found = checkpoint.find(self.folder.checkpoints)
        assert found, "a run saves before its first step"
        for note in found.notes:
            self.watcher.note(note)
        loaded = checkpoint.load(found.path)
        state, self.held = State(**loaded.state["run"]), loaded.tensors.get(BEST)  # this one may be written anew
        self.objective.load_state_dict(
            {f"model.{name}": tensor for name, tensor in loaded.tensors[MODEL].items()}
            | loaded.tensors.get(OBJECTIVE, {})
        )
        optimizer.restore(self.optimizer, loaded.tensors[OPTIMIZER], loaded.state[OPTIMIZER])
        self.scaler.load_state_dict(loaded.state["scaler"])
        if self.average:
            self.average.restore(loaded.tensors[AVERAGE])
        if self.writes:
            for note in self.folder.truncate_metrics(state.metrics):
                self.watcher.note(note)
        return state if self.held else self._with_best(state)

    def _with_best(self, state: State) -> State:
        """The state; where the best model so far is lost, the next one that is judged takes its place."""
        try:
            if state.best_in:
                manifest.verify(self.folder.checkpoints / state.best_in)
        except DamagedError as error:
            self.watcher.note(f"the best model so far is lost ({error}); the next one that is judged takes its place")
            return replace(state, best=None, best_in="", evaluated=0)
        return state

    def needed(self) -> int:
        """Bytes of the checkpoints that can stand at once: those kept, the best, and the one being written."""
        parameters = sum(tensor.nbytes for tensor in self.objective.state_dict().values())
        return (self.keep + 2) * parameters * (5 if self.average else 4)

    def _models(self) -> dict[str, Mapping[str, Tensor]]:
        average = {AVERAGE: self.average.state()} if self.average else {}
        best = {BEST: self.held} if self.held else {}
        return {MODEL: self.objective.model.state_dict(), **average, **best}

    def _owned(self) -> dict[str, Tensor]:
        """What the objective has beside the model."""
        return {name: each for name, each in self.objective.state_dict().items() if not name.startswith("model.")}

    def _write(self, path: Path, state: Mapping[str, Tensor]) -> None:
        write_native(path, self.card, dict(state))
