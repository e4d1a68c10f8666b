"""A model that has learned something, made on the spot, and how often it says the same in other precisions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from patchwords.bench import inference
from patchwords.bench.latency import latency
from patchwords.bench.made import gratings
from patchwords.bench.row import OURS, Report
from patchwords.bench.words import expect_words
from patchwords.data.finish import targets
from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import normalise
from patchwords.models.build import build
from patchwords.models.model import Model
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.settings import at_least, check
from patchwords.speed.attention import fastest
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Precision, Working, autocast
from patchwords.speed.prepare import prepare
from patchwords.training import optimizer
from patchwords.training.groups import groups
from patchwords.training.optimizer import AdamW

ADAMW = AdamW(lr=2e-4)
WARM = 0.2  # of the steps until the rate is reached, as far again from which it falls to nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A model that learns gratings for so many steps, and is asked about others it has not seen."""

    model: str
    device: torch.device
    precisions: tuple[Working, ...] = ("bf16", "fp8")
    image: int = 224
    classes: int = 100
    steps: int = 400
    batch: int = 256
    shown: int = 4096
    learns: Precision = "bf16"
    kernels: Choice = "auto"

    def __post_init__(self) -> None:
        check(self)
        expect_words("precision", self.precisions, get_args(Working))
        at_least(1, steps=self.steps, batch=self.batch, shown=self.shown, classes=self.classes)


def agreeing(asked: Asked, note: Callable[[str], None]) -> Report:
    """The speed and agreement of every precision; beside them how good the model has become."""
    model = trained(asked, note)
    images, labels = _drawn(asked, asked.shown, seed=1)
    with torch.inference_mode():
        said = torch.cat([model(part).argmax(1) for part in images.split(asked.batch)])
    note(f"{asked.model} has learned {asked.classes} kinds of gratings: {100 * _share(said == labels):.1f} % are right")
    settings = inference.Asked(
        batch=asked.batch,
        device=asked.device,
        precisions=asked.precisions,
        kernels=asked.kernels,
        who=(OURS,),
    )
    return latency(asked.model, model, settings, images, note)


def trained(asked: Asked, note: Callable[[str], None]) -> Model:
    """Learns from pictures that are drawn anew at every step; as plain as it was built."""
    torch.manual_seed(0)
    model = build(asked.model, image=asked.image, classes=asked.classes).to(asked.device)
    objective = Classification(model, Supervised()).train()
    kinds = groups(objective, decay=ADAMW.decay, layer_decay=ADAMW.layer_decay)
    prepare(
        objective,
        kernels=asked.kernels,
        recomputed=False,
        compiled=False,
        device=asked.device,
        precision=asked.learns,
        note=note,
    )
    descent = optimizer.build(ADAMW, kinds, asked.device)
    for step in range(asked.steps):
        done = (step + 1) / asked.steps
        optimizer.rates(descent, ADAMW.lr * min(1.0, done / WARM, (1 - done) / WARM))
        images, labels = _drawn(asked, asked.batch, seed=2 + step)
        descent.zero_grad(set_to_none=True)
        with fastest(asked.device):
            with autocast(asked.learns, asked.device):
                loss, _ = objective({"image": images, "target": targets(labels, asked.classes)})
            loss.backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        descent.step()
    plain = build(model.config).to(asked.device)
    plain.load_state_dict(model.state_dict())
    return plain.eval().requires_grad_(False)


def _drawn(asked: Asked, count: int, *, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator(asked.device).manual_seed(seed)
    pixels, labels = gratings(count, asked.classes, (asked.image, asked.image), asked.device, generator)
    return normalise(pixels, Preprocess(size=(asked.image, asked.image))), labels


def _share(right: Tensor) -> float:
    return float(right.float().mean())
