"""Whether fast settings learn the same."""

import numpy as np
import pytest
import torch

from patchwords.bench.learning import SMOOTHED, Asked, largest_gap, learning, smoothed
from patchwords.errors import UsageError

CPU = torch.device("cpu")


def test_curves_of_three_runs(heard: list[str]) -> None:
    asked = Asked(model="ViT-Mu/8", device=CPU, batch=8, steps=2 * SMOOTHED, image=16, classes=4, count=32, lr=1e-3)
    report = learning(asked, heard.append)
    plain, other, fast = report.curves.values()
    assert len(plain) == len(other) == len(fast) == asked.steps
    assert plain[0] == pytest.approx(fast[0], rel=0.02)  # the same start
    assert plain != fast
    assert plain != other
    assert smoothed(plain)[-1] < smoothed(plain)[0]
    (said,) = report.notes
    assert f"fast in bf16 and plain, are {largest_gap(plain, fast):.4f} apart" in said
    assert f"{largest_gap(plain, other):.4f}" in said


def test_a_gap_for_every_precision(heard: list[str]) -> None:
    sizes = {"batch": 8, "steps": 2 * SMOOTHED, "image": 16, "classes": 4, "count": 32, "lr": 1e-3}
    report = learning(Asked(model="ViT-Mu/8", device=CPU, fast=("float32", "bf16"), **sizes), heard.append)
    plain, _, same, fast = report.curves.values()
    assert list(report.curves)[2:] == ["float32, fast", "bf16, fast"]
    assert same == plain  # on a CPU there is nothing faster
    assert [row.precision for row in report.rows] == ["float32", "float32", "float32", "bf16"]
    assert "fast in float32 and plain, are 0.0000 apart" in report.notes[0]
    assert f"fast in bf16 and plain, are {largest_gap(plain, fast):.4f} apart" in report.notes[1]


def test_a_precision_that_nobody_learns_in_is_refused() -> None:
    with pytest.raises(UsageError, match="int8"):
        Asked(model="ViT-Mu/8", device=CPU, fast=("int8",))  # type: ignore[arg-type]


def test_a_gap_is_that_of_the_smoothed_curves() -> None:
    noise = np.tile([1.0, -1.0], 50)
    assert largest_gap(list(3 + noise), list(3 - noise)) == pytest.approx(0.0)
    assert largest_gap([1.0] * 100, [1.0] * 50 + [3.0] * 50) == pytest.approx(2.0)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="steps"):
        Asked(model="ViT-Mu/8", device=CPU, steps=SMOOTHED)
