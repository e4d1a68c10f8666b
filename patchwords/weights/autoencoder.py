"""A masked autoencoder with its decoder: a run's folder, or transformers' and the original files, and back."""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from patchwords import settings
from patchwords.data.preprocess import IMAGENET
from patchwords.errors import ModelError, UsageError
from patchwords.layers.position import Fixed1D, Learned1D
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.objectives.mae import MAE, MaskedAutoencoder
from patchwords.weights import files, hub, processor
from patchwords.weights.checkpoint import BESIDE, UNPREPARED, Checkpoint, open_checkpoint
from patchwords.weights.limits import beyond_class_token
from patchwords.weights.load import made, write_native
from patchwords.weights.maps import decoder as maps
from patchwords.weights.maps import huggingface
from patchwords.weights.origin import RECIPE, RESULT, origin_of
from patchwords.weights.rules import Rule, State, compare, give, parse, take

OWNED = "objective.safetensors"  # what the objective has beside the model, in a run's folder and in ours
SETTINGS = "objective.json"  # in a folder that no run has written
SIGNS: dict[str, Callable[[], list[Rule]]] = {  # a mask token alone is no sign: BEiT has one too
    "decoder.decoder_embed.weight": maps.transformers,
    "decoder_embed.weight": maps.original,
}
HEADS = {512: 16}  # of the published decoders, whose original files do not tell
SAID = ("decoder_hidden_size", "decoder_num_hidden_layers", "decoder_intermediate_size")  # and told by shapes
WISHES = ("ratio", "normalise", "heads")  # that may be set when an autoencoder is opened


@dataclass(frozen=True)
class Autoencoder:
    """An opened encoder, the settings of its objective, and the decoder's tensors in our names."""

    checkpoint: Checkpoint
    settings: MAE
    decoder: State

    def build(self) -> MaskedAutoencoder:
        """The objective with its weights, ready to reconstruct."""
        self._check()
        objective = self.settings.build(made(self.checkpoint))
        theirs = {f"model.{name}": tensor for name, tensor in objective.model.state_dict().items()} | self.decoder
        objective.load_state_dict(theirs)
        return objective.eval()

    def _check(self) -> None:
        """Refuses weights of another decoder than the settings speak of, before there is memory for that one."""
        if (depth := self.settings.decoder.depth) > len(self.decoder):
            raise ModelError(f"the settings speak of {depth} layers, the decoder holds {len(self.decoder)} tensors")
        try:
            with torch.device("meta"):
                wanted = self.settings.build(self.checkpoint.card.model.build()).state_dict()
        except (RuntimeError, TypeError, OverflowError) as error:  # numbers beyond what a tensor can have
            raise ModelError(f"such a decoder cannot be built: {str(error).partition(chr(10))[0]}") from error
        compare(self.decoder, {name: tensor for name, tensor in wanted.items() if not name.startswith("model.")})


def holds_decoder(path: Path) -> bool:
    """Whether this is a masked autoencoder, and not an encoder alone or another model."""
    if path.is_dir() and (path / OWNED).is_file():
        return _table(path).get("kind") == MAE.kind
    return path.exists() and any(sign in files.read(path, "shapes").tensors for sign in SIGNS)


def open_autoencoder(
    path: str | Path,
    *,
    heads: int | None = None,
    image: tuple[int, int] | None = None,
    change: Mapping[str, Any] | None = None,
) -> Autoencoder:
    """A run of the objective mae, or a file or folder with a decoder; `change` sets what a file does not tell."""
    path, change = Path(path), dict(change or {})
    if wrong := [key for key in change if key not in WISHES]:
        raise UsageError(f"{wrong[0]} cannot be set: the weights of an autoencoder decide all but {', '.join(WISHES)}")
    if not path.exists():
        raise UsageError(f"{path} does not exist: give the folder of a run, or a weights file or folder")
    if not holds_decoder(path):
        raise ModelError(
            f"{path} holds no decoder: give the folder of a run with objective mae, or a ViTMAEForPreTraining"
        )
    checkpoint = open_checkpoint(path, heads=heads, image=image)
    if (path / OWNED).is_file():
        stored = settings.read(_table(path), MAE)
        return Autoencoder(checkpoint, settings.change(stored, change), files.read(path / OWNED).tensors)
    return _foreign(path, _fixed(checkpoint), change)


def _foreign(path: Path, checkpoint: Checkpoint, change: dict[str, Any]) -> Autoencoder:
    contents = files.read(path)
    (rules,) = (rules() for sign, rules in SIGNS.items() if sign in contents.tensors)
    named = [name for rule in rules for name in rule.names]
    decoder = take(
        rules, {key: x for key, x in contents.tensors.items() if any(parse(name, key) is not None for name in named)}
    )
    checkpoint = _prepared(checkpoint)
    notes = [note for note in checkpoint.notes if BESIDE not in note]  # here nothing is left out
    with hub.understanding(path):
        found = _described(decoder, contents.sidecars.get("config.json", {}), change, notes)
    return Autoencoder(replace(checkpoint, notes=notes), found, decoder)


def _prepared(checkpoint: Checkpoint) -> Checkpoint:
    """Where nothing says how pictures are prepared, as all published autoencoders had them, and that is said."""
    card, notes = checkpoint.card, [note for note in checkpoint.notes if not note.startswith(UNPREPARED)]
    if notes == checkpoint.notes or card.model.channels != len(IMAGENET.mean):
        return checkpoint
    card = replace(card, preprocess=replace(IMAGENET, size=card.model.image))
    return replace(checkpoint, card=card, notes=[*notes, f"{UNPREPARED}: ImageNet's mean and deviation are assumed"])


