"""What a model says of one picture: every class with its probability, and where it looked."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError
from patchwords.evaluation.classify import Loss, probabilities
from patchwords.settings import at_least, nearest

Kind = Literal["rollout", "evidence"]


class Ranked(NamedTuple):
    """A class and how probable it is."""

    label: str
    probability: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """An answer; `labels` and `probabilities` belong together, the best first.

    Under a softmax the probabilities sum to one; a model that learned by sigmoids judges every class on its own.
    """

    name: str  # of the picture
    classes: tuple[str, ...]  # of the model, in its order
    logits: NDArray[np.float32]  # (classes), in that order
    loss: Loss = "softmax"
    pixels: Pixels | None = None  # (height, width, channels), what the model saw of the picture
    attention: NDArray[np.float32] | None = None  # (rows, cols), where it looked
    kind: Kind = "rollout"  # what that is: of the attention, or of the evidence for the best class

    @property
    def label(self) -> str:
        return self.classes[self.order[0]]

    @property
    def probability(self) -> float:
        """Of the label."""
        return float(self.chances[self.order[0]])

    @property
    def labels(self) -> tuple[str, ...]:
        """All classes, the best first."""
        return tuple(self.classes[number] for number in self.order)

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Of the labels, the highest first."""
        return self.chances[self.order]

    def top(self, most: int = 5) -> tuple[Ranked, ...]:
        """The best so many; all of them where there are fewer."""
        at_least(1, top=most)
        return tuple(Ranked(self.classes[number], float(self.chances[number])) for number in self.order[:most])

    def of(self, label: str) -> float:
        """The probability of one class."""
        if label not in self.classes:
            raise UsageError(f"{label!r} is none of the classes; {nearest(label, self.classes)}")
        return float(self.chances[self.classes.index(label)])

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The numbers of the classes, the best first; logits decide, since probabilities may round to the same."""
        return np.argsort(-self.logits, kind="stable")

    @cached_property
    def chances(self) -> NDArray[np.float64]:
        """The probabilities in the order of the classes."""
        return probabilities(self.logits[None], loss=self.loss)[0]

    def __repr__(self) -> str:
        best = ", ".join(f"{label!r}: {share:.4f}" for label, share in self.top(3))
        return f"Prediction({self.name!r}, {best}{', …' if len(self.classes) > 3 else ''})"

    def _repr_html_(self) -> str:
        from patchwords.serve.notebook import shown

        return shown(self)
