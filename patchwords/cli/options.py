"""Options that several commands share, each written once."""

from typing import Annotated, TypeVar

import typer

from patchwords.errors import UsageError

Number = TypeVar("Number", int, float)


def _mirror(text: str) -> str:
    """Refused before anything is begun, also where nothing turns out to be a download."""
    from patchwords.download import bases

    bases(text)
    return text


Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the result: no progress, no remarks.")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")]
Heads = Annotated[int | None, typer.Option(help="Attention heads, for files that do not tell them.")]
Image = Annotated[str | None, typer.Option(metavar="SIZE|HxW", help="The picture's size in pixels.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, mps.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the cache alone; make no connection.")]
Mirror = Annotated[
    str,
    typer.Option(
        metavar="HOST=URL",
        help="Where to download from instead, as huggingface.co=https://hf-mirror.com.",
        callback=_mirror,
    ),
]


def pair(text: str | None) -> tuple[int, int] | None:
    from patchwords.settings import size

    return None if text is None else size(text)


def numbers(option: str, text: str | None, kind: type[Number]) -> tuple[Number, ...] | None:
    """`1,5,10` as numbers."""
    if text is None:
        return None
    try:
        return tuple(kind(word) for word in text.split(","))
    except ValueError:
        example = "1,5,10" if kind is int else "0.01,0.03"
        raise UsageError(f"{option} {text!r} is no list of numbers: write them with commas, as {example}") from None