def _described(decoder: State, table: Mapping[str, Any], change: dict[str, Any], notes: list[str]) -> MAE:
    """The settings by the shapes, by config.json, and where neither tells by what was published, which is said."""
    try:
        width, (mlp, _) = decoder["decoder.embed.bias"].shape[0], decoder["decoder.blocks.0.mlp.fc1.weight"].shape
    except (KeyError, ValueError, IndexError) as error:
        raise ModelError(f"the decoder is not whole: {error}") from error
    heads = change.get("heads") or table.get("decoder_num_attention_heads") or HEADS.get(width)
    if heads is None:
        raise ModelError(f"nothing says how many heads the decoder's width of {width} is cut into: --set heads=…")
    if not table:
        notes.append(f"nothing says how the decoder computes: {heads} heads and pixels as they are is assumed")
    places = (parse("decoder.blocks.{i}.norm1.weight", name) for name in decoder)
    found = MAE(
        width=width,
        depth=1 + max((place["i"] for place in places if place), default=-1),
        heads=heads,
        mlp=None if mlp == 4 * width else mlp,
        ratio=table.get("mask_ratio", MAE().ratio),
        normalise="patch" if table.get("norm_pix_loss") else "none",
    )
    for key, value in _config(found).items():
        if key in SAID and table.get(key, value) != value:
            raise ModelError(f"config.json says {key} = {table[key]!r}, the weights are of {value!r}")
    return settings.change(found, change)


def _fixed(checkpoint: Checkpoint) -> Checkpoint:
    """The encoder's table is never trained, which the original files do not say."""
    card = checkpoint.card
    if not isinstance(card.model, ViTConfig) or not isinstance(card.model.position, Learned1D):
        return checkpoint
    return replace(checkpoint, card=replace(card, model=replace(card.model, position=Fixed1D())))


def _table(folder: Path) -> dict[str, Any]:
    """The settings of the objective that a folder is of: its own, or those of the recipe of its run."""
    own, origin = folder / SETTINGS, origin_of(folder)
    try:
        if own.is_file():
            table = json.loads(own.read_text("utf-8"))
        else:
            table = tomllib.loads(((origin.folder if origin else folder) / RECIPE).read_text("utf-8"))["objective"]
        return dict(table)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"the settings of the objective in {folder} cannot be read: {error}") from error


def write(autoencoder: Autoencoder, path: Path, to: str) -> list[str]:
    """A folder that `open_autoencoder` reads, or transformers' ViTMAEForPreTraining; the answer is what to know."""
    if path.suffix or to not in ("native", "huggingface"):
        raise UsageError(f"{path.name}: an autoencoder with its decoder is a native or huggingface folder, no ending")
    autoencoder.build()  # which checks that its parts fit
    return _write_native(autoencoder, path) if to == "native" else _write_transformers(autoencoder, path)


def _write_native(autoencoder: Autoencoder, path: Path) -> list[str]:
    card, state = autoencoder.checkpoint.card, autoencoder.checkpoint.state
    needed = sum(tensor.nbytes for tensor in [*state.values(), *autoencoder.decoder.values()])
    with files.writing(path, needed) as aside:
        aside.mkdir()
        write_native(aside / RESULT, card, state)
        files.write(aside / OWNED, autoencoder.decoder)
        (aside / SETTINGS).write_text(json.dumps(settings.write(autoencoder.settings), indent=2) + "\n", "utf-8")
    return []


def _write_transformers(autoencoder: Autoencoder, path: Path) -> list[str]:
    card, state = autoencoder.checkpoint.card, autoencoder.checkpoint.state
    notes = _losses(card.model)
    rules = [*huggingface.mae_encoder(), *maps.transformers()]
    theirs = give(rules, state | autoencoder.decoder, "huggingface")
    tables = {
        "config.json": hub.write_model(card) | _config(autoencoder.settings),
        "preprocessor_config.json": processor.write(card.preprocess),
    }
    files.write_folder(path, tables, theirs)
    return notes


def _losses(config: Config) -> list[str]:
    """What transformers would compute otherwise is refused; what it would not train is said."""
    assert isinstance(config, ViTConfig), "the objective has no other"
    square = len(set(config.image)) == len(set(config.patch)) == 1
    plain = config.block == "pre-norm" and config.layer_scale is None and config.stem is None
    unsayable = "" if square else "pictures or patches that are not square"
    unsayable = unsayable or ("" if plain else "other blocks than a ViT's") or beyond_class_token(config)
    if unsayable:
        raise ModelError(f"ViTMAEForPreTraining cannot hold {unsayable}: native holds everything")
    learned = isinstance(config.position, Learned1D)
    return ["ViTMAEForPreTraining does not train its positions, and these were learned"] if learned else []


def _config(mae: MAE) -> dict[str, Any]:
    return {
        "architectures": ["ViTMAEForPreTraining"],
        "model_type": "vit_mae",
        "decoder_hidden_size": mae.decoder.width,
        "decoder_num_hidden_layers": mae.decoder.depth,
        "decoder_num_attention_heads": mae.decoder.heads,
        "decoder_intermediate_size": mae.decoder.mlp,
        "mask_ratio": mae.ratio,
        "norm_pix_loss": mae.normalise == "patch",
    }
