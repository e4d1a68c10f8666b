"""Where a training step goes, or a batch that is answered: the device's time by kernel, as torch's profiler sees it."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity

from patchwords.bench import inference, training
from patchwords.bench.ceiling import machine
from patchwords.bench.measure import Call, Effort, Entrant, finish, in_turns
from patchwords.bench.row import Report, row
from patchwords.bench.same import CHECKED, exact, logits
from patchwords.bench.values import pictures
from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.settings import at_least, check
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Precision
from patchwords.speed.step import Graph

KINDS = {"cuda": ("kernel", "gpu_memcpy", "gpu_memset"), "cpu": ("cpu_op",)}  # of a trace's events
ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "cpu": ProfilerActivity.CPU}
LETTERS = 80  # of a kernel's name: the library's go on and on
EFFORT = Effort(rounds=4, seconds=0.3)
Work = Literal["training", "inference"]
NAMED = {"training": "a step", "inference": "a batch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """So many pictures at a time, in which of our settings; how many steps are looked at, and kernels told."""

    batch: int
    device: torch.device
    work: Work = "training"
    precision: Precision = "bf16"
    kernels: Choice = "auto"
    graph: Graph = "auto"
    steps: int = 4
    told: int = 40
    effort: Effort = EFFORT

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch, steps=self.steps, told=self.told)
        if self.work == "inference" and self.graph != "auto":
            raise UsageError(f"graph {self.graph} is for training: leave it out, or set work to training")


@dataclass(frozen=True)
class Spent:
    """What one kernel takes of a step, launched in one shape: Triton's kernels share names, and shapes tell them."""

    name: str
    shape: str
    milliseconds: float
    times: float

    def __str__(self) -> str:
        return f"{self.milliseconds:8.3f} ms {self.times:6.1f} x  {self.name[:LETTERS]} {self.shape}".rstrip()


def profile(name: str, model: Model, asked: Asked, note: Callable[[str], None]) -> Report:
    """What `bench training` or `bench inference` measures of ours, and its kernels in the notes.

    A profiler costs a little of the time itself.
    """
    config = model.config
    kind, count = (_learning, training.SETS) if asked.work == "training" else (_answering, inference.SETS)
    sets = pictures(asked.batch, config.channels, config.image, asked.device, count)
    entrant = kind(deepcopy(model).to(asked.device), sets, asked, note)
    (seconds,) = in_turns([entrant.call], asked.device, asked.effort)
    every = spent(_traced(entrant.call, asked), KINDS[asked.device.type], asked.steps)
    made = row("profile", name, entrant, seconds, batch=asked.batch, image=config.image)
    total = sum(each.milliseconds for each in every)
    rest = sum(each.milliseconds for each in every[asked.told :])
    begins = f"{NAMED[asked.work]} takes {made.milliseconds:.2f} ms, and {total:.2f} ms of kernels"
    said = [
        f"{begins}, {len(every)} of them that differ:",
        *map(str, every[: asked.told]),
        f"{rest:8.3f} ms           all others",
    ]
    return Report(bench="profile", machine=machine(asked.device, {}), rows=(made,), notes=tuple(said))


def _learning(model: Model, sets: list[Tensor], asked: Asked, note: Callable[[str], None]) -> Entrant:
    labels = [torch.randint(model.config.classes, (asked.batch,), device=asked.device) for _ in sets]
    settings = training.Asked(
        batch=asked.batch,
        device=asked.device,
        precisions=(asked.precision,),
        kernels=asked.kernels,
        graph=asked.graph,
    )
    entrant, _ = training.ours(training.Course(model, sets, labels, settings), asked.precision, note)
    return entrant


def _answering(model: Model, sets: list[Tensor], asked: Asked, note: Callable[[str], None]) -> Entrant:
    settings = inference.Asked(
        batch=asked.batch, device=asked.device, precisions=(asked.precision,), kernels=asked.kernels
    )
    model = model.eval().requires_grad_(False)
    with exact():
        wanted = logits(model, sets[0][:CHECKED])
    (entrant,) = inference.ours(inference.Course(model, sets, wanted, settings), note)
    return entrant


def spent(events: Iterable[Mapping[str, Any]], kinds: tuple[str, ...], steps: int) -> list[Spent]:
    """What each takes of one of so many steps, the longest first."""
    every: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") in kinds:
            every[event["name"], _shape(event.get("args", {}))].append(event["dur"] / 1000)
    found = [Spent(*key, sum(times) / steps, len(times) / steps) for key, times in every.items()]
    return sorted(found, key=lambda each: -each.milliseconds)


def _shape(told: Mapping[str, Any]) -> str:
    """Programs, threads and registers, where a kernel was launched."""
    if "grid" not in told:
        return ""
    grid, threads = ("x".join(map(str, told[key])) for key in ("grid", "block"))
    return f"[{grid} of {threads}, {told.get('registers per thread', '?')} registers]"


def _traced(call: Call, asked: Asked) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "trace.json"
        with torch.profiler.profile(activities=[ACTIVITIES[asked.device.type]], acc_events=True) as looks:
            for number in range(asked.steps):
                call(number)
            finish(asked.device)
        looks.export_chrome_trace(str(place))
        events: list[dict[str, Any]] = json.loads(place.read_text("utf-8"))["traceEvents"]
        return events
