"""What is wrong with a data set: unreadable pictures, copies, leaks between splits, odd classes. Nothing is changed."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from patchwords.data.broken import why
from patchwords.data.check import copies, likeness
from patchwords.data.check.copies import Place
from patchwords.data.check.findings import Finding, Findings, Severity
from patchwords.data.picture import Picture, Size, open_picture
from patchwords.data.sources.source import Data, Pixels, Source
from patchwords.data.workers import automatic, ordered
from patchwords.errors import DataError

Depth = Literal["quick", "full"]
Numbered = tuple[str, int]  # a split, and a picture in it

CHUNK = 64  # pictures that a process looks at at a time
TIMEOUT = 120.0  # seconds for them
WORTH_PROCESSES = 1000  # pictures
QUICK_MOST, QUICK_SAMPLE = 100_000, 10_000  # pictures: of more than the first, a quick check looks at the second
DECODE_AT = (64, 64)  # enough to see a picture by; a JPEG is read to its end all the same
LEAST_SIDE = 32  # pixels: smaller pictures look alike too easily, and among larger ones they are suspicious
SMALLER, LONGER, FEWER = 4, 5, 10  # times: than the median, than wide, than the largest class
KINDS = {"1": "grey", "L": "grey", "LA": "grey", "La": "grey", "CMYK": "CMYK"} | dict.fromkeys(
    ("I", "F", "I;16", "I;16B", "I;16L", "I;16N"), "deep"
)


class Seen(NamedTuple):
    """What was learned of one picture."""

    reason: str = ""  # why it cannot be read
    digest: bytes = b""  # only where another has as many bytes
    size: Size = (0, 0)
    kinds: tuple[str, ...] = ()
    look: likeness.Look | None = None


def check(
    data: Data,
    *,
    depth: Depth = "full",
    workers: int = -1,
    progress: Callable[[int, int], None] = lambda done, total: None,
    note: Callable[[str], None] = lambda remark: None,
) -> Findings:
    """Quick: headers, exact copies and classes. Full: everything decoded, and near copies as well."""
    labelled = len(data.classes) > 1  # one class says nothing
    counts = {split: len(source) for split, source in data.splits.items()}
    findings = Findings(counts, len(data.classes) if labelled else 0)
    chosen = [(split, index) for split, source in data.splits.items() for index in range(len(source))]
    if depth == "quick" and len(chosen) > QUICK_MOST:
        note(f"only every {len(chosen) // QUICK_SAMPLE}th picture was looked at; `patchwords check` looks at all")
        chosen = chosen[:: len(chosen) // QUICK_SAMPLE]
    places = [_place(data, *each) for each in chosen]
    seen = _seen(data, chosen, depth, workers, progress, note)
    classes = _classes(data) if labelled else ()
    for finding in (*_pictures(places, seen), *_copies(places, seen, data, depth), *classes):
        findings.add(finding)
    return findings


def _place(data: Data, split: str, index: int) -> Place:
    source = data.splits[split]
    return Place(split, data.classes[source.labels[index]], source.name(index))


def _seen(
    data: Data,
    chosen: Sequence[Numbered],
    depth: Depth,
    workers: int,
    progress: Callable[[int, int], None],
    note: Callable[[str], None],
) -> list[Seen]:
    if workers < 0:
        workers = automatic() if len(chosen) >= WORTH_PROCESSES else 0
    sizes = Counter(_size(data.splits[split], index) for split, index in chosen)
    examine = _Examine(data.splits, depth, frozenset(size for size, count in sizes.items() if count > 1))
    tasks = [chosen[start : start + CHUNK] for start in range(0, len(chosen), CHUNK)]
    seen: list[Seen] = []
    for result in ordered(examine, tasks, workers=workers, timeout=TIMEOUT, note=note):
        seen += result
        progress(len(seen), len(chosen))
    return seen


def _size(source: Source, index: int) -> int:
    try:
        return source.size(index)
    except (DataError, OSError):
        return -1  # reading it will tell why


@dataclass(frozen=True)
class _Examine:
    """Looks at pictures; `repeated` are the numbers of bytes that more than one of them has."""

    sources: dict[str, Source]
    depth: Depth
    repeated: frozenset[int]

    def __call__(self, chosen: Sequence[Numbered]) -> list[Seen]:
        return [self._one(self.sources[split], index) for split, index in chosen]

    def _one(self, source: Source, index: int) -> Seen:
        try:
            raw = source.picture(index)
            picture = open_picture(raw)
            look = _look(picture, raw) if self.depth == "full" else None
        except OSError as error:
            return Seen(reason=error.strerror or str(error))
        except DataError as error:
            return Seen(reason=why(source.name(index), error))
        return Seen("", self._digest(raw), picture.size, _kinds(picture), look)

    def _digest(self, raw: bytes | Pixels) -> bytes:
        content = raw if isinstance(raw, bytes) else raw.tobytes()
        if len(content) not in self.repeated:
            return b""
        shape = b"" if isinstance(raw, bytes) else repr(raw.shape).encode()
        return hashlib.sha256(shape + content).digest()


def _look(picture: Picture, raw: bytes | Pixels) -> likeness.Look | None:
    """Decodes the picture, whether or not it is large enough to be compared."""
    channels = 3 if isinstance(raw, bytes) else raw.shape[2]
    image = picture.decode(channels, DECODE_AT).planes[0]
    return likeness.look(image) if min(picture.size) >= LEAST_SIDE else None


def _kinds(picture: Picture) -> tuple[str, ...]:
    found = (KINDS.get(picture.mode), "alpha" if picture.transparent else None, "turned" if picture.turn > 1 else None)
    return tuple(kind for kind in found if kind)


def _pictures(places: Sequence[Place], seen: Sequence[Seen]) -> Iterator[Finding]:
    reasons = [f"{place.name} ({each.reason})" for place, each in zip(places, seen, strict=True) if each.reason]
    yield _finding("unreadable", "unreadable picture", reasons, "error")
    readable = [(place.name, each) for place, each in zip(places, seen, strict=True) if not each.reason]
    median = float(np.median([min(each.size) for _, each in readable])) if readable else 0.0
    tiny = [name for name, each in readable if min(each.size) < min(LEAST_SIDE, median / SMALLER)]
    yield _finding("tiny", "picture much smaller than most", tiny)
    long = [name for name, each in readable if max(each.size) > LONGER * min(each.size)]
    yield _finding("long", f"picture more than {LONGER} times as long as wide", long)
    for kind, what in (
        ("grey", "grey picture among coloured ones"),
        ("CMYK", "CMYK picture, converted by a plain formula"),
        ("deep", "picture of 16 bits or more a channel, reduced to 8"),
        ("alpha", "picture with transparency, laid on white"),
        ("turned", "picture that its camera turned, made upright"),
    ):
        names = [name for name, each in readable if kind in each.kinds]
        if kind != "grey" or len(names) < len(readable):
            yield _finding(kind, what, names, "note")


def _copies(places: Sequence[Place], seen: Sequence[Seen], data: Data, depth: Depth) -> Iterator[Finding]:
    digests = [each.digest for each in seen]
    yield from copies.exact(places, digests, data)
    if depth == "full":
        yield from copies.near(places, digests, [each.look for each in seen], data)


def _classes(data: Data) -> Iterator[Finding]:
    counts = {split: np.bincount(source.labels, minlength=len(data.classes)) for split, source in data.splits.items()}
    total, train = sum(counts.values()), counts["train"]
    yield _finding("single", "class with one picture", [data.classes[i] for i in np.flatnonzero(total == 1)])
    rare = np.flatnonzero((train > 0) & (train * FEWER < train.max()))
    what = (
        f"class with less than a tenth of the pictures of the largest, {data.classes[train.argmax()]} ({train.max()})"
    )
    yield _finding("uneven", what, [f"{data.classes[i]} ({train[i]})" for i in rare])
    for split in ("val", "test"):
        if split in counts:
            missing = np.flatnonzero((counts[split] == 0) & (train > 0))
            yield _finding("missing", f"class without pictures in {split}", [data.classes[i] for i in missing])
    alike: dict[str, list[str]] = {}
    for name in data.classes:
        alike.setdefault(_folded(name), []).append(name)
    groups = tuple(tuple(repr(name) for name in names) for names in alike.values() if len(names) > 1)
    yield Finding(kind="names", what="class names that differ only in case, spaces or dashes", groups=groups)


def _folded(name: str) -> str:
    return re.sub(r"[\s_.-]+", "", unicodedata.normalize("NFKC", name).casefold()) or name


def _finding(kind: str, what: str, names: Sequence[str], severity: Severity = "warning") -> Finding:
    return Finding(kind=kind, what=what, groups=tuple((name,) for name in sorted(names)), severity=severity)
