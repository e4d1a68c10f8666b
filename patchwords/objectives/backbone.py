"""The part of a ViT that a masked objective trains: everything up to the norm of eq. 4, and nothing behind it."""

from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.models.vit import ViT
from patchwords.ops import patches

# Positions that are added to the tokens, and so stay with each where others are taken away.
ADDED = ("none", "learned-1d", "learned-2d", "sincos-2d", "sinusoidal-1d", "fixed-1d")


def backbone(model: Model, objective: str) -> ViT:
    """The model, if its tokens can be read after the final norm and none of its parameters would be left out."""
    if not isinstance(model, ViT):
        kind = model.config.kind
        raise UsageError(f"objective {objective} hides patches of a ViT, and the model is a {kind}: choose a ViT")
    config = model.config
    if config.pool.norm != "before":
        raise UsageError(
            f"objective {objective} reads the tokens after the final norm, which pool {config.pool.kind!r} has behind "
            f'the mean: set parts.pool.kind="class"'
        )
    if behind := [name for name, _ in model.named_parameters() if name.startswith(("pool.", "head."))]:
        raise UsageError(
            f"objective {objective} would not train {behind[0]} ({len(behind)} such): set parts.pool.kind="
            f'"class" (or "mean") and parts.head.kind="linear", and let the model have no classes'
        )
    return model


def whole_cells(model: ViT, objective: str) -> tuple[int, int]:
    """Height and width of a patch in pixels; a stem that rounds sizes up has patches without pixels of their own."""
    config = model.config
    if patches.grid(config.image, config.cell) != config.grid:
        (height, width), (rows, cols) = config.image, config.grid
        raise UsageError(
            f"objective {objective} needs patches that divide the picture, and {height}x{width} pixels are not "
            f"{rows}x{cols} patches of {config.cell[0]}x{config.cell[1]}: choose another image"
        )
    return config.cell
