"""Checkpoints: folders step-NNNNNN of safetensors and JSON, written aside and renamed, so that one always stands."""

import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor

from patchwords.errors import ModelError, ResourceError
from patchwords.training.run import contents, durable, manifest, pointers
from patchwords.training.run.contents import SUFFIX
from patchwords.training.run.manifest import DamagedError
from patchwords.training.run.pointers import BEST, FORMER, LAST, name

logger = logging.getLogger("patchwords")

STATE = "state.json"
LEFTOVERS = ".step-*"  # every name that is used aside
STANDING = "The checkpoints before it stand, and --resume goes on from there"

Tensors = Mapping[str, Tensor]
Writer = Callable[[Path], None]


@dataclass(frozen=True)
class Found:
    """The checkpoint to go on from, and what was wrong with those before it in line."""

    path: Path
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Loaded:
    """A checkpoint, verified: the tensors of each safetensors file by its stem, and the state."""

    path: Path
    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def save(
    checkpoints: Path,
    step: int,
    tensors: Mapping[str, Tensors],
    *,
    state: Mapping[str, Any],
    write: Mapping[str, Writer] = MappingProxyType({}),
    keep: int,
    best: str | None,
    needed: int = 0,
) -> Path:
    """Writes a checkpoint, verifies it, names it `last`, and only then removes those that are not kept.

    `tensors` go to safetensors files by stem; `write` holds files that write themselves, by name. `best` is the name of
    the best checkpoint so far, this or an older one, which stays beside the newest `keep`, and those are at least two.
    `needed` is what it all takes, for the sentence that says that the disk is full.
    """
    folder = checkpoints / name(step)
    text = contents.write_state(state)
    for stem, held in tensors.items():
        contents.refuse_poison(f"{folder.name}/{stem}{SUFFIX}", held.items())
    new = _aside(checkpoints, folder.name)
    try:
        _begin(checkpoints)
        _fill(new, step, tensors, text, write)
        _publish(new, folder, best)
    except DamagedError as error:
        raise ResourceError(f"{folder}: the disk does not give back what was written ({error}); {STANDING}") from error
    except (OSError, ResourceError) as error:
        least = size(tensors) + len(text) + sum(_size(new / file) for file in write)
        cause = error.__cause__ or error  # the disk's own word, not that of the part that wrote to it
        reason = getattr(cause, "strerror", None) or cause
        raise ResourceError(
            f"{folder} could not be written ({reason}); {max(needed, least):,} bytes are needed there: make room. "
            f"{STANDING}"
        ) from error
    finally:
        with durable.refusals(checkpoints):
            durable.clean(checkpoints, LEFTOVERS)
    _prune(checkpoints, step, max(keep, 2), best)
    return folder


def room(checkpoints: Path, needed: int) -> None:
    """Refuses to begin where this many bytes do not fit: the free space is asked, then taken for a moment."""
    with durable.refusals(checkpoints, needed):
        _begin(checkpoints)
        durable.occupy(_aside(checkpoints, "step-room"), needed)


def size(tensors: Mapping[str, Tensors]) -> int:
    """The bytes that these take in a checkpoint, headers aside."""
    return sum(tensor.nbytes for held in tensors.values() for tensor in held.values())


def find(checkpoints: Path) -> Found | None:
    """The one that `last` names, or with notes the newest other that is whole; None where none was ever written."""
    notes: list[str] = []
    first = None
    try:
        first = pointers.read(checkpoints / LAST)
    except DamagedError as error:
        notes.append(str(error))
    for folder in pointers.in_line(checkpoints, first):
        if not first and not notes:
            notes.append(f"{checkpoints / LAST} is missing")
        try:
            manifest.verify(folder)
        except DamagedError as error:
            notes.append(str(error))
        else:
            return Found(folder, (*notes, f"going on from {folder.name}") if notes else ())
    if notes:
        raise ModelError(
            f"no checkpoint in {checkpoints} can be used: {'; '.join(notes)}. Restore one from a copy, or start anew"
        )
    return None


