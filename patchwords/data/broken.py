"""Pictures that cannot be read: each is named once, and too many are an error."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from patchwords.data.sources.listing import CONVERT, is_unread
from patchwords.errors import DataError


class Damage(NamedTuple):
    """A picture, and why it cannot be read."""

    name: str
    reason: str


def why(name: str, error: Exception) -> str:
    """What is wrong with a picture; of one whose name tells a kind that nothing here decodes, what to do with it."""
    is_kind = is_unread(name) and isinstance(error, DataError)
    return f"such files are not read: {CONVERT}" if is_kind else str(error)


class Broken:
    """What was found broken so far, of `total` pictures; more than the share `allowed` (a `setting`) ends the work."""

    def __init__(self, allowed: float, total: int, note: Callable[[str], None], setting: str = "data.broken"):
        self.allowed = allowed
        self.total = total
        self.note = note
        self.setting = setting
        self.found: dict[str, str] = {}

    def add(self, damages: Iterable[Damage]) -> None:
        for name, reason in damages:
            if name not in self.found:
                self.found[name] = reason
                self.note(f"{name} cannot be read ({reason}); it is left out")
        if len(self.found) > self.allowed * self.total:
            examples = "; ".join(f"{name} ({reason})" for name, reason in list(self.found.items())[:5])
            raise DataError(
                f"{len(self.found)} of {self.total} pictures cannot be read, more than the allowed share of "
                f"{self.allowed:g}: {examples}; mend or remove them (`patchwords check` lists all), "
                f"or set {self.setting}"
            )
