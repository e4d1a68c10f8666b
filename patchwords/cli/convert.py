"""`patchwords convert IN OUT`: weights from one format to another."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from patchwords.cli.options import Heads, Image, Json, Mirror, Offline, Quiet, Set, pair
from patchwords.errors import UsageError

USUAL = {".safetensors": "native", ".npz": "official", "": "huggingface"}


def convert(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="A weights file, a Hugging Face folder, or a name of `show zoo`.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file or folder to write; an existing one is refused.")
    ],
    to: Annotated[str, typer.Option(help="native, official, big_vision, timm, huggingface or torchvision.")] = "",
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
    from patchwords.cli.output import Output, count
    from patchwords.cli.weights import opened
    from patchwords.weights.convert import convert as write
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
    checkpoint = opened(source, output, heads=heads, image=pair(image), offline=offline, mirror=mirror)
    checkpoint = replace(checkpoint, card=settings.change(checkpoint.card, changes))
    notes = [*checkpoint.notes, *write(checkpoint, target, to)]
    for note in notes:
        output.note(note)
    parameters = sum(tensor.numel() for tensor in checkpoint.state.values())
    output.json(
        {
            "in": source,
            "out": str(target),
            "from": checkpoint.format,
            "to": to,
            "tensors": len(checkpoint.state),
            "parameters": parameters,
            "notes": notes,
        }
    )
    output.text(f"{target}: {to}, from {checkpoint.format}; {count(parameters)} parameters, every one carried over")
