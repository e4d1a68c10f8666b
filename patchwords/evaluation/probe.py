"""The linear probe: logistic regression on frozen features, its penalty chosen on a part of the training pictures."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from patchwords.data.sources.split import Split, split
from patchwords.errors import DataError, UsageError
from patchwords.evaluation.answers import Progress
from patchwords.evaluation.classify import Scores, classify
from patchwords.evaluation.features import Features

STRENGTHS = tuple(10.0**power for power in range(-4, 5))
SHARE = 0.2  # of every class, to choose by
STEPS = 1000  # of the solver, at most
UNSEEN = 100.0  # below every logit: a class that was never seen is as good as impossible, and its loss still finite

Numbers = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One strength on the pictures held out."""

    strength: float
    accuracy: float
    converged: bool


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Probe:
    """The sweep, the strength it chose, and the scores on the test pictures after learning from all others."""

    strength: float  # scikit-learn's C: large is a small penalty
    converged: bool
    sweep: tuple[Trial, ...]  # empty where a single strength was given
    scores: Scores

    def numbers(self) -> dict[str, Any]:
        sweep = [
            {"strength": trial.strength, "accuracy": trial.accuracy, "converged": trial.converged}
            for trial in self.sweep
        ]
        return {
            "strength": self.strength,
            "converged": self.converged,
            "top1": self.scores.accuracy,
            "top5": self.scores.top5,
            "sweep": sweep,
        }


def probe(
    train: Features,
    test: Features,
    classes: int,
    *,
    strengths: Sequence[float] = STRENGTHS,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Probe:
    """Sweeps the strengths on a stratified fifth of the training features, then learns from all of them."""
    _check(train, strengths)
    steps = sorted(set(strengths))
    sweep = _sweep(train, classes, steps, seed, progress) if len(steps) > 1 else ()
    chosen = max(sweep, key=lambda trial: trial.accuracy).strength if sweep else steps[0]  # the first of equals
    learner = Learner(train)
    converged = learner.learn(chosen)
    progress(len(sweep) + 1, len(sweep) + 1)
    scores = classify(learner.logits(test, classes), test.labels)
    return Probe(strength=chosen, converged=converged, sweep=sweep, scores=scores)


class Learner:
    """Logistic regression on features that are standardised; each strength starts where the last one ended."""

    def __init__(self, train: Features):
        self.scale = StandardScaler()
        self.inputs = self.scale.fit_transform(train.vectors.astype(np.float64))
        self.labels = train.labels
        self.model = LogisticRegression(max_iter=STEPS, warm_start=True)

    def learn(self, strength: float) -> bool:
        """Whether the solver came to its end."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            self.model.set_params(C=strength).fit(self.inputs, self.labels)
        return not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)

    def logits(self, features: Features, classes: int) -> Numbers:
        """(pictures, classes)."""
        found = self.model.decision_function(self.scale.transform(features.vectors.astype(np.float64)))
        if found.ndim == 1:  # of two classes it tells the second's advantage alone
            found = np.stack([np.zeros_like(found), found], axis=1)
        logits = np.full((len(found), classes), found.min() - UNSEEN)
        logits[:, self.model.classes_] = found
        return logits


def _sweep(
    train: Features, classes: int, strengths: Sequence[float], seed: int, progress: Progress
) -> tuple[Trial, ...]:
    names = [str(number) for number in range(classes)]
    kept, held = (train.subset(part) for part in split(train.labels, names, Split(share=SHARE, seed=seed)))
    learner, trials = Learner(kept), []
    for strength in strengths:
        converged = learner.learn(strength)
        accuracy = classify(learner.logits(held, classes), held.labels).accuracy
        trials.append(Trial(strength=strength, accuracy=accuracy, converged=converged))
        progress(len(trials), len(strengths) + 1)
    return tuple(trials)


def _check(train: Features, strengths: Sequence[float]) -> None:
    if not strengths or not min(strengths) > 0:
        raise UsageError(f"strengths {list(strengths)} are not numbers above 0: 1.0 is a beginning")
    counts = np.bincount(train.labels)
    if np.count_nonzero(counts) < 2:
        raise DataError("a linear probe needs pictures of two classes to learn from, and there is only one class")
    if len(set(strengths)) > 1 and counts.max() * SHARE < 1:
        raise DataError(
            f"the largest class has {counts.max()} pictures, and a fifth of each class, rounded down, is held out to "
            "choose the probe's strength: give 5 pictures of one class, or a single strength"
        )
