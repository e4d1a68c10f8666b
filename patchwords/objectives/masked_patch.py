"""Section 4.6 and App. B.1.2: masked patch prediction, as BERT does it with words."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.errors import UsageError
from patchwords.layers.initialise import dense
from patchwords.models.model import Model
from patchwords.models.vit import ViT
from patchwords.objectives.backbone import backbone, whole_cells
from patchwords.objectives.guide import restored
from patchwords.objectives.objective import FEATURES, Batch, Drawn, Numbers, Objective, Surroundings
from patchwords.ops import draws, masks, places
from patchwords.ops.patches import patchify
from patchwords.settings import check

LEVELS = 8  # of a colour: 3 bits
MOST_COLOURS = 3  # channels, of which 8 levels each make 512 classes
SIDE = 4  # of a downsized patch
HIDDEN, SWAPPED, KEPT = 0, 1, 2  # what is done to a corrupted patch
SHARES = np.array([0.8, 0.9])  # up to which a draw says hidden, then swapped, and from there on kept: 80, 10, 10 %


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedPatch:
    """The share of the patches that is corrupted, and what is predicted of each of these."""

    kind: ClassVar[str] = "masked_patch"
    following: ClassVar[str] = FEATURES
    ratio: float = 0.5
    target: Literal["mean-colour", "downsized", "pixels"] = "mean-colour"

    def __post_init__(self) -> None:
        check(self)
        if not 0 < self.ratio <= 1:
            raise UsageError(f"ratio {self.ratio} is no share of the patches: choose one above 0 and up to 1")

    def classes(self, of_data: int) -> int:
        """None: nothing is asked about labels."""
        return 0

    def build(self, model: Model, around: Surroundings) -> "MaskedPatchPrediction":
        return MaskedPatchPrediction(backbone(model, self.kind), self, around.preprocess)


class MaskedPatchPrediction(Objective):
    """Of every picture the same number of patches, drawn at random, is corrupted and predicted.

    Of these 80 % have the mask's embedding, 10 % that of another patch of the picture, 10 % stay: a draw for each patch
    by itself. Each is predicted from its own token, also where it stayed, and no other patch counts.
    """

    needs = ("image", "corrupted", "fate", "other")
    model: ViT

    def __init__(self, model: ViT, settings: MaskedPatch, preprocess: Preprocess):
        super().__init__()
        self.model = model
        self.settings = settings
        self.target = _target(model, settings.target, preprocess)
        self.mask_token = nn.Parameter(torch.empty(1, 1, model.config.width))
        nn.init.normal_(self.mask_token, std=0.02)
        self.head = dense(model.config.width, self.target.outputs)
        self.patches = model.config.grid[0] * model.config.grid[1]
        self.count = max(1, round(self.patches * settings.ratio))
        if self.patches < 2:
            raise UsageError("a picture of one patch has no other to be predicted from: choose smaller patches")

    def drawn(self, seed: int, views: Indices, indices: Indices) -> Drawn:
        """Which patches are corrupted, what is done to each, and which other one it may be given: (batch, count)."""
        corrupted = masks.lowest(masks.noise(seed, views, indices, self.patches), self.count)
        fate = draws.uniform("fate", seed, views, indices, count=self.count)
        other = draws.uniform("other", seed, views, indices, count=self.count)
        step = 1 + np.floor(other * (self.patches - 1)).astype(np.int64)  # never around to the patch itself
        return {
            "corrupted": corrupted,
            "fate": np.searchsorted(SHARES, fate, side="right"),
            "other": (corrupted + step) % self.patches,
        }

    def corrupt(self, patches: Tensor, batch: Batch) -> Tensor:
        """Patch embeddings (batch, patches, width) with the chosen ones changed."""
        fate = batch["fate"][:, :, None]
        chosen, other = places.take(patches, batch["corrupted"]), places.take(patches, batch["other"])
        changed = torch.where(fate == SWAPPED, other, chosen)
        changed = torch.where(fate == HIDDEN, self.mask_token.to(patches.dtype), changed)
        return places.put(patches, batch["corrupted"], changed)

    def predict(self, batch: Batch) -> Tensor:
        """What is said of every corrupted patch: (batch, count, outputs)."""
        patches, grid = self.model.embed.project(batch["image"])
        z = self.model.encoder(self.model.embed.assemble(self.corrupt(patches, batch), grid))
        prediction: Tensor = self.head(places.take(z.patches, batch["corrupted"]))
        return prediction.float()

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        with torch.no_grad():
            wanted = places.take(self.target(batch["image"]), batch["corrupted"])
        return self.target.judge(self.predict(batch), wanted)


class Colours(nn.Module):
    """Classes of colours: a picture of `side` by `side` colours a patch, each of 8 levels a channel."""

    def __init__(self, cell: tuple[int, int], side: int, preprocess: Preprocess):
        super().__init__()
        self.cell, self.side, self.preprocess = cell, side, preprocess
        self.channels = len(preprocess.mean)
        self.outputs = side * side * LEVELS**self.channels
        if self.channels > MOST_COLOURS:
            raise UsageError(
                f"{self.channels} channels of {LEVELS} levels are too many classes: up to {MOST_COLOURS} channels "
                f'are predicted by colour; set objective.target="pixels"'
            )
        if min(cell) < side:
            raise UsageError(
                f"a patch of {cell[0]}x{cell[1]} pixels cannot be downsized to {side}x{side}: choose larger patches, "
                f'or objective.target="mean-colour"'
            )

    def forward(self, images: Tensor) -> Tensor:
        """(batch, patches, side · side), each the number of a class."""
        pixels = patchify(restored(images.float(), self.preprocess).clamp(0, 1), self.cell)
        tiles = pixels.unflatten(2, (*self.cell, self.channels)).permute(0, 1, 4, 2, 3)  # (…, channels, tall, wide)
        means = F.adaptive_avg_pool2d(tiles.flatten(0, 1), self.side).unflatten(0, tiles.shape[:2]).flatten(3)
        levels = (means * LEVELS).long().clamp(0, LEVELS - 1)  # white alone would be a ninth
        classes = torch.zeros_like(levels[:, :, 0])
        for channel in range(self.channels):
            classes = classes * LEVELS + levels[:, :, channel]
        return classes

    def judge(self, prediction: Tensor, wanted: Tensor) -> tuple[Tensor, Numbers]:
        logits = prediction.unflatten(2, (self.side * self.side, -1)).flatten(0, 2)
        answers = wanted.flatten()
        return F.cross_entropy(logits, answers), {"accuracy": (logits.argmax(1) == answers).float().mean()}


class Pixels(nn.Module):
    """All values of a patch as the model takes them, by their squared distance."""

    def __init__(self, cell: tuple[int, int], channels: int):
        super().__init__()
        self.cell, self.outputs = cell, cell[0] * cell[1] * channels

    def forward(self, images: Tensor) -> Tensor:
        """(batch, patches, pixels · channels)."""
        return patchify(images.float(), self.cell)

    def judge(self, prediction: Tensor, wanted: Tensor) -> tuple[Tensor, Numbers]:
        return F.mse_loss(prediction, wanted), {}


def _target(model: ViT, kind: str, preprocess: Preprocess) -> Colours | Pixels:
    cell = whole_cells(model, MaskedPatch.kind)
    if kind == "pixels":
        return Pixels(cell, model.config.channels)
    return Colours(cell, 1 if kind == "mean-colour" else SIDE, preprocess)
