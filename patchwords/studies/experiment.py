"""What every study is: cells over a ground, and what their numbers come to, in figures and in two sentences."""

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.figure import Panel
from patchwords.studies.ground import Ground
from patchwords.studies.results import Results


class Finding(NamedTuple):
    """What was found here, and beside it what the paper found: whether that is the same is said there."""

    here: Both
    paper: Both


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment(abc.ABC):
    """One of the paper's studies; its fields are what it varies, as a grid says it."""

    name: ClassVar[str]
    of: ClassVar[str]  # the figure, table or section
    title: ClassVar[Both]
    question: ClassVar[Both]

    @abc.abstractmethod
    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterable[Cell]:
        """Those whose numbers the table holds; what they begin with comes along."""

    @abc.abstractmethod
    def panels(self, results: Results) -> Sequence[Panel]:
        """What the figure shows, side by side."""

    @abc.abstractmethod
    def finding(self, results: Results) -> Finding:
        """In two sentences."""
