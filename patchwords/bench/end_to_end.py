"""`bench end-to-end`: from JPEG files on disk to updated weights, over an epoch."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from patchwords.bench import peers, timm_loop
from patchwords.bench.ceiling import machine
from patchwords.bench.epoch import Pace, paced
from patchwords.bench.loading import augmented
from patchwords.bench.made import photographs, shelf
from patchwords.bench.measure import Effort, entered, in_turns
from patchwords.bench.row import EPOCH, OURS, Report, Row, compared
from patchwords.bench.run import begun, of_files
from patchwords.bench.values import pictures
from patchwords.data.decoder import Decoder
from patchwords.data.workers import automatic
from patchwords.errors import UsageError
from patchwords.models.build import build
from patchwords.settings import at_least, check
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Precision, mixed
from patchwords.training.optimizer import AdamW

RESIDENT = Effort(rounds=4, seconds=0.5)
ADAMW = AdamW(lr=1e-4, decay=0.05)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A model, and so many pictures to train it with once; `workers` -1: as many as there are cores."""

    model: str
    device: torch.device
    batch: int = 512
    count: int = 49152
    classes: int = 1000
    image: tuple[int, int] = (224, 224)
    precision: Precision = "bf16"
    kernels: Choice = "auto"
    compiled: bool = False
    workers: int = -1
    decoder: Decoder = "auto"
    who: tuple[str, ...] = (OURS, "timm")

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch, classes=self.classes)
        if self.count < 3 * self.batch:
            raise UsageError(f"{self.count} pictures are too few for batches of {self.batch}: take three times as many")

    @property
    def steps(self) -> int:
        return self.count // self.batch

    @property
    def processes(self) -> int:
        return self.workers if self.workers >= 0 else automatic()


def end_to_end(asked: Asked, note: Callable[[str], None]) -> Report:
    """Our feed and update, and timm's loader with a compiled step, one after the other over the same files."""
    torch.compiler.reset()
    found = peers.installed(tuple(name for name in asked.who if name != OURS), note)
    with TemporaryDirectory(dir=shelf()) as place:
        folder = photographs(Path(place) / "photographs", asked.count, asked.classes)
        rows = [_ours(folder, asked, note)] if OURS in asked.who else []
        if "timm" in found:
            rows += peers.lenient("timm", lambda: _timm(folder, asked), note)
    if not rows:
        raise UsageError(f"nobody of {', '.join(asked.who)} can be measured: name others with --who")
    told = machine(asked.device, found) | {"pictures": asked.count, "workers": asked.processes}
    return Report(bench="end-to-end", machine=told, rows=_over_the_epoch(compared(rows)))


def _over_the_epoch(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Ours with the ratio of whole epochs beside that of the steady part."""
    whole = {one.named: one.further["epoch"] for one in rows if one.who != OURS}
    return tuple(
        replace(
            one, ratios=one.ratios | {f"{name} {EPOCH}": one.further["epoch"] / pace for name, pace in whole.items()}
        )
        if one.who == OURS
        else one
        for one in rows
    )


def _ours(folder: Path, asked: Asked, note: Callable[[str], None]) -> Row:
    """Resident is the same update, the last steps of the pictures with it, on one batch that came before."""
    changes = {
        "model": asked.model,
        "precision": asked.precision,
        "kernels": asked.kernels,
        "compile": asked.compiled,
        "optimizer.lr": ADAMW.lr,
        **augmented(asked.image, asked.batch, asked.processes, asked.decoder),
    }
    run = begun(of_files(folder), changes, asked.device, note)
    feed = run.parts.feed
    with closing(feed.batches(0, 1)) as batches:
        came = next(batches)
        first = replace(came, images=came.images.clone(), labels=came.labels.clone())  # the feed's memory is its own
    ready = entered(OURS, "", asked.precision, asked.device, lambda: lambda number: run.step(first, number))
    (seconds,) = in_turns([ready.call], asked.device, RESIDENT)
    pace = paced(
        lambda: feed.batches(0, asked.steps), run.step, batch=asked.batch, steps=asked.steps, device=asked.device
    )
    return _row(OURS, "", pace, asked.batch / sorted(seconds)[len(seconds) // 2], ready, asked)


def _timm(folder: Path, asked: Asked) -> Row:
    module = peers.twin("timm", build(asked.model, image=asked.image, classes=asked.classes))
    step = timm_loop.stepping(module, ADAMW, asked.precision, asked.device, compiled=True)
    (images,) = pictures(asked.batch, 3, asked.image, asked.device, 1)
    target = torch.rand(asked.batch, asked.classes, device=asked.device).softmax(1)
    ready = entered(
        "timm", "compiled", mixed(asked.precision), asked.device, lambda: lambda number: step((images, target), number)
    )
    (seconds,) = in_turns([ready.call], asked.device, RESIDENT)
    loader = timm_loop.loader(
        folder,
        image=asked.image,
        batch=asked.batch,
        classes=asked.classes,
        workers=asked.processes,
        device=asked.device,
    )
    pace = paced(lambda: (batch for batch in loader), step, batch=asked.batch, steps=asked.steps, device=asked.device)
    return _row("timm", "compiled", pace, asked.batch / sorted(seconds)[len(seconds) // 2], ready, asked)


def _row(who: str, how: str, pace: Pace, resident: float, ready: Any, asked: Asked) -> Row:
    return Row(
        bench="end-to-end",
        model=asked.model,
        who=who,
        how=how,
        precision=ready.precision,
        batch=asked.batch,
        image=asked.image,
        images_per_second=pace.steady,
        milliseconds=1000 * asked.batch / pace.steady,
        memory=ready.memory,
        preparing=ready.preparing,
        further={
            "epoch": pace.whole,
            "steady": pace.steady,
            "resident": resident,
            "busy": pace.steady / resident,
        },
    )
