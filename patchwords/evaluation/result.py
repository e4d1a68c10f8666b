"""What an evaluation comes to: which model was judged by which pictures, what was found, and what it cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords.evaluation.classify import Scores
from patchwords.evaluation.frozen import WAYS, Frozen
from patchwords.evaluation.judgement import MEASURED, Judgement
from patchwords.evaluation.pictures import Part
from patchwords.weights.card import Card

REPORT, NUMBERS = "report.html", "evaluation.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """How long it took, how much of that the model was asked and about how many pictures, where and how."""

    seconds: float
    asked: float
    images: int
    device: str
    precision: str
    batch: int

    @property
    def images_per_second(self) -> float | None:
        return self.images / self.asked if self.asked else None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result; without a judgement where the model's outputs say nothing about this data."""

    folder: Path
    model: str
    card: Card
    data: str
    split: Part
    said: str  # which pictures these are
    judgement: Judgement | None
    frozen: Frozen | None
    cost: Cost
    broken: dict[str, str]  # pictures that could not be read, and why
    notes: tuple[str, ...]

    @property
    def scores(self) -> Scores | None:
        return self.judgement.scores if self.judgement else None

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    def numbers(self) -> dict[str, Any]:
        """All of it, ready for JSON; what was not measured is null."""
        nothing = dict.fromkeys((*MEASURED, *WAYS))
        return {
            "model": self.model,
            "data": self.data,
            "split": self.split,
            **nothing,
            **(self.judgement.numbers() if self.judgement else {}),
            **(self.frozen.numbers() if self.frozen else {}),
            "seconds": self.cost.seconds,
            "images_per_second": self.cost.images_per_second,
            "device": self.cost.device,
            "precision": self.cost.precision,
            "broken": len(self.broken),
            "unreadable": self.broken,
            "notes": list(self.notes),
            "report": str(self.report),
        }
