"""MODEL of an export: one that has learned something."""

from collections.abc import Callable
from pathlib import Path

from patchwords.errors import UsageError
from patchwords.export.read import is_program
from patchwords.weights.subject import Subject, open_trained


def trained(
    model: str | Path | Subject, image: int | tuple[int, int] | None, heads: int | None, fetch: Callable[[str], Path]
) -> Subject:
    """The opened model; random weights are refused, and files that were exported."""
    if not isinstance(model, Subject) and is_program(model):
        raise UsageError(f"{model} is an exported file already: give the model that it was made from")
    return open_trained(model, image=image, heads=heads, fetch=fetch)
