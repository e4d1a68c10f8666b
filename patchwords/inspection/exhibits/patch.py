"""Where one patch of one picture looks, in one layer."""

from dataclasses import dataclass
from typing import NamedTuple

from patchwords.errors import UsageError
from patchwords.inspection.exhibits.exhibit import Exhibit, refuse_non_finite
from patchwords.inspection.figures import patch as figure
from patchwords.inspection.patch import check_place, patch_attention
from patchwords.inspection.pictures import Shot
from patchwords.inspection.viewer import Viewer
from patchwords.layers.encoder import check_layers
from patchwords.models.vit import ViTConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Which patch is asked, counted from 1: the middle one, in the middle layer, with all heads, unless it is said."""

    layer: int | None = None
    head: int | None = None
    place: tuple[int, int] | None = None  # row and column


class Asked(NamedTuple):
    """A query that a model can answer."""

    layer: int
    heads: range
    place: tuple[int, int]


def asked(query: Query, viewer: Viewer) -> Asked:
    """The query with what it left open, or a refusal."""
    config = viewer.subject.card.model
    assert isinstance(config, ViTConfig), "only attention has a layer, a head and a patch"
    layer = (config.depth + 1) // 2 if query.layer is None else query.layer
    check_layers([layer], config.depth)
    if query.head is not None and not 1 <= query.head <= config.heads:
        raise UsageError(f"there is no head {query.head}: heads are numbered 1 to {config.heads}")
    heads = range(1, config.heads + 1) if query.head is None else range(query.head, query.head + 1)
    rows, cols = config.grid
    place = query.place or (rows // 2 + 1, cols // 2 + 1)
    check_place(place, config.grid)
    return Asked(layer, heads, place)


def patch(viewer: Viewer, shot: Shot, query: Query) -> Exhibit:
    layer, heads, (row, col) = asked(query, viewer)
    weights = patch_attention(viewer.model, viewer.inputs(shot.image[None]), layer, (row, col))
    chosen = slice(heads.start - 1, heads.stop - 1)
    maps = weights.patches[0, chosen].float().cpu().numpy()  # (heads, rows, cols)
    special = weights.special[0, chosen].float().cpu().numpy()  # (heads, special tokens)
    refuse_non_finite(maps, f"attention weights of {viewer.subject.name}")
    glance = figure.Glance(pixels=shot.pixels, place=(row - 1, col - 1), heads=heads, maps=maps, special=special.sum(1))
    below = f"layer {layer}; the patch in row {row}, column {col} of {maps.shape[1]}×{maps.shape[2]}"
    return Exhibit(
        words="patch",
        png=figure.patch(glance, heading="Where one patch looks", below=below),
        numbers={
            "picture": shot.name,
            "layer": layer,
            "patch": [row, col],
            "heads": list(heads),
            "maps": maps.tolist(),
            "special": special.tolist(),
        },
    )
