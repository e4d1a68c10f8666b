"""From one format to another: `patchwords convert`. What the other cannot say is refused, never dropped."""

from dataclasses import replace
from pathlib import Path

from patchwords import settings
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.position import Fixed1D, Learned1D, rows_before_patches
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.weights import biases, files, hub, processor
from patchwords.weights.adapt import shapes
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint
from patchwords.weights.describe import HEADS, Told, describe
from patchwords.weights.format import Format
from patchwords.weights.load import write_native
from patchwords.weights.recognise import choose
from patchwords.weights.rules import State, compare, give, take

TRAINING_ONLY = ("dropout", "weight_dropout", "stochastic_depth")  # no weights file but the native one speaks of these


def convert(checkpoint: Checkpoint, path: Path, to: str) -> list[str]:
    """Writes a checkpoint in another format; the answer is what the reader of that file should know."""
    card = checkpoint.card
    if to == "native":
        write_native(path, card, checkpoint.state)
        return []
    format = choose(to, card.model)
    if path.suffix not in format.suffixes:
        endings = ", ".join(suffix or "no ending (a folder)" for suffix in format.suffixes)
        raise UsageError(f"{path.name}: a {to} checkpoint ends in {endings}")
    theirs = give(format.rules(_heads(card.model)), checkpoint.state, to)
    notes = [*_losses(card.model, theirs, format, path), *_unsaid(card, theirs, format, path)]
    if path.suffix:
        files.write(path, {format.prefix + name: tensor for name, tensor in theirs.items()})
    else:
        tables = {
            "config.json": hub.write_model(card),
            "preprocessor_config.json": processor.write(card.preprocess),
        }
        files.write_folder(path, tables, theirs)
    return notes


def kept(path: Path) -> tuple[str, ...]:
    """The fields of a card that a foreign checkpoint carries: a folder some, a file none."""
    return () if path.suffix else ("classes", "preprocess", "loss")


def _unsaid(card: Card, theirs: State, format: Format, path: Path) -> list[str]:
    """What has no place in the file, and so must be told to whoever reads it."""
    carried = kept(path)
    assumed = replace(format.preprocess or Preprocess(), size=card.preprocess.size)
    lost = {
        "class names": card.classes and "classes" not in carried,
        "how pictures are prepared": card.preprocess != assumed and "preprocess" not in carried,
        "the licence": card.licence,
    }
    what = ", ".join(name for name, is_lost in lost.items() if is_lost)
    asked = path.suffix and isinstance(card.model, ViTConfig | SwinConfig)
    needed = _needed(card.model, theirs, format) if asked else ""
    notes = {f"the {format.name} format has no place for {what}": what, f"it must be read with {needed}": needed}
    return [note for note, applies in notes.items() if applies]


def _needed(config: Config, theirs: State, format: Format) -> str:
    """The options of `load` without which the file would not, or wrongly, be understood."""
    read = take(format.rules(1), theirs)
    known = biases.heads(read) or (HEADS.get(config.width) if isinstance(config, ViTConfig) else 1)
    heads = "" if format.heads or known == _heads(config) else f"heads={_heads(config)}"
    try:
        image = describe(read, format, Told(heads=_told(config))).image
    except ModelError:
        image = None
    return ", ".join(filter(None, [heads, "" if image == config.image else f"trained_at={config.image}"]))


def _heads(config: Config) -> int:
    return _told(config) or 1


def _told(config: Config) -> int | None:
    """The heads that a ViT's reader may have to be told; the others have none, or tables that tell them."""
    return config.heads if isinstance(config, ViTConfig) else None


def _losses(config: Config, theirs: State, format: Format, path: Path) -> list[str]:
    """Reads the tensors back as a stranger would: what is lost is refused; what the other library decides is said."""
    if unsayable := format.refuses(config):
        raise ModelError(f"the {format.name} format cannot hold {unsayable}: native holds everything")
    told = Told(heads=_told(config), image=config.image)
    try:
        read = take(format.rules(1), theirs)
        there = describe(read, format, told)
        compare(read, shapes(there))
    except ModelError as error:
        sentence = f"the {format.name} format cannot hold this model ({error}): native holds everything"
        raise ModelError(sentence) from error
    ours, back = structure(config), structure(there)
    changed = [key for key in ours if ours[key] != back.get(key)]
    written = () if path.suffix else tuple(format.computes)  # config.json says these
    decided = [key for key in changed if key in format.computes or key.startswith(("form.epsilon", "form.standardise"))]
    if lost := [f"{key} = {ours[key]}" for key in changed if key not in decided]:
        raise ModelError(f"the {format.name} format cannot say {', '.join(lost)}: native holds everything")
    return [
        f"{format.name} computes with {key} = {back[key]}, this model with {ours[key]}: outputs differ a little"
        for key in decided
        if key not in written
    ]


def structure(config: Config) -> dict[str, object]:
    """What a configuration says of a trained model, without what only training or the first values need."""
    table = settings.write(config)
    for key in TRAINING_ONLY:
        table.pop(key, None)
    table["head"].pop("bias", None)
    if isinstance(config, ViTConfig):
        table["layer_scale"] = config.layer_scale is not None
        table["form"] = table["stem"].pop("form") if config.stem else {}
        table["position"].pop("std", None)
        match config.position:
            case Learned1D(over=over):
                table["position"]["over"] = rows_before_patches(over, config.special)
            case Fixed1D():  # a trained model's table is a table, whether or not it was learned
                table["position"] = {"kind": Learned1D.kind, "at": "stem", "over": len(config.special)}
    if isinstance(config, SwinConfig):
        table |= {"window": config.windows}  # of each stage
    return _dotted(table)


def _dotted(table: settings.Table) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        inner = _dotted(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{key}.{leaf}".rstrip("."): leaf_value for leaf, leaf_value in inner.items()}
    return flat
