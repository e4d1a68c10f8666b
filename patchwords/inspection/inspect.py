"""All figures of one model, into one folder: PNG and JSON for each, and a page that shows and explains them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from patchwords.data.sources.names import listed
from patchwords.errors import ResourceError
from patchwords.inspection.exhibits.exhibit import Exhibit
from patchwords.inspection.page import page
from patchwords.inspection.pictures import Stock
from patchwords.inspection.studio import NAMES, Studio, Watcher, Wish
from patchwords.pages.wording import plural
from patchwords.weights.files import writing
from patchwords.weights.subject import Subject

PAGE, SUMMARY = "index.html", "inspection.json"
CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What was written: the page, PNG and JSON of each figure, and why others are missing."""

    page: Path
    figures: dict[str, tuple[Path, Path]]
    missing: dict[str, str]


def inspect(
    subject: Subject,
    stock: Stock,
    folder: Path,
    watcher: Watcher,
    *,
    wish: Wish | None = None,
    against: Subject | None = None,
    device: torch.device = CPU,
) -> Inspected:
    """Draws what is wished for, then writes it all; what a model has not is a sentence instead."""
    studio = Studio(subject, stock, wish or Wish(), device, watcher)
    try:
        studio.check()
        wanted = [name for name in NAMES if name in studio.wish.only]
        missing = {name: words for name in wanted if (words := studio.lack(name))}
        exhibits = {name: studio.draw(name, against) for name in wanted if name not in missing}
    except torch.OutOfMemoryError as error:
        raise ResourceError(
            f"{device} has too little memory for this: choose --device cpu or a smaller --image"
        ) from error
    others = against.notes if against else ()
    notes = [*subject.notes, *others, *stock.notes, *_broken(studio.broken.found)]
    written = {name: _write(folder, name, subject, each) for name, each in exhibits.items()}
    table = {name: {"png": png.name, "json": numbers.name} for name, (png, numbers) in written.items()}
    summary = {
        "model": subject.name,
        "source": subject.card.source,
        "notes": notes,
        "figures": table,
        "missing": missing,
    }
    _put(folder / SUMMARY, _json(summary))
    _put(folder / PAGE, page(subject, notes, exhibits, missing).encode())
    return Inspected(page=folder / PAGE, figures=written, missing=missing)


def _broken(found: Mapping[str, str]) -> list[str]:
    return [f"{plural(len(found), 'picture')} left out, since unreadable: {listed(found)}"] if found else []


def _write(folder: Path, name: str, subject: Subject, exhibit: Exhibit) -> tuple[Path, Path]:
    paths = folder / f"{name}.png", folder / f"{name}.json"
    _put(paths[0], exhibit.png)
    _put(paths[1], _json({"figure": name, "model": subject.name, **exhibit.numbers}))
    return paths


def _json(value: Mapping[str, Any]) -> bytes:
    """Strict, and a name that is no text keeps its bytes as an escape."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace") + b"\n"


def _put(path: Path, data: bytes) -> None:
    with writing(path, len(data)) as aside:
        aside.write_bytes(data)
