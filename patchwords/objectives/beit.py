"""BEiT (arXiv 2106.08254): masked image modelling, the visual words of hidden patches told from the others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.tokens import Grid
from patchwords.models.model import Model
from patchwords.models.tokenizer import Tokenizer
from patchwords.models.vit import ViT
from patchwords.objectives.backbone import backbone
from patchwords.objectives.guide import in_channels, shown
from patchwords.objectives.objective import FEATURES, Batch, Drawn, Guide, Numbers, Objective, Surroundings
from patchwords.ops import masks, places

LEAST, MOST, OF = 16, 75, 196  # patches in a block, of the 14x14 in the paper; other grids have their share
STD = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class BEiT:
    """Whose words are learned; the share of the patches that is hidden, rounded to whole ones; the blocks' sizes.

    `least` and `most` patches of a block are the paper's share of the grid unless they are set.
    """

    kind: ClassVar[str] = "beit"
    following: ClassVar[str] = FEATURES
    tokenizer: str = ""
    share: float = 0.4
    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(f"share {self.share} is no share of the patches: choose one between 0 and 1")
        least = 1 if self.least is None else self.least
        if not 1 <= least <= (least if self.most is None else self.most):
            raise UsageError(f"blocks of {self.least} to {self.most} patches cannot be: choose 1 <= least <= most")

    @property
    def guide(self) -> str:
        """Whose words they are, which somebody has to say."""
        if not self.tokenizer:
            raise UsageError(
                "nobody says which words to learn: train a tokenizer (`patchwords train DATA --recipe tokenizer`) and "
                "set objective.tokenizer to its run folder, or to a weights file such as DALL-E's encoder.pkl"
            )
        return self.tokenizer

    def classes(self, of_data: int) -> int:
        """None: nothing is asked about labels."""
        return 0

    def build(self, model: Model, around: Surroundings) -> "MaskedImageModelling":
        student = backbone(model, self.kind)
        words = Words(around.open(self.guide), around.preprocess, student, self.tokenizer)
        return MaskedImageModelling(student, self, words)

    def blocks(self, grid: Grid) -> tuple[int, int, int]:
        """How many patches of a grid are hidden, and the least and the most in a block."""
        patches = grid[0] * grid[1]
        count = round(self.share * patches)
        if not 0 < count < patches:
            raise UsageError(f"share {self.share} of {patches} patches hides {count}: some must be hidden, and not all")
        least = max(1, round(LEAST / OF * patches)) if self.least is None else self.least
        return count, least, max(least, round(MOST / OF * patches)) if self.most is None else self.most


class Words:
    """The tokenizer, frozen and no part of what is saved; its view has a word for each patch of the student."""

    def __init__(self, guide: Guide, given: Preprocess, student: ViT, name: str):
        if not isinstance(guide.model, Tokenizer):
            raise ModelError(
                f"objective.tokenizer {name} is no tokenizer: train one with `patchwords train DATA --recipe "
                "tokenizer`, or give a file in DALL-E's format"
            )
        rows, cols = student.config.grid
        config = guide.model.config
        in_channels(torch.empty(0, student.config.channels, 1, 1), config.channels)  # or refuses, before training
        self.model, self.given = guide.model, given
        self.wanted = replace(guide.preprocess, size=(rows * config.stride, cols * config.stride))
        self.vocabulary = config.vocabulary

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """(batch, patches), as precise as the tokenizer itself: near words must not depend on the run's precision."""
        with torch.autocast(images.device.type, enabled=False):
            return self.model.tokens(shown(images.float(), self.given, self.wanted)).flatten(1)


class MaskedImageModelling(Objective):
    """Pictures whose patches are hidden in blocks, the same number of each, to the cross-entropy of their words."""

    needs = ("image", "masked")
    model: ViT

    def __init__(self, model: ViT, settings: BEiT, words: Words):
        super().__init__()
        self.model = model
        self.words = words
        self.grid = model.config.grid
        self.count, self.least, self.most = settings.blocks(self.grid)
        self.mask_token = nn.Parameter(torch.empty(1, 1, model.config.width))
        nn.init.normal_(self.mask_token, std=STD)
        self.head = nn.Linear(model.config.width, words.vocabulary)
        nn.init.normal_(self.head.weight, std=STD)
        nn.init.zeros_(self.head.bias)

    def drawn(self, seed: int, views: Indices, indices: Indices) -> Drawn:
        """The places of the hidden patches: (batch, count), ascending."""
        mask, _ = masks.blockwise(
            seed, views, indices, grid=self.grid, count=self.count, least=self.least, most=self.most
        )
        return {"masked": np.nonzero(mask)[1].reshape(-1, self.count)}

    def predict(self, images: Tensor, masked: Tensor) -> Tensor:
        """The logits of the words at the hidden places: (batch, count, vocabulary)."""
        patches, grid = self.model.embed.project(images)  # (batch, patches, width)
        hidden = places.put(patches, masked, self.mask_token.to(patches.dtype))
        z = self.model.encoder(self.model.embed.assemble(hidden, grid))
        logits: Tensor = self.head(places.take(z.patches, masked))
        return logits.float()

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        images, masked = batch["image"], batch["masked"]
        words = self.words(images).gather(1, masked)  # (batch, count)
        logits = self.predict(images, masked)
        right = logits.argmax(2) == words
        return F.cross_entropy(logits.flatten(0, 1), words.flatten()), {"accuracy": right.float().mean()}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What torch calls to move a module: the tokenizer goes along."""
        self.words.model._apply(fn)  # type: ignore[no-untyped-call]
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
