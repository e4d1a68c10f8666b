"""The checkpoints of a run: which there are, and what `last` and `best` say.

Both are small text files: the name of a folder, and under it the SHA-256 of that folder's manifest, so that a flipped
bit cannot lead to another checkpoint.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from patchwords.training.run import manifest
from patchwords.training.run.manifest import DamagedError

LAST, BEST = "last", "best"
FORMER = "-former"  # a checkpoint whose step is being saved again, until the new one stands
NAME = re.compile(rf"step-(\d{{6,}})({FORMER})?", re.ASCII)


def name(step: int) -> str:
    return f"step-{step:06d}"


def step_of(folder: Path) -> int:
    found = NAME.fullmatch(folder.name)
    assert found, f"{folder} is no checkpoint's name"
    return int(found[1])


def listed(checkpoints: Path) -> list[Path]:
    """Those with the name of a checkpoint, whole or not, the newest first."""
    folders = [folder for folder in checkpoints.glob("step-*") if NAME.fullmatch(folder.name) and folder.is_dir()]
    return sorted(folders, key=lambda folder: (step_of(folder), not folder.name.endswith(FORMER)), reverse=True)


def in_line(checkpoints: Path, first: Path | None) -> Iterator[Path]:
    """In the order in which to try them: the first, those before it, then those after it, which it did not know of."""
    folders = listed(checkpoints)
    if first:
        yield first
        yield from (folder for folder in folders if folder != first and step_of(folder) <= step_of(first))
    yield from (folder for folder in folders if not first or step_of(folder) > step_of(first))


def text(name: str, seal: str) -> bytes:
    """What a pointer to the folder of this name says; the seal is its manifest's."""
    return f"{name}\n{seal}\n".encode()


def read(pointer: Path) -> Path | None:
    """The folder that a pointer names, or its former one if a replacement was cut short; None without such a file."""
    try:
        said = pointer.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{pointer} cannot be read ({error.strerror})") from error
    for folder in listed(pointer.parent):
        name = folder.name.removesuffix(FORMER)
        if said.startswith(f"{name}\n".encode()) and said == text(name, manifest.seal(folder)):
            return folder
    shown = said.decode("utf-8", "replace").partition("\n")[0]
    raise DamagedError(f"{pointer} names {shown!r}, and there is no such checkpoint, or not as it was then")
