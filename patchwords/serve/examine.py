"""What one picture shows of a model: classes, where it looks, what each patch attends to, and how far (section 4.5)."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError
from patchwords.evaluation.answers import ask
from patchwords.inspection.distance import between, mean_distance
from patchwords.inspection.patch import check_place
from patchwords.inspection.positions import similarity
from patchwords.inspection.rollout import follow
from patchwords.layers.encoder import check_layers
from patchwords.layers.look import Gaze, Look
from patchwords.models.vit import ViT, ViTConfig
from patchwords.serve.prediction import Kind, Prediction
from patchwords.serve.predictor import Predictor

MOST_AT_ONCE = 1600  # patches whose attention to one another is told in one piece, 2.5 MB; of more, one at a time

_POSITIONS: WeakKeyDictionary[Predictor, NDArray[np.float32] | None] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True, eq=False)
class Examination:
    """What one picture shows before anybody points at a patch; None where a model has no such thing."""

    prediction: Prediction  # with pixels (what the model saw)
    grid: tuple[int, int] | None  # rows and columns of patches
    map: NDArray[np.float32] | None  # (rows, cols), rollout or evidence
    kind: Kind | None  # which of the two
    distances: NDArray[np.float32] | None  # (layers, heads), mean attention distance in pixels


def examine(predictor: Predictor, seen: Pixels, name: str) -> Examination:
    """All of it for a prepared picture (channels, height, width)."""
    shows, config = predictor.model.shows, _transformer(predictor)
    (prediction,) = predictor.answer([name], seen[None], attention=shows == "evidence", pixels=True)
    if config is None or shows != "gaze":
        map = prediction.attention
        kind: Kind | None = None if map is None else "evidence"
        return Examination(prediction=prediction, grid=_grid(predictor), map=map, kind=kind, distances=None)

    def read(images: Tensor) -> Tensor:
        gaze = predictor.model.gaze(images)
        return torch.cat([_rollout(gaze), _distances(gaze).flatten()])

    found = _ask(predictor, seen, read)
    rows, cols = config.grid
    map, distances = found[: rows * cols].reshape(rows, cols), found[rows * cols :].reshape(config.depth, -1)
    prediction = replace(prediction, attention=map)
    return Examination(prediction=prediction, grid=(rows, cols), map=map, kind="rollout", distances=distances)


def attention(
    predictor: Predictor, seen: Pixels, layer: int, head: int, patch: tuple[int, int] | None = None
) -> NDArray[np.float32]:
    """What patches attend to: (patches, patches), a row for each that looks; or (1, patches) of one row and column.

    Layers, heads, rows and columns are counted from 1, and head 0 is the mean of all. What is missing from a row's sum
    to one goes to the special tokens.
    """
    grid = _check(predictor, layer, head)
    if patch is not None:
        check_place(patch, grid)
    else:
        _check_number(grid)
    model = predictor.model
    assert isinstance(model, ViT), "what has layers and heads to choose is one"

    def read(images: Tensor) -> Tensor:
        looks = model.encoder.looks(model.embed(images))
        return _weights(next(islice(looks, layer - 1, None)), head, patch)  # later layers are never made

    return _ask(predictor, seen, read)


def attentions(predictor: Predictor, seen: Pixels, of: Literal["heads", "means"]) -> NDArray[np.float32]:
    """The same of all layers, (layers, heads, patches, patches), or with the mean of each in place of its heads."""
    grid = _check(predictor, 1, 0)
    _check_number(grid)

    def read(images: Tensor) -> Tensor:
        looks = predictor.model.gaze(images).looks
        every = (look.weights()[0, :, look.tokens.prefix :, look.tokens.prefix :] for look in looks)
        return torch.stack([heads if of == "heads" else heads.mean(0, keepdim=True) for heads in every])

    return _ask(predictor, seen, read)


def positions(predictor: Predictor) -> NDArray[np.float32] | None:
    """How alike the position embeddings of the patches are, the cosine (patches, patches); reckoned once."""
    if predictor not in _POSITIONS:
        _POSITIONS[predictor] = _similarity(predictor)
    return _POSITIONS[predictor]


def described(predictor: Predictor) -> dict[str, Any]:
    """What there is to know of a model before it sees a picture."""
    config, grid = _transformer(predictor), _grid(predictor)
    looks = config is not None and predictor.model.shows == "gaze"
    return {
        "name": predictor.subject.name,
        "classes": len(predictor.classes),
        "labels": list(predictor.classes),
        "loss": predictor.card.loss,
        "image": list(predictor.card.preprocess.size),
        "grid": list(grid) if grid else None,
        "cell": list(config.cell) if config else None,  # height and width of a patch, in pixels of the picture
        "special": list(config.special) if config else [],  # tokens before the patches
        "layers": config.depth if config and looks else 0,
        "heads": [config.heads] * config.depth if config and looks else [],
        "at_once": grid is not None and grid[0] * grid[1] <= MOST_AT_ONCE,  # all patches can be told of in one piece
        "shows": predictor.model.shows,
    }


def table(examination: Examination, top: int) -> dict[str, Any]:
    """An examination for JSON."""
    prediction, map, distances = examination.prediction, examination.map, examination.distances
    assert prediction.pixels is not None, "an examination keeps what the model saw"
    return {
        "predictions": [{"label": label, "probability": share} for label, share in prediction.top(top)],
        "picture": picture(prediction.pixels),
        "grid": list(examination.grid) if examination.grid else None,
        "map": None if map is None else _rounded(map, 7),
        "kind": examination.kind,
        "distances": None if distances is None else _rounded(distances, 3),
    }


def packed(matrix: NDArray[np.floating]) -> dict[str, Any]:
    """A matrix as bytes, each row on its own scale: value = low + byte / 255 · scale; low is 0 or what is below it."""
    low = np.minimum(matrix.min(1), 0)
    scale = matrix.max(1) - low
    shares = (matrix - low[:, None]) / np.where(scale > 0, scale, 1)[:, None]
    return {
        "rows": matrix.shape[0],
        "cols": matrix.shape[1],
        "low": _rounded(low, 7),
        "scale": _rounded(scale, 7),
        "bytes": base64.b64encode(np.rint(255 * shares).astype(np.uint8).tobytes()).decode(),
    }


def picture(pixels: Pixels) -> str:
    """Pixels (height, width, channels) as a PNG within an address; of many channels the first three, or the first."""
    shown = pixels[:, :, :3] if pixels.shape[2] >= 3 else pixels[:, :, 0]
    data = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(shown)).save(data, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"


def _ask(predictor: Predictor, seen: Pixels, read: Callable[[Tensor], Tensor]) -> NDArray[np.float32]:
    """What is read of the model, as it is written and in full precision, while it looks at one picture."""
    found = ask(read, seen[None], predictor.card.preprocess, predictor.compute)
    return np.asarray(found.cpu().numpy(), dtype=np.float32)


def _rollout(gaze: Gaze) -> Tensor:
    """How much of the output comes from each patch: (patches)."""
    return follow(gaze)[0, gaze.looks[0].tokens.prefix :]


def _distances(gaze: Gaze) -> Tensor:
    """The mean over the patches that look: (layers, heads)."""
    _, prefix, grid = gaze.looks[0].tokens
    places = between(grid, gaze.cell).to(gaze.reads.device, torch.float32)
    found = places.new_zeros(len(gaze.looks), gaze.looks[0].heads)
    for layer, look in enumerate(gaze.looks):
        for heads, rows, weights in look.pieces():
            found[layer, heads] += mean_distance(weights, prefix, places, rows).sum((0, 2))
    return found / len(places)


def _weights(look: Look, head: int, patch: tuple[int, int] | None) -> Tensor:
    """What goes from patches to patches: (patches or 1, patches)."""
    x, prefix, (_, cols) = look.tokens
    first = prefix if patch is None else prefix + (patch[0] - 1) * cols + patch[1] - 1
    rows = slice(first, x.shape[1] if patch is None else first + 1)
    heads = slice(None) if head == 0 else slice(head - 1, head)
    return look.weights(heads, rows)[0].mean(0)[:, prefix:]


def _similarity(predictor: Predictor) -> NDArray[np.float32] | None:
    try:
        places = predictor.model.positions().cpu()
    except UsageError:  # its words where nothing is added to a patch for its place
        return None
    _check_number((places.shape[0], places.shape[1]))
    return np.asarray(similarity(places).flatten(2).flatten(0, 1).numpy(), dtype=np.float32)


def _check(predictor: Predictor, layer: int, head: int) -> tuple[int, int]:
    """The grid of patches, where there is such a layer and such a head."""
    config = _transformer(predictor)
    if config is None or predictor.model.shows != "gaze":
        name = predictor.subject.name
        raise UsageError(f"{name} shows no attention between all patches: there is no layer or head to choose")
    check_layers([layer], config.depth)
    if not 0 <= head <= config.heads:
        raise UsageError(f"there is no head {head}: heads are numbered 1 to {config.heads}, and 0 is the mean of all")
    return config.grid


def _check_number(grid: tuple[int, int]) -> None:
    if grid[0] * grid[1] > MOST_AT_ONCE:
        raise UsageError(
            f"{grid[0]}x{grid[1]} patches are too many to be told of at once, which is done for up to {MOST_AT_ONCE}: "
            "ask about one patch, by its row and column, what it attends to"
        )


def _transformer(predictor: Predictor) -> ViTConfig | None:
    config = predictor.card.model
    return config if isinstance(config, ViTConfig) else None


def _grid(predictor: Predictor) -> tuple[int, int] | None:
    config = _transformer(predictor)
    return config.grid if config else None


def _rounded(values: NDArray[np.floating], digits: int) -> list[Any]:
    rounded: list[Any] = values.astype(np.float64).round(digits).tolist()
    return rounded
