"""The folder that a page and its files are written to: numbered where none is named, never overwritten."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patchwords.errors import ResourceError, UsageError, refuse_below_file

ROOT = Path("runs")


@contextmanager
def fresh(path: Path | None, name: str, root: Path = ROOT) -> Iterator[Path]:
    """The given folder, which must be free or empty, or the next number; taken away again if nothing came into it."""
    made = path is None or not path.exists()
    try:
        place = numbered(root, name) if path is None else _free(path)
    except OSError as error:
        refuse_below_file(path or root)
        raise ResourceError(
            f"no folder can be made at {path or root} ({error.strerror or error}): choose another place with --out"
        ) from None
    try:
        yield place
    finally:
        if made and not any(place.iterdir()):
            place.rmdir()


def numbered(root: Path, name: str) -> Path:
    """The folder with the next number, made here: whoever makes it has it."""
    word = re.sub(r"[^\w.-]+", "-", name).strip(".-")[:60] or "run"
    root.mkdir(parents=True, exist_ok=True)
    taken = [re.fullmatch(rf"{re.escape(word)}-(\d+)", other.name, re.ASCII) for other in root.iterdir()]
    number = 1 + max((int(found[1]) for found in taken if found), default=0)
    while True:
        path = root / f"{word}-{number}"
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1


def _free(path: Path) -> Path:
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file: choose another folder with --out")
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise UsageError(f"{path} is not empty, and nothing is overwritten: choose another folder with --out")
    return path
