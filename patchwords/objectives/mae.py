"""Masked autoencoders (He et al., 2022): most patches are taken away, and their pixels are made up from the others."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from patchwords.data.order import Indices
from patchwords.errors import UsageError
from patchwords.layers.tokens import Tokens
from patchwords.models.model import Model
from patchwords.models.vit import ViT
from patchwords.objectives.backbone import ADDED, backbone, whole_cells
from patchwords.objectives.decoder import Decoder, DecoderSize
from patchwords.objectives.objective import FEATURES, Batch, Drawn, Numbers, Objective, Surroundings
from patchwords.ops import masks, places
from patchwords.ops.patches import patchify, unpatchify
from patchwords.settings import check

EPSILON = 1e-6  # of a patch's variance


@dataclass(frozen=True, kw_only=True, slots=True)
class MAE:
    """The share of the patches that is taken away, the decoder, and whether each patch is normalised by itself."""

    kind: ClassVar[str] = "mae"
    following: ClassVar[str] = FEATURES
    ratio: float = 0.75
    width: int = 512
    depth: int = 8
    heads: int = 16
    mlp: int | None = None  # four times the width
    normalise: Literal["patch", "none"] = "patch"

    def __post_init__(self) -> None:
        check(self)
        self.decoder  # noqa: B018  (checks its sizes)
        if not 0 < self.ratio < 1:
            raise UsageError(f"ratio {self.ratio} is no share of the patches: choose one between 0 and 1")

    @property
    def decoder(self) -> DecoderSize:
        mlp = 4 * self.width if self.mlp is None else self.mlp
        return DecoderSize(width=self.width, depth=self.depth, heads=self.heads, mlp=mlp)

    def kept(self, patches: int) -> int:
        """How many of the patches the encoder sees."""
        kept = int(patches * (1 - self.ratio))
        if not 0 < kept < patches:
            raise UsageError(f"ratio {self.ratio} leaves {kept} of {patches} patches: some must stay and some must go")
        return kept

    def classes(self, of_data: int) -> int:
        """None: nothing is asked about labels."""
        return 0

    def build(self, model: Model, around: Surroundings | None = None) -> "MaskedAutoencoder":
        """The objective; it asks nothing of its surroundings."""
        return MaskedAutoencoder(_fitting(model), self)


class Reconstruction(NamedTuple):
    """What the decoder says of every patch, which of them were taken away (1), and where each stood in the order."""

    prediction: Tensor  # (batch, patches, pixels · channels), row, column, channel
    mask: Tensor  # (batch, patches)
    restore: Tensor  # (batch, patches)


class MaskedAutoencoder(Objective):
    """Positions are added to all patches; those with the smallest noise stay, and the encoder sees them alone."""

    needs = ("image", "noise")
    model: ViT

    def __init__(self, model: ViT, settings: MAE):
        super().__init__()
        self.model = model
        self.settings = settings
        config = model.config
        self.cell = whole_cells(model, settings.kind)
        self.decoder = Decoder(
            settings.decoder,
            inputs=config.width,
            outputs=self.cell[0] * self.cell[1] * config.channels,
            grid=config.grid,
            special=config.special,
            biases=config.biases,
            activation=config.activation,
            epsilon=config.epsilon,
        )
        self.patches = config.grid[0] * config.grid[1]
        self.kept = settings.kept(self.patches)

    def drawn(self, seed: int, views: Indices, indices: Indices) -> Drawn:
        return {"noise": masks.noise(seed, views, indices, self.patches).astype(np.float32)}

    def encode(self, images: Tensor, order: Tensor) -> Tokens:
        """The special tokens and the patches that come first in `order`, after the final norm."""
        tokens = self.model.embed(images)
        visible = torch.cat([tokens.special, places.take(tokens.patches, order[:, : self.kept])], 1)
        encoded: Tokens = self.model.encoder(tokens.replace(visible))
        return encoded

    def reconstruct(self, batch: Batch) -> Reconstruction:
        """The whole picture from a few of its patches."""
        order = batch["noise"].argsort(dim=1, stable=True)  # the same on every device
        restore = order.argsort(1)
        prediction = self.decoder(self.encode(batch["image"], order), restore).float()
        return Reconstruction(prediction, (restore >= self.kept).float(), restore)

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        prediction, mask, _ = self.reconstruct(batch)
        error = (prediction - self.targets(batch["image"])).square().mean(2)  # (batch, patches)
        return (error * mask).sum() / mask.sum(), {}

    def targets(self, images: Tensor) -> Tensor:
        """The pixels of every patch, less their mean and over their deviation where the settings say so."""
        pixels = patchify(images.float(), self.cell)
        if self.settings.normalise == "none":
            return pixels
        mean, deviation = _statistics(pixels)
        return (pixels - mean) / deviation

    def paint(self, images: Tensor, prediction: Tensor) -> Tensor:
        """Predictions as pictures, as the model takes them; normalised ones have their own patch's statistics back."""
        if self.settings.normalise == "patch":
            mean, deviation = _statistics(patchify(images.float(), self.cell))
            prediction = prediction * deviation + mean
        return unpatchify(prediction, self.cell, self.model.config.grid)


def _statistics(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of every patch, over all of its values; the variance is unbiased."""
    return pixels.mean(2, keepdim=True), (pixels.var(2, keepdim=True) + EPSILON).sqrt()


def _fitting(model: Model) -> ViT:
    vit = backbone(model, MAE.kind)
    config = vit.config
    if config.encoder != "global" or config.position.kind not in ADDED or config.position.at != "stem":
        raise UsageError(
            f"objective mae shows the encoder a few patches, and {config.encoder} attention with positions "
            f'{config.position.kind} at {config.position.at} needs all: set parts.encoder="global" and '
            f'parts.position.kind="fixed-1d"'
        )
    return vit
