"""`patchwords.load` and `save`: any known file to a model, a model to a native file."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.head import Linear
from patchwords.models.build import Model
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.ops.resampling import Convention
from patchwords.weights import card as cards
from patchwords.weights import files, hub, store
from patchwords.weights.adapt import adapt, shapes
from patchwords.weights.card import Card
from patchwords.weights.describe import Told, describe
from patchwords.weights.files import Contents, Depth
from patchwords.weights.formats import Format, recognise, unwrap
from patchwords.weights.rules import State, compare, listed, parse, take
from patchwords.weights.zoo import ZOO, Entry

logger = logging.getLogger("patchwords")


@dataclass(frozen=True)
class Checkpoint:
    """A weights file, opened: its card, its tensors in our names, its format, and what had to be assumed."""

    card: Card
    state: State
    format: str
    notes: list[str] = field(default_factory=list)


def open_checkpoint(
    path: str | Path,
    *,
    heads: int | None = None,
    image: tuple[int, int] | None = None,
    wish: tuple[int, int] | None = None,
    depth: Depth = "whole",
    fetch: Callable[[str], Path] = store.fetch,
) -> Checkpoint:
    """Any known file or folder, or a name of the zoo; `heads` and `image` are for formats that do not tell them."""
    published = None if Path(path).exists() else ZOO.get(str(path))
    path = fetch(published.name) if published else Path(path)
    contents = files.read(path, depth)
    if cards.KEY in contents.metadata:
        return _native(contents, depth)
    tensors, beside = unwrap(contents.tensors)
    format = recognise(tensors)
    with hub.understanding(path):
        told = _told(tensors, contents, format, heads, image, wish)
    state = take(format.rules(1), tensors, format.ignore)
    beside += [key for key in tensors if any(parse(name, key) is not None for name in format.ignore)]
    if beside:
        told.notes.append(f"{len(beside)} tensors are left out, they stand beside the model's own: {listed(beside)}")
    config = describe(state, format, told)
    with hub.understanding(path):
        card = _card(path, config, contents, format, published, told)
    compare(state, shapes(card.model))
    return Checkpoint(card, state, format.name, told.notes)


def load(
    path: str | Path,
    *,
    classes: int | Sequence[str] | None = None,
    image: int | tuple[int, int] | None = None,
    channels: int | None = None,
    patch: int | tuple[int, int] | None = None,
    heads: int | None = None,
    positions: Convention = "paper",
) -> Model:
    """A model with the weights of any known file, fitted to other classes, size, channels or patch where asked."""
    wish = (image, image) if isinstance(image, int) else image
    checkpoint = open_checkpoint(path, heads=heads, wish=wish)
    for note in checkpoint.notes:
        logger.warning("%s: %s", path, note)
    card, state = fit(checkpoint.card, checkpoint.state, classes, wish, channels, patch, positions)
    with torch.device("meta"):
        model = card.model.build()
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()}, assign=True)
    vars(model)["card"] = card
    return model


def card_of(model: Model) -> Card:
    """What is known of a model's weights: the card they were loaded with, or a bare one."""
    card: Card = vars(model).get("card") or Card(model=model.config)
    return replace(card, model=model.config)


def fit(
    card: Card,
    state: State,
    classes: int | Sequence[str] | None,
    image: tuple[int, int] | None,
    channels: int | None,
    patch: int | tuple[int, int] | None,
    positions: Convention,
) -> tuple[Card, State]:
    """Card and weights for other numbers; the head is kept where the classes are the same."""
    old = card.model
    names = card.classes if classes is None or isinstance(classes, int) else tuple(classes)
    count = old.classes if classes is None else classes if isinstance(classes, int) else len(names)
    changes: dict[str, object] = {
        "classes": count,
        "image": image or old.image,
        "channels": old.channels if channels is None else channels,
    }
    if patch is not None:
        changes["patch"] = (patch, patch) if isinstance(patch, int) else patch
    if count != old.classes or (card.classes and names != card.classes):
        names = names if count == len(names) else ()
        state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
        changes["head"] = Linear()
    new: Config = replace(old, **changes)  # type: ignore[arg-type]
    return cards.fitted(card, new, names), adapt(state, old, new, positions)


def save(model: Model, path: str | Path, card: Card | None = None) -> None:
    """A model as a native file; a loaded model keeps its card unless another is given."""
    card = replace(card or card_of(model), model=model.config)
    write_native(Path(path), card, dict(model.state_dict()))


def write_native(path: Path, card: Card, state: State) -> None:
    if path.suffix != ".safetensors":
        raise UsageError(f"{path.name}: a native file ends in .safetensors")
    compare(state, shapes(card.model))
    files.write(path, state, cards.write(card, state))


def _native(contents: Contents, depth: Depth) -> Checkpoint:
    card = cards.read(contents.metadata)
    layers = card.model.depth if isinstance(card.model, ViTConfig) else sum(card.model.units)
    if layers > len(contents.tensors):  # before so many are built
        raise ModelError(f"the file's card speaks of {layers} layers, the file holds {len(contents.tensors)} tensors")
    compare(contents.tensors, shapes(card.model))
    if depth == "whole":
        cards.verify(contents.metadata, contents.tensors)
    return Checkpoint(card, contents.tensors, "native")


def _told(
    tensors: State,
    contents: Contents,
    format: Format,
    heads: int | None,
    image: tuple[int, int] | None,
    wish: tuple[int, int] | None,
) -> Told:
    """What the caller says, else what the file says beside its shapes."""
    table = contents.sidecars.get("config.json", {})
    kernels = [x for key, x in tensors.items() if format.heads and parse(format.heads, key) is not None]
    carried = [kernel.shape[1] for kernel in kernels if kernel.dim() == 3]
    return Told(
        heads=heads or hub.read_heads(table) or next(iter(carried), None),
        image=image or hub.read_image(table),
        wish=wish,
    )


def _card(path: Path, config: Config, contents: Contents, format: Format, published: Entry | None, told: Told) -> Card:
    """What the file, the files beside it or the zoo say of the weights; what nobody says is assumed, and said."""
    classes: tuple[str, ...] = ()
    table = contents.sidecars.get("config.json")
    if table is not None and format.name == "huggingface":
        config = replace(config, **hub.read_model(table))
        classes = hub.read_classes(table, config.classes)
    preprocess = hub.read_preprocess(contents.sidecars, config.image) or format.preprocess
    card = Card(model=config, preprocess=preprocess or Preprocess(), source=path.name)
    if published:
        card = replace(card, preprocess=published.preprocess, source=published.address, licence=published.licence)
    elif preprocess is None:
        told.notes.append(
            "nothing says how pictures are prepared: [0, 255] to [-1, 1] is assumed (mean and deviation 0.5)"
        )
    return cards.fitted(card, config, classes)
