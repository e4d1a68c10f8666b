"""ImageNet where its 50,000 validation pictures lie in one folder, labelled by a text file; and its ReaL labels.

With class folders in both train/ and val/ it is a folder like any other, and read as such.
"""

import json
import re
from pathlib import Path

from patchwords.data.sources import folder as folders
from patchwords.data.sources.listing import listing, pictures
from patchwords.data.sources.names import listed, printable
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data, Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

LABELS = (  # what people hold: a name and a class, or a class alone in the order of the names
    "val.txt",
    "LOC_val_solution.csv",
    "imagenet_2012_validation_synset_labels.txt",
    "ILSVRC2012_validation_ground_truth.txt",
)
NAME = re.compile(r"ILSVRC2012_val_(\d{8})")


def recognise(folder: Path) -> bool:
    """Whether val/ holds ImageNet's pictures and no class folders."""
    here = listing(folder)
    if not {"train", "val"} <= set(here.folders):
        return False
    val = listing(folder / "val")
    return not val.folders and any(NAME.match(name) for name in val.files)


def read(folder: Path, settings: Split | None) -> Data:
    """The classes are the folders in train/; the text file names them, or their numbers in sorted order."""
    found = folders.scan(folder, "train")
    classes = sorted(found.classes)
    labels = _labels(folder)
    val: dict[str, list[str]] = {}
    for name in pictures(listing(folder / "val").files):
        label = labels.get(name.partition(".")[0], "")
        label = classes[int(label)] if label.isdecimal() and int(label) < len(classes) else label
        if label not in found.classes:
            raise DataError(f"{folder}: val/{printable(name)} has the label {label!r}, which is no folder in train/")
        val.setdefault(label, []).append(f"val/{name}")
    return folders.build(folder, {"train": found.classes, "val": val}, settings, list(found.notes()))


def _labels(folder: Path) -> dict[str, str]:
    """The word for each picture's class, by the picture's name without its ending."""
    files = [place / name for place in (folder, folder / "val") for name in LABELS if (place / name).is_file()]
    if not files:
        raise DataError(f"{folder}: val/ has no class folders, and there is no {listed(LABELS, 9)}: add one of them")
    with reading(files[0]):
        rows = [re.split(r"[\s,]+", line.strip()) for line in files[0].read_text("utf-8").splitlines() if line.strip()]
    if all(len(row) > 1 for row in rows):
        return {row[0].partition(".")[0]: row[1] for row in rows}
    if any(row[0].isdecimal() for row in rows):
        raise DataError(f"{files[0]} has numbers of its own for the classes: use a file with a name and a class a line")
    return {f"ILSVRC2012_val_{number:08}": row[0] for number, row in enumerate(rows, 1)}


def real_labels(path: Path, source: Source) -> list[tuple[int, ...]]:
    """For each picture all classes that it shows (Beyer et al., 2020), as numbers among the 1000 in sorted order."""
    with reading(path):
        answers = [tuple(map(int, row)) for row in json.loads(path.read_text("utf-8"))]
    labels = []
    for index in range(len(source)):
        match = NAME.search(source.name(index))
        if not match or not 1 <= int(match[1]) <= len(answers):
            raise DataError(f"{source.name(index)} is none of the {len(answers)} pictures of {path}: ReaL is for val/")
        labels.append(answers[int(match[1]) - 1])
    return labels
