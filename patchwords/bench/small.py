"""Small models on small pictures, where launching and loading rule: ours beside the customary loop."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from patchwords.bench import peers, timm_loop
from patchwords.bench.ceiling import machine
from patchwords.bench.epoch import Pace, paced
from patchwords.bench.row import OURS, Report, Row, compared
from patchwords.bench.run import begun, of_source
from patchwords.data.sources.arrays import Arrays
from patchwords.data.workers import automatic
from patchwords.errors import ModelError
from patchwords.models.build import configure
from patchwords.models.vit import ViTConfig
from patchwords.settings import at_least, check
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Precision, mixed
from patchwords.speed.step import Graph
from patchwords.training.optimizer import AdamW

WARM = 12  # steps before the clock: whatever is compiled or recorded is so by then
ADAMW = AdamW(lr=5e-4, decay=0.05)


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A model, so many pictures in memory, and how often they are gone through."""

    model: str
    device: torch.device
    batch: int = 512
    count: int = 50_000
    epochs: int = 2
    precision: Precision = "bf16"
    kernels: Choice = "auto"
    graph: Graph = "auto"
    compiled: bool = False
    workers: int = -1  # of the peer's loader; -1: as many as there are cores
    who: tuple[str, ...] = (OURS, "timm")

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch, epochs=self.epochs)
        at_least(self.batch, count=self.count)

    @property
    def steps(self) -> int:
        return self.epochs * (self.count // self.batch)


def small(asked: Asked, note: Callable[[str], None]) -> Report:
    """Crops with a border and flips on 32x32 or so, from arrays: ours cached on the device, theirs by a DataLoader."""
    torch.compiler.reset()
    config = configure(asked.model)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (asked.count, *config.image, config.channels), dtype=np.uint8)
    labels = np.arange(asked.count) % config.classes
    found = peers.installed(tuple(name for name in asked.who if name != OURS), note)
    rows = [_ours(Arrays(pixels, labels, "train"), config.classes, asked, note)] if OURS in asked.who else []
    if "timm" in found:
        rows += peers.lenient("timm", lambda: _timm(config, pixels, labels, asked), note)
    return Report(bench="small", machine=machine(asked.device, found), rows=compared(rows))


def _ours(source: Arrays, classes: int, asked: Asked, note: Callable[[str], None]) -> Row:
    changes = {
        "model": asked.model,
        "batch": asked.batch,
        "micro": asked.batch,
        "precision": asked.precision,
        "kernels": asked.kernels,
        "graph": asked.graph,
        "compile": asked.compiled,
        "optimizer.lr": ADAMW.lr,
        "data.cache": "device",
        "data.crop.kind": "padded",
    }
    run = begun(of_source("made", tuple(map(str, range(classes))), source), changes, asked.device, note)
    for number, loaded in enumerate(run.parts.feed.batches(0, WARM)):
        run.step(loaded, number)
    feed = run.parts.feed
    pace = paced(
        lambda: feed.batches(0, asked.steps), run.step, batch=asked.batch, steps=asked.steps, device=asked.device
    )
    return _row(OURS, "", pace, asked)


def _timm(config: Any, pixels: Any, labels: Any, asked: Asked) -> Row:
    """timm's ViT of the same sizes: its blocks have the norm elsewhere than ViT-Lite's, and cost the same."""
    if not isinstance(config, ViTConfig):
        raise ModelError(f"timm's plain loop is for ViTs, and {asked.model} is none")
    module = peers.part("timm", "models.vision_transformer").VisionTransformer(
        img_size=config.image,
        patch_size=config.patch[0],
        in_chans=config.channels,
        num_classes=config.classes,
        embed_dim=config.width,
        depth=config.depth,
        num_heads=config.heads,
        mlp_ratio=config.mlp / config.width,
        qkv_bias=config.biases == "qkv",
    )
    workers = asked.workers if asked.workers >= 0 else automatic()
    loader = timm_loop.small_loader(pixels, labels, batch=asked.batch, workers=workers)
    step = timm_loop.stepping(module, ADAMW, asked.precision, asked.device, compiled=True)
    first = next(iter(loader))
    for number in range(WARM):
        step(first, number)

    def batches() -> Generator[Any]:
        while True:
            yield from loader

    pace = paced(batches, step, batch=asked.batch, steps=asked.steps, device=asked.device)
    return _row("timm", "compiled", pace, asked)


def _row(who: str, how: str, pace: Pace, asked: Asked) -> Row:
    return Row(
        bench="small",
        model=asked.model,
        who=who,
        how=how,
        precision=asked.precision if who == OURS else mixed(asked.precision),
        batch=asked.batch,
        image=configure(asked.model).image,
        images_per_second=pace.steady,
        milliseconds=1000 * asked.batch / pace.steady,
        further={"epoch": pace.whole, "steady": pace.steady},
    )
