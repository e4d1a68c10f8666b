"""Weighted k-nearest neighbours of frozen features, as Wu et al. (2018) and DINO (Caron et al., 2021) judge them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.errors import DataError, UsageError
from patchwords.evaluation.answers import CPU
from patchwords.evaluation.features import Features
from patchwords.settings import at_least

TOP = 5
CHUNK = 1 << 24  # similarities at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Near:
    """With so many neighbours: how often the label has the most votes, and is among the five with the most."""

    neighbours: int
    top1: float
    top5: float  # a class without any vote is not among them


@dataclass(frozen=True, kw_only=True, slots=True)
class Knn:
    """The shares for every number of neighbours, in the order asked for."""

    temperature: float
    results: tuple[Near, ...]

    def numbers(self) -> dict[str, Any]:
        rows = [{"neighbours": near.neighbours, "top1": near.top1, "top5": near.top5} for near in self.results]
        return {"temperature": self.temperature, "neighbours": rows}


def nearest(
    train: Features,
    test: Features,
    classes: int,
    *,
    neighbours: Sequence[int] = (10, 20, 100, 200),
    temperature: float = 0.07,
    device: torch.device = CPU,
) -> Knn:
    """Each test picture is named by the training pictures most like it, each voting exp(cosine / temperature)."""
    _check(train, neighbours, temperature)
    steps = sorted(set(neighbours))
    bank, labels = _directions(train, slice(None), device), torch.tensor(train.labels)
    rows = max(1, CHUNK // max(len(bank), classes))
    right = torch.zeros(len(steps), 2, dtype=torch.int64)
    for start in range(0, len(test.labels), rows):
        chunk = slice(start, start + rows)
        likeness, places = (found.cpu() for found in (_directions(test, chunk, device) @ bank.mT).topk(steps[-1]))
        # relative to the nearest, which changes no order and lets no exponential overflow
        votes = ((likeness - likeness[:, :1]).double() / temperature).exp()
        right += _right(votes, labels[places], torch.tensor(test.labels[chunk]), classes, steps)
    shares = dict(zip(steps, (right.double() / len(test.labels)).tolist(), strict=True))
    results = tuple(Near(neighbours=k, top1=shares[k][0], top5=shares[k][1]) for k in neighbours)
    return Knn(temperature=temperature, results=results)


def _directions(features: Features, chunk: slice, device: torch.device) -> Tensor:
    return F.normalize(torch.tensor(features.vectors[chunk], device=device), dim=1)  # (pictures, width)


def _right(votes: Tensor, voters: Tensor, labels: Tensor, classes: int, steps: Sequence[int]) -> Tensor:
    """How many labels are first and among the first five, for each number of neighbours: (steps, 2)."""
    totals = torch.zeros(len(labels), classes, dtype=votes.dtype)
    numbers, counts = torch.arange(classes), []
    for start, stop in zip((0, *steps), steps, strict=False):
        totals.scatter_add_(1, voters[:, start:stop], votes[:, start:stop])
        own = totals.gather(1, labels[:, None])
        before = (totals > own) | ((totals == own) & (numbers < labels[:, None]))  # of equal ones the first comes first
        rank = before.sum(1)
        counts.append(torch.stack([(rank == 0).sum(), ((rank < TOP) & (own[:, 0] > 0)).sum()]))
    return torch.stack(counts)


def _check(train: Features, neighbours: Sequence[int], temperature: float) -> None:
    if not neighbours:
        raise UsageError("no number of neighbours was given: 20 is customary")
    at_least(1, neighbours=min(neighbours))
    if not temperature > 0:
        raise UsageError(f"temperature {temperature:g} is not above 0: 0.07 is customary")
    if max(neighbours) > len(train.labels):
        raise DataError(
            f"{max(neighbours)} neighbours are more than the {len(train.labels)} pictures to learn from: "
            f"choose {len(train.labels)} or fewer"
        )