def best(checkpoints: Path) -> Path | None:
    """The folder that `best` names; None where there is none yet."""
    return pointers.read(checkpoints / BEST)


def load(folder: Path) -> Loaded:
    """A checkpoint, all of it hashed before anything in it is used; files that it does not list are not read."""
    known = manifest.verify(folder)
    if STATE not in known.files:
        raise DamagedError(f"{folder.name} is damaged: its manifest does not list {STATE}")
    stems = [file.removesuffix(SUFFIX) for file in known.files if file.endswith(SUFFIX)]
    tensors = {stem: dict(contents.read_tensors(folder / f"{stem}{SUFFIX}")) for stem in stems}
    return Loaded(folder, known.step, tensors, contents.read_state(folder / STATE))


def _begin(checkpoints: Path) -> None:
    """The folder, without what a killed save left in it: whoever saves holds the run's lock."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    durable.sync(checkpoints.parent)
    durable.clean(checkpoints, LEFTOVERS)


def _aside(checkpoints: Path, name: str) -> Path:
    return checkpoints / f".{name}-{secrets.token_hex(4)}"


def _fill(new: Path, step: int, tensors: Mapping[str, Tensors], text: bytes, write: Mapping[str, Writer]) -> None:
    """All files, their manifest last; then read again from the disk, so that only a whole one gets a name."""
    new.mkdir()
    for file, writer in write.items():
        writer(new / file)
        if file.endswith(SUFFIX):
            contents.refuse_poison(f"{name(step)}/{file}", contents.read_tensors(new / file))
    for stem, held in tensors.items():
        contents.write_tensors(new / f"{stem}{SUFFIX}", held)
    durable.create(new / STATE, text)
    names = [*write, *(f"{stem}{SUFFIX}" for stem in tensors), STATE]
    manifest.write(new, step, names)
    for file in names:
        durable.forget(new / file)
    manifest.verify(new)


def _publish(new: Path, folder: Path, best: str | None) -> None:
    """Gives a finished checkpoint its name, then points `last` and `best` to it; nothing is left to write by then."""
    checkpoints, pending = folder.parent, {}
    for pointer, target in ((LAST, folder.name), (BEST, best)):
        place = new if target == folder.name else checkpoints / (target or "")
        if target and (place / manifest.NAME).is_file():
            pending[pointer] = _aside(checkpoints, f"step-{pointer}")
            durable.create(pending[pointer], pointers.text(target, manifest.seal(place)))
        elif target:
            logger.warning("%s is gone from %s, so there is no best checkpoint now", target, checkpoints)
    _rename(new, folder)
    for pointer, written in pending.items():
        os.replace(written, checkpoints / pointer)
    if BEST not in pending:
        (checkpoints / BEST).unlink(missing_ok=True)
    durable.sync(checkpoints)


def _rename(new: Path, folder: Path) -> None:
    """A checkpoint of the same step, from before a resume, steps back first and stays until the new one stands."""
    former = folder.with_name(folder.name + FORMER)
    if folder.exists() and former.exists():  # a power cut came between the two
        _discard([former if _is_whole(folder) else folder])
    if folder.exists():
        os.rename(folder, former)
    os.rename(new, folder)
    durable.sync(folder.parent)


def _is_whole(folder: Path) -> bool:
    try:
        manifest.verify(folder)
    except DamagedError:
        return False
    return True


def _prune(checkpoints: Path, step: int, keep: int, best: str | None) -> None:
    """Keeps the newest, counted back from this step: later ones are of a future that was given up by a resume."""
    line = list(pointers.in_line(checkpoints, checkpoints / name(step)))
    kept = [folder for folder in line if not folder.name.endswith(FORMER)][:keep]
    with durable.refusals(checkpoints):
        _discard([folder for folder in line if folder not in kept and folder.name != best])


def _discard(folders: list[Path]) -> None:
    """Hidden before they are emptied, so that no half-emptied one is ever taken for a checkpoint."""
    if not folders:
        return
    hidden = [folder.rename(_aside(folder.parent, folder.name)) for folder in folders]
    durable.sync(folders[0].parent)
    for folder in hidden:
        durable.remove(folder)


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0
