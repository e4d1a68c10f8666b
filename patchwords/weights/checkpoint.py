"""A weights file of any known format, opened: the format found, its tensors renamed, the model it is of described."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.models import names
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.swin import SwinConfig
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.models.vit import ViTConfig
from patchwords.settings import nearest
from patchwords.weights import card as cards
from patchwords.weights import files, hub, processor, store
from patchwords.weights.adapt import shapes
from patchwords.weights.card import Card, Loss
from patchwords.weights.describe import Told, describe
from patchwords.weights.files import Contents, Depth
from patchwords.weights.format import Format
from patchwords.weights.origin import refuse_state, refuse_without_result
from patchwords.weights.recognise import recognise, unwrap
from patchwords.weights.rules import State, compare, listed, parse, take
from patchwords.weights.zoo import ZOO, Entry

T = TypeVar("T")
UNPREPARED = "nothing says how pictures are prepared"
BESIDE = "tensors are left out, they stand beside the model's own"


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds: its card, its tensors in our names, its format, and what had to be assumed."""

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
    published = None if Path(path).exists() else _published(str(path))
    path = fetch(published.name) if published else Path(path)
    refuse_without_result(path)
    contents = files.read(path, depth)
    if cards.KEY in contents.metadata:
        try:
            return _native(contents, depth, heads, image)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from None
    refuse_state(path)
    tensors, beside = unwrap(contents.tensors)
    image = image or (names.read(published.model).image if published else None)
    with hub.understanding(path):
        format = recognise(tensors, contents.sidecars.get("config.json", {}).get("model_type", ""))
        told = _told(tensors, contents, format, heads, image, wish)
    state = take(format.rules(1), tensors, format.ignore)
    beside += [key for key in tensors if any(parse(name, key) is not None for name in format.ignore)]
    if beside:
        told.notes.append(f"{len(beside)} {BESIDE}: {listed(beside)}")
    config = describe(state, format, told)
    with hub.understanding(path):
        card = _card(path, config, contents, format, published, told)
    compare(state, shapes(card.model))
    return Checkpoint(card, state, format.name, told.notes)


def _published(name: str) -> Entry:
    """The zoo's entry of that name; what is neither file nor entry is answered with the nearest."""
    if name in ZOO:
        return ZOO[name]
    if names.fits(name):
        raise UsageError(f"{name} is the name of a model without weights: build it, or give a weights file")
    near = nearest(name, ZOO)
    raise UsageError(
        f"{name} does not exist: give a weights file, a run folder, a folder with config.json, or published weights "
        f"(`patchwords show zoo`){f'; {near}' if near.startswith('did you mean') else ''}"
    )


def _native(contents: Contents, depth: Depth, heads: int | None, image: tuple[int, int] | None) -> Checkpoint:
    card = cards.read(contents.metadata)
    layers = _layers(card.model)
    if layers > len(contents.tensors):  # before so many are built
        raise ModelError(f"the file's card speaks of {layers} layers, the file holds {len(contents.tensors)} tensors")
    compare(contents.tensors, shapes(card.model))
    if depth == "whole":
        cards.verify(contents.metadata, contents.tensors)
    _agree("heads", {"you": heads, "the file's card": getattr(card.model, "heads", heads)})
    _agree("image", {"you": image, "the file's card": card.model.image})
    return Checkpoint(card, contents.tensors, "native")


def _layers(config: Config) -> int:
    match config:
        case ViTConfig(depth=depth):
            return depth
        case TokenizerConfig(groups=groups, blocks=blocks):
            return groups * blocks
        case ResNetConfig(units=units) | SwinConfig(depths=units):
            return sum(units)


def _told(
    tensors: State,
    contents: Contents,
    format: Format,
    heads: int | None,
    image: tuple[int, int] | None,
    wish: tuple[int, int] | None,
) -> Told:
    """What the caller and the file say beside the shapes; they must not contradict each other."""
    table = contents.sidecars.get("config.json", {})
    kernels = {key: x.shape for key, x in tensors.items() if format.heads and parse(format.heads, key) is not None}
    carried = {key: shape[1] for key, shape in kernels.items() if len(shape) == 3}
    return Told(
        heads=_agree("heads", {"you": heads, "config.json": hub.read_heads(table), **carried}),
        image=_agree("image", {"you": image, "config.json": hub.read_image(table)}),
        wish=wish,
    )


def _agree(what: str, said: dict[str, T | None]) -> T | None:
    """The one value that is said, if any is; two different ones are refused with who said them."""
    values = {who: value for who, value in said.items() if value is not None}
    if len(set(values.values())) > 1:
        others = ", ".join(f"{who} say {value}" for who, value in list(values.items())[:4])
        raise ModelError(f"{what} are not clear: {others}")
    return next(iter(values.values()), None)


def _card(path: Path, config: Config, contents: Contents, format: Format, published: Entry | None, told: Told) -> Card:
    """What the file, the files beside it or the zoo say of the weights; what nobody says is assumed, and said."""
    classes: tuple[str, ...] = ()
    loss: Loss = "softmax"
    table = contents.sidecars.get("config.json")
    if table is not None and format.name == "huggingface":
        hub.compare(table, config)
        config = replace(config, **hub.read_model(table))
        if isinstance(config, SwinConfig) and (unlike := format.refuses(config)):
            raise ModelError(f"{path} is of {unlike}, which transformers computes in another way than it is done here")
        classes, loss = hub.read_classes(table, config.classes), hub.read_loss(table)
    if table is not None and format.name == "timm" and isinstance(config, ViTConfig):
        config = replace(config, pool=hub.read_pool(table, config))
    preprocess = format.preprocess
    if not isinstance(config, TokenizerConfig):  # beside FLAVA's codebook stands what its other parts see
        preprocess = processor.read(contents.sidecars, config.image) or preprocess
    card = Card(model=config, preprocess=preprocess or Preprocess(), loss=loss, source=path.name)
    if published:
        _check_published(published, config)
        card = replace(card, preprocess=published.preprocess, source=published.address, licence=published.licence)
    elif preprocess is None:
        told.notes.append(f"{UNPREPARED}: [0, 255] to [-1, 1] is assumed (mean and deviation 0.5)")
    return cards.fitted(card, config, classes)


def _check_published(entry: Entry, config: Config) -> None:
    """A mirror could serve anything: what came must have the sizes of what was published."""
    wanted = names.read(entry.model)
    sizes = ("depth", "width", "mlp", "patch", "units", "depths", "window")
    found = {size: getattr(config, size, None) for size in sizes}
    if found != {size: getattr(wanted, size, None) for size in sizes}:
        raise ModelError(f"what came for {entry.name} is not {entry.model} but {found}: delete it, name another mirror")
