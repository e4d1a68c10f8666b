"""Options that several commands share, each written once."""

from typing import Annotated

import typer

from patchwords.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the result: no progress, no remarks.")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")]
Heads = Annotated[int | None, typer.Option(help="Attention heads, for files that do not tell them.")]
Image = Annotated[str | None, typer.Option(metavar="SIZE|HxW", help="The picture's size in pixels.")]
Offline = Annotated[bool, typer.Option("--offline", help="Use the cache alone; make no connection.")]
Mirror = Annotated[
    str,
    typer.Option(metavar="HOST=URL", help="Where to download from instead, as huggingface.co=https://hf-mirror.com."),
]


def pair(text: str | None) -> tuple[int, int] | None:
    """224 or 224x320, height first."""
    if text is None:
        return None
    height, _, width = text.partition("x")
    if not height.isdecimal() or not (width or height).isdecimal():
        raise UsageError(f"--image {text} is no size: write 224, or 224x320 with the height first")
    return int(height), int(width or height)
