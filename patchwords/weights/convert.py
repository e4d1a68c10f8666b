"""From one format to another: `patchwords convert`. What the other cannot say is refused, never dropped."""

import json
from pathlib import Path

from patchwords import settings
from patchwords.errors import ModelError, UsageError
from patchwords.layers.position import Learned1D, rows_before_patches
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.weights import files, hub
from patchwords.weights.adapt import shapes
from patchwords.weights.card import Card
from patchwords.weights.describe import Told, describe
from patchwords.weights.formats import Format, choose
from patchwords.weights.load import Checkpoint, write_native
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
    notes = _losses(card.model, theirs, format, path)
    if path.suffix:
        files.write(path, {format.prefix + name: tensor for name, tensor in theirs.items()})
    else:
        _write_folder(path, card, theirs)
    return notes


def _heads(config: Config) -> int:
    return getattr(config, "heads", 1)


def _losses(config: Config, theirs: State, format: Format, path: Path) -> list[str]:
    """Reads the tensors back as a stranger would: what is lost is refused; what the other library decides is said."""
    if unsayable := format.refuses(config):
        raise ModelError(f"a {format.name} checkpoint cannot hold {unsayable}: native holds everything")
    told = Told(heads=_heads(config), image=config.image)
    try:
        read = take(format.rules(1), theirs)
        there = describe(read, format, told)
        compare(read, shapes(there))
    except ModelError as error:
        sentence = f"a {format.name} checkpoint cannot hold this model ({error}): native holds everything"
        raise ModelError(sentence) from error
    ours, back = structure(config), structure(there)
    changed = [key for key in ours if ours[key] != back.get(key)]
    written = () if path.suffix else tuple(format.computes)  # config.json says these
    decided = [key for key in changed if key in format.computes or key.startswith(("form.epsilon", "form.standardise"))]
    if lost := [f"{key} = {ours[key]}" for key in changed if key not in decided]:
        raise ModelError(f"a {format.name} checkpoint cannot say {', '.join(lost)}: native holds everything")
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
        if isinstance(config.position, Learned1D):
            table["position"]["over"] = rows_before_patches(config.position.over, config.special)
    return _dotted(table)


def _dotted(table: settings.Table) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        inner = _dotted(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{key}.{leaf}".rstrip("."): leaf_value for leaf, leaf_value in inner.items()}
    return flat


def _write_folder(path: Path, card: Card, theirs: State) -> None:
    """A Hugging Face folder, the weights last."""
    path.mkdir(parents=True, exist_ok=True)
    tables = {"config.json": hub.write_model(card), "preprocessor_config.json": hub.write_preprocess(card.preprocess)}
    for name, table in tables.items():
        text = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
        files.replace(path / name, lambda aside, text=text: aside.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    files.write(path / "model.safetensors", theirs)
