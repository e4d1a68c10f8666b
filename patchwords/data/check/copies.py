"""Pictures that are there more than once: in a class, under two labels, or in two splits, which flatters the score."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from patchwords.data.check import likeness
from patchwords.data.check.findings import Finding, Group, Severity
from patchwords.data.check.likeness import Look
from patchwords.data.sources.source import Data, Subset


class Place(NamedTuple):
    """Where a picture is, and what it is called."""

    split: str
    label: str
    name: str


def exact(places: Sequence[Place], digests: Sequence[bytes], data: Data) -> Iterator[Finding]:
    """Copies to the bit; an empty digest is nobody's."""
    found = [[places[number] for number in group] for group in _same(digests)]
    yield from _leaks(found, data, kind="leak", what="same picture", severity="error")
    yield Finding(kind="labels", what="same picture under two labels", groups=_two_labels(found), severity="error")
    yield Finding(kind="copies", what=f"same picture more than once{_where(data)}", groups=_within(found))


def near(
    places: Sequence[Place], digests: Sequence[bytes], looks: Sequence[Look | None], data: Data
) -> Iterator[Finding]:
    """Copies that were saved again, resized or recoloured: as good as certain, but no proof, so never an error."""
    found = [[places[number] for number in group] for group in _alike(digests, looks)]
    yield from _leaks(found, data, kind="near leak", what="near copy", severity="warning")
    yield Finding(kind="near labels", what="near copy under two labels", groups=_two_labels(found))
    yield Finding(kind="near copies", what=f"near copy{_where(data)}", groups=_within(found))


def _same(digests: Sequence[bytes]) -> list[list[int]]:
    found: dict[bytes, list[int]] = {}
    for number, digest in enumerate(digests):
        if digest:
            found.setdefault(digest, []).append(number)
    return [group for group in found.values() if len(group) > 1]


def _alike(digests: Sequence[bytes], looks: Sequence[Look | None]) -> list[list[int]]:
    """Groups of near copies; one of each set of exact copies is compared and stands for the others."""
    copies = {group[0]: group for group in _same(digests)}
    others = {number for group in copies.values() for number in group[1:]}
    chosen = [number for number, look in enumerate(looks) if look and number not in others]
    pairs = likeness.near_pairs([look for number in chosen if (look := looks[number])])
    groups = likeness.groups(len(chosen), pairs)
    return [sorted(copy for i in group for copy in copies.get(chosen[i], [chosen[i]])) for group in groups]


def _leaks(found: list[list[Place]], data: Data, *, kind: str, what: str, severity: Severity) -> Iterator[Finding]:
    """Copies in two splits; what an automatic split did is mended by removing copies, and no fault of the user's."""
    leaks = [group for group in found if len({place.split for place in group}) > 1]
    chance = [group for group in leaks if _is_automatic(data) and {place.split for place in group} == {"train", "val"}]
    given = [group for group in leaks if group not in chance]
    yield Finding(kind=kind, what=f"{what} in two splits", groups=_named(given, "split"), severity=severity)
    yield Finding(kind=kind, what=f"{what} on both sides of the automatic split", groups=_named(chance, "split"))


def _is_automatic(data: Data) -> bool:
    train, val = data.train, data.val
    return isinstance(train, Subset) and isinstance(val, Subset) and train.source is val.source


def _two_labels(found: list[list[Place]]) -> tuple[Group, ...]:
    return _named([group for group in found if len({place.label for place in group}) > 1], "label")


def _within(found: list[list[Place]]) -> tuple[Group, ...]:
    """Groups of one label in one split."""
    return tuple(tuple(place.name for place in group) for group in found if len({place[:2] for place in group}) == 1)


def _where(data: Data) -> str:
    """Copies within a class; without labels there is none to name."""
    return " within a class" if len(data.classes) > 1 else ""


def _named(found: list[list[Place]], by: str) -> tuple[Group, ...]:
    """Names with their split or label in brackets."""
    return tuple(tuple(f"{place.name} ({getattr(place, by)})" for place in group) for group in found)
