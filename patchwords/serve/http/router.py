"""Finds the door that a request means: a table, not an order of rules."""

from collections.abc import Sequence

from patchwords.serve.http.door import Door
from patchwords.serve.http.refusal import Refused


class Router:
    """Doors by path and method; HEAD is a GET whose body is not sent."""

    def __init__(self, doors: Sequence[Door]):
        self.doors = tuple(doors)

    def find(self, method: str, path: str) -> tuple[Door, dict[str, str]]:
        """The door and the words in its path."""
        parts = path.split("/")
        found = [(door, words) for door in self.doors if (words := door.matches(parts)) is not None]
        if not found:
            raise Refused(404, f"there is nothing at {path[:80]!r}; what there is stands at /docs")
        for door, words in found:
            if method in _methods(door):
                return door, words
        allowed = ", ".join(sorted({method for door, _ in found for method in _methods(door)}))
        raise Refused(405, f"{path[:80]} takes {allowed}, not {method[:20]}", {"Allow": allowed})


def _methods(door: Door) -> tuple[str, ...]:
    return ("GET", "HEAD") if door.method == "GET" else (door.method,)
