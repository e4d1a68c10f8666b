"""`bench loading`: from JPEG files to augmented batches on the device, with no model behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import torch

from patchwords.bench import peers, timm_loop
from patchwords.bench.ceiling import machine
from patchwords.bench.epoch import Pace, paced
from patchwords.bench.made import photographs, shelf
from patchwords.bench.row import OURS, Report, Row, compared
from patchwords.bench.run import begun, of_files
from patchwords.bench.words import expect_words
from patchwords.data.decoder import Decoder
from patchwords.data.workers import automatic
from patchwords.errors import UsageError
from patchwords.settings import at_least, check
from patchwords.training.update import Loaded

DECODERS: tuple[Decoder, ...] = tuple(name for name in get_args(Decoder) if name != "auto")


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """So many pictures in batches, decoded by so many processes (-1: as many as there are cores)."""

    device: torch.device
    batch: int = 256
    count: int = 8192
    classes: int = 1000
    image: tuple[int, int] = (224, 224)
    workers: int = -1
    decoders: tuple[Decoder, ...] = DECODERS
    who: tuple[str, ...] = (OURS, "timm")

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch, classes=self.classes)
        expect_words("decoder", self.decoders, DECODERS)
        if self.count < 3 * self.batch:
            raise UsageError(f"{self.count} pictures are too few for batches of {self.batch}: take three times as many")

    @property
    def steps(self) -> int:
        return self.count // self.batch

    @property
    def processes(self) -> int:
        return self.workers if self.workers >= 0 else automatic()


def loading(asked: Asked, note: Callable[[str], None]) -> Report:
    """Each decoder of ours that can be used, and timm's loader, over the same files."""
    found = peers.installed(tuple(name for name in asked.who if name != OURS), note)
    with TemporaryDirectory(dir=shelf()) as place:
        folder = photographs(Path(place) / "photographs", asked.count, asked.classes)
        rows = [_ours(folder, decoder, asked, note) for decoder in asked.decoders] if OURS in asked.who else []
        if "timm" in found:
            rows += peers.lenient("timm", lambda: _timm(folder, asked), note)
    told = tuple(row for row in rows if row is not None)
    return Report(bench="loading", machine=machine(asked.device, found) | _files(asked), rows=compared(told))


def augmented(image: tuple[int, int], batch: int, workers: int, decoder: Decoder) -> dict[str, Any]:
    """Settings of a recipe that do with a picture what timm's loader does in `timm_loop`."""
    return {
        "image": image,
        "batch": batch,
        "micro": batch,
        "objective.smoothing": timm_loop.SMOOTHING,
        "data.augment.policy.kind": "randaugment",
        "data.augment.policy.magnitude": 9.0,
        "data.augment.policy.deviation": 0.5,
        "data.augment.policy.probability": 0.5,
        "data.mix.mixup": timm_loop.MIXUP,
        "data.mix.cutmix": timm_loop.CUTMIX,
        "data.workers": workers,
        "data.decoder": decoder,
    }


def _ours(folder: Path, decoder: Decoder, asked: Asked, note: Callable[[str], None]) -> Row | None:
    """The feed of a run and the last steps on the device, which make a batch of it."""
    changes = {"model": "ViT-Mu/16", **augmented(asked.image, asked.batch, asked.processes, decoder)}
    try:
        run = begun(of_files(folder), changes, asked.device, note)
    except UsageError as error:
        note(str(error))
        return None
    finish, feed = run.parts.update.finish, run.parts.feed

    def step(loaded: Loaded, number: int) -> object:
        return finish(
            loaded.images.to(asked.device, non_blocking=True),
            loaded.labels.to(asked.device, non_blocking=True),
            indices=loaded.indices,
            views=loaded.views,
            step=number,
            progress=0.0,
        )

    pace = paced(lambda: feed.batches(0, asked.steps), step, batch=asked.batch, steps=asked.steps, device=asked.device)
    return _row(OURS, decoder, pace, asked)


def _timm(folder: Path, asked: Asked) -> Row:
    loader = timm_loop.loader(
        folder,
        image=asked.image,
        batch=asked.batch,
        classes=asked.classes,
        workers=asked.processes,
        device=asked.device,
    )
    pace = paced(
        lambda: (batch for batch in loader), lambda *_: None, batch=asked.batch, steps=asked.steps, device=asked.device
    )
    return _row("timm", "", pace, asked)


def _row(who: str, how: str, pace: Pace, asked: Asked) -> Row:
    return Row(
        bench="loading",
        model="",
        who=who,
        how=how,
        precision="",
        batch=asked.batch,
        image=asked.image,
        images_per_second=pace.steady,
        milliseconds=1000 * asked.batch / pace.steady,
        further={"epoch": pace.whole, "steady": pace.steady},
    )


def _files(asked: Asked) -> dict[str, Any]:
    return {"pictures": asked.count, "workers": asked.processes}
