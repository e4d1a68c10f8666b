"""A page of pictures that a command writes: a PNG under a name that is free."""

from pathlib import Path

from patchwords.errors import UsageError
from patchwords.weights.files import writing


def check_page(out: Path) -> None:
    """Before any work is done."""
    if out.suffix.lower() != ".png":
        raise UsageError(f"{out.name} is no name for the page, which is a PNG: choose one that ends in .png")
    if out.exists():
        raise UsageError(f"{out} exists already: choose another name with --out, or remove it first")


def write_page(out: Path, page: bytes) -> None:
    with writing(out, len(page)) as aside:
        aside.write_bytes(page)
