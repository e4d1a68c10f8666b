"""A list of pictures, CSV (or TSV) with a header or JSON Lines: path, label and, where there is one, split."""

import csv
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names, printable
from patchwords.data.sources.parts import WORDS, Part, assemble, part_of
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data, Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".jsonl", ".ndjson")


class Row(NamedTuple):
    """A picture of the list; the path is relative to the list's folder, or absolute."""

    path: str
    label: str
    part: Part | None


def read(path: Path, settings: Split | None) -> Data:
    """The data set that a list names."""
    with reading(path):
        rows = [_row(path, line, table) for line, table in _tables(path)]
    if not rows:
        raise DataError(f"{path} lists no pictures: write a line with path and label for each")
    classes = sorted({row.label for row in rows})
    numbers = {name: number for number, name in enumerate(classes)}
    parts: dict[Part, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.part or "train", []).append(row)
    sources: dict[Part, Source] = {part: _source(path.parent, parts[part], numbers) for part in sorted(parts)}
    return assemble(path.stem, classes, sources, settings)


def _source(folder: Path, rows: list[Row], numbers: Mapping[str, int]) -> Files:
    labels = np.array([numbers[row.label] for row in rows], dtype=np.int64)
    return Files(folder, Names(row.path for row in rows), labels)


def _tables(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The lines of the list with their numbers, as tables."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        if separator := SEPARATORS.get(path.suffix.lower()):
            rows = csv.DictReader(file, delimiter=separator, strict=True)
            _check_columns(path, [*(rows.fieldnames or ())])
            for table in rows:
                yield rows.line_num, table
        else:
            for line, text in enumerate(file, 1):
                if text.strip():
                    yield line, _object(path, line, text)


def _check_columns(path: Path, columns: list[str]) -> None:
    if missing := [name for name in ("path", "label") if name not in columns]:
        raise DataError(
            f"{path} has no column {' or '.join(missing)} but {', '.join(columns) or 'none at all'}: "
            "name them in the first line (path,label or path,label,split)"
        )


def _object(path: Path, line: int, text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        table = None
    if type(table) is not dict:
        raise DataError(f'{path}, line {line} is no JSON object: write {{"path": "1.jpg", "label": "rose"}}')
    return table


def _row(manifest: Path, line: int, table: Mapping[str, Any]) -> Row:
    where = f"{manifest}, line {line}"
    path, label = _text(where, "path", table), _text(where, "label", table)
    if not os.path.isfile(manifest.parent / path):
        raise DataError(f"{where} names {printable(path)}, which is no file: paths start at the folder of the list")
    word = table.get("split") or ""
    part = part_of(word) if type(word) is str else None
    if "split" in table and part is None:
        raise DataError(f"{where} has the split {word!r}: choose from {', '.join(WORDS)}, in every line or in none")
    return Row(path, printable(label), part)


def _text(where: str, key: str, table: Mapping[str, Any]) -> str:
    """A text of a line; a whole number may stand for a class."""
    value = table.get(key)
    value = str(value) if type(value) is int else value
    if type(value) is not str or not value.strip() or "\0" in value:
        raise DataError(f"{where} has no {key}: {key} {value!r} is no text")
    return value
