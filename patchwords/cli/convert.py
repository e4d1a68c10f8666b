"""`patchwords convert IN OUT`: weights from one format to another."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from patchwords.cli.options import Heads, Image, Json, Mirror, Offline, Quiet, Set, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.weights.checkpoint import Checkpoint

Table = dict[str, Any]
USUAL = {".safetensors": "native", ".npz": "official", "": "huggingface"}


class Carried(NamedTuple):
    """The format that it was, how many parameters each tensor has, and what to know."""

    format: str
    sizes: list[int]
    notes: list[str]


def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A weights file, a Hugging Face folder, or a name of `show zoo`.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file or folder to write; an existing one is refused.")
    ],
    to: Annotated[
        str, typer.Option(help="native, official, big_vision, timm, huggingface, torchvision, microsoft or dalle.")
    ] = "",
    heads: Heads = None,
    image: Image = None,
    setting: Set = [],  # noqa: B006
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Convert weights between formats, strictly.

    Every tensor is carried over; whatever the other format cannot say is refused.
    --set changes the card of a native file, for example preprocess.mean=[0.485,0.456,0.406] or licence=Apache-2.0.
    """
    from patchwords import settings
    from patchwords.cli.output import Output
    from patchwords.cli.weights import opened
    from patchwords.weights.autoencoder import holds_decoder
    from patchwords.weights.convert import kept

    if target.exists():
        raise UsageError(f"{target} exists already: choose another name, or remove it first")
    to = to or USUAL.get(target.suffix, "")
    if not to:
        raise UsageError(f"{target.name} does not tell the format: say it with --to")
    changes = settings.assignments(setting)
    if to != "native" and (lost := [key for key in changes if key.partition(".")[0] not in kept(target)]):
        raise UsageError(f"--set {lost[0]}: a {to} checkpoint has no place for it; a native file has")
    output = Output(as_json, quiet)
    if not target.suffix and holds_decoder(Path(source)):
        carried = _autoencoder(source, target, to, changes, heads=heads, image=pair(image))
    else:
        checkpoint = opened(source, output, heads=heads, image=pair(image), offline=offline, mirror=mirror)
        carried = _model(checkpoint, target, to, changes)
    _say(output, source, target, to, carried)


def _autoencoder(
    source: str, target: Path, to: str, changes: Table, *, heads: int | None, image: tuple[int, int] | None
) -> Carried:
    """An encoder and its decoder, which only a folder holds."""
    from patchwords.weights.autoencoder import open_autoencoder, write

    whole = open_autoencoder(source, heads=heads, image=image)
    checkpoint = _changed(whole.checkpoint, changes)
    notes = [*checkpoint.notes, *write(replace(whole, checkpoint=checkpoint), target, to)]
    tensors = [*checkpoint.state.values(), *whole.decoder.values()]
    return Carried(checkpoint.format, [tensor.numel() for tensor in tensors], notes)


def _model(checkpoint: "Checkpoint", target: Path, to: str, changes: Table) -> Carried:
    from patchwords.weights.convert import convert as write

    checkpoint = _changed(checkpoint, changes)
    notes = [*checkpoint.notes, *write(checkpoint, target, to)]
    return Carried(checkpoint.format, [tensor.numel() for tensor in checkpoint.state.values()], notes)


def _changed(checkpoint: "Checkpoint", changes: Table) -> "Checkpoint":
    from patchwords import settings

    return replace(checkpoint, card=settings.change(checkpoint.card, changes))


def _say(output: "Output", source: str, target: Path, to: str, carried: Carried) -> None:
    from patchwords.cli.output import count

    for note in carried.notes:
        output.note(note)
    parameters = sum(carried.sizes)
    output.json(
        {
            "in": source,
            "out": str(target),
            "from": carried.format,
            "to": to,
            "tensors": len(carried.sizes),
            "parameters": parameters,
            "notes": carried.notes,
        }
    )
    output.text(f"{target}: {to}, from {carried.format}; {count(parameters)} parameters, every one carried over")
