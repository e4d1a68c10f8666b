"""A model to one file, which is there only once its answers are the model's."""

import logging
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from patchwords.data.sources.door import open_data, spelled
from patchwords.data.sources.source import Data
from patchwords.errors import ResourceError, UsageError
from patchwords.export.exported import Exported
from patchwords.export.libraries import require
from patchwords.export.make import MAKERS
from patchwords.export.measure import Trial, Working, trial
from patchwords.export.sizes import steps
from patchwords.export.trained import trained
from patchwords.export.wish import Wish
from patchwords.pages.wording import memory
from patchwords.weights import store
from patchwords.weights.files import writing
from patchwords.weights.subject import Subject

logger = logging.getLogger("patchwords")

FORMATS = {".onnx": "onnx", ".pt2": "pt2"}


def export(
    model: str | Path | Subject,
    out: str | Path,
    *,
    wish: Wish | None = None,
    image: int | tuple[int, int] | None = None,
    heads: int | None = None,
    data: str | Path = "",
    pictures: int | None = None,
    offline: bool = False,
    mirror: str = "",
    note: Callable[[str], None] = logger.info,
    working: Working = lambda what, done, total: None,
) -> Exported:
    """Writes an .onnx or a .pt2 whose answers were compared with the model's, and are measured on `data` if given.

    `pictures` is how many of the data are asked, at most. Without data a file in int8 is measured on a run's own.
    """
    path, wish, said = Path(out), wish or Wish(), list[str]()

    def remark(sentence: str) -> None:
        said.append(sentence)
        note(sentence)

    format = check_place(path)
    measuring = bool(data) or wish.precision == "int8"
    _check_wish(wish, format, pictures, measuring)
    place: dict[str, Any] = {"offline": offline, "mirror": mirror}
    fetch = partial(store.fetch, progress=partial(working, f"fetching {model}"), **place)
    subject = trained(model, image, heads, fetch)
    for each in subject.notes:
        remark(each)
    _check_model(subject, path, wish, format)
    tried = _trial(subject, spelled(data), pictures, remark, working, place) if measuring else None
    made = MAKERS[format](subject, wish, working)
    measured = tried.measure(subject.model, made.says, subject.card, remark, working) if tried else None
    with writing(path, len(made.data)) as aside:
        aside.write_bytes(made.data)
    return Exported(
        path=path,
        format=format,
        bytes=len(made.data),
        card=subject.card,
        wish=wish,
        parity=made.parity,
        measured=measured,
        notes=tuple(said),
    )


def check_place(path: Path) -> str:
    """The format that a name asks for, where nothing is yet."""
    if path.suffix not in FORMATS:
        endings = " or ".join(FORMATS)
        raise UsageError(f"{path.name} does not tell the format: end it in {endings}, or say --to huggingface")
    if path.exists():
        raise UsageError(f"{path} exists already: choose another name, or remove it first")
    if path.suffix == ".onnx":
        require("onnx", "onnxscript", "onnxruntime")
    return FORMATS[path.suffix]


def _check_wish(wish: Wish, format: str, pictures: int | None, measuring: bool) -> None:
    if wish.precision == "int8" and format != "onnx":
        raise UsageError("int8 is for .onnx, whose runtimes have operators for it: leave out --precision")
    if pictures is not None and not measuring:
        raise UsageError("--pictures is of --data: name a data set, or leave it out")
    if pictures is not None and pictures < 1:
        raise UsageError(f"--pictures {pictures} is below 1: choose a larger number")


def _check_model(subject: Subject, path: Path, wish: Wish, format: str) -> None:
    """Finds out before the work what cannot be: the sizes, the limit of a file, the room on the disk."""
    if wish.sizes == "any":
        steps(subject.card.model)
    weights = sum(tensor.nbytes for tensor in subject.model.state_dict().values())
    if format == "onnx":
        from patchwords.export.graph import check_bytes

        check_bytes(weights)
    folder = next(each for each in path.absolute().parents if each.exists())
    needed = weights // 4 if wish.precision == "int8" else weights
    if needed > (free := shutil.disk_usage(folder).free):
        raise ResourceError(f"{path} needs {memory(needed)}, and the disk of {folder} has {memory(free)} left")


def _trial(
    subject: Subject,
    data: str,
    pictures: int | None,
    note: Callable[[str], None],
    working: Working,
    place: dict[str, Any],
) -> Trial:
    if not data and subject.origin is None:
        raise UsageError("int8 changes the answers, and by how much is measured: name a data set with --data")
    if not subject.card.model.classes:
        raise UsageError(f"{subject.name} has no classes, so no accuracy to measure: leave out --data and --precision")

    def opening(given: str) -> Data:
        return open_data(given, split=None, progress=partial(working, f"fetching {given}"), **place)

    return trial(subject, data, pictures, opening, note)
