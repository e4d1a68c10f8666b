"""The pictures of a run: what is said of them before it looks at them."""

from typing import Any

import pytest

from patchwords import settings
from patchwords.training.pictures import opened
from patchwords.training.recipe import Recipe
from patchwords.training.watch import Log


class Notes(Log):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, remark: str) -> None:
        self.said.append(remark)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "digits: 1,797 pictures of 10 classes (1,442 to train, 355 to val)"),
        ({"objective.kind": "mae", "best": "last"}, "digits: 1,797 pictures (1,442 to train, 355 to val)"),
    ],
)
def test_classes_are_counted_where_they_are_learned(changes: dict[str, Any], said: str) -> None:
    notes = Notes()
    opened("digits", settings.change(Recipe(), changes), notes, offline=True, mirror="")
    assert notes.said[0] == said
