"""What an export has made, and how near it is to the model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords.export.measure import Measured
from patchwords.export.parity import Parity
from patchwords.export.wish import Wish
from patchwords.weights.card import Card


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, how near it is to the model, and where data was given what it is worth there."""

    path: Path
    format: str
    bytes: int
    card: Card
    wish: Wish
    parity: Parity  # in float32, which int8 is made from
    measured: Measured | None
    notes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Of what it takes; words are axes of any length."""
        height, width = ("height", "width") if self.wish.sizes == "any" else self.card.preprocess.size
        channels = self.card.model.channels
        if self.wish.input == "pixels":
            return "batch", height, width, channels
        return "batch", channels, height, width

    @property
    def gives(self) -> str:
        """What it says of each picture: logits, or of a model without classes a vector."""
        return output_name(self.card)

    def numbers(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "out": str(self.path),
            "format": self.format,
            "bytes": self.bytes,
            "input": self.wish.input,
            "shape": list(self.shape),
            "output": self.gives,
            "precision": self.wish.precision,
            "parity": self.parity.numbers(),
            "measured": self.measured.numbers() if self.measured else None,
            "notes": list(self.notes),
        }


def output_name(card: Card) -> str:
    return "logits" if card.model.classes else "vector"
