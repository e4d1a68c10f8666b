"""MODEL of an export: one that has learned something."""

from collections.abc import Callable
from pathlib import Path

from patchwords.errors import UsageError
from patchwords.export.read import is_program
from patchwords.models import names
from patchwords.weights.subject import RANDOM, Subject, open_subject

UNTRAINED = "{} is the name of a model without weights, and a file of random ones is of no use: give a run folder, a "
UNTRAINED += "weights file or published weights (`patchwords show zoo`)"


def trained(
    model: str | Path | Subject, image: int | tuple[int, int] | None, heads: int | None, fetch: Callable[[str], Path]
) -> Subject:
    """The opened model; random weights are refused, and files that were exported."""
    if isinstance(model, Subject):
        if image is not None or heads is not None:
            raise UsageError("image and heads belong to the opening of a file: give them to open_subject")
        subject = model
    else:
        if is_program(model):
            raise UsageError(f"{model} is an exported file already: give the model that it was made from")
        if not Path(model).exists() and names.fits(str(model)):
            raise UsageError(UNTRAINED.format(model))
        size = (image, image) if isinstance(image, int) else image
        subject = open_subject(model, image=size, heads=heads, fetch=fetch)
    if subject.card.source == RANDOM:
        raise UsageError(UNTRAINED.format(subject.name))
    return subject
