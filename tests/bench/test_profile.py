"""Where a step goes is told by kernel, and kernels of one name by how they were launched."""

from typing import Any

import pytest
import torch

from patchwords.bench.measure import Effort
from patchwords.bench.profile import Asked, Work, profile, spent
from patchwords.errors import UsageError
from patchwords.models.model import Model

CPU = torch.device("cpu")


def kernel(name: str, microseconds: float, grid: int) -> dict[str, Any]:
    told = {"grid": [grid, 1, 1], "block": [128, 1, 1], "registers per thread": 168}
    return {"cat": "kernel", "name": name, "dur": microseconds, "args": told}


def test_kernels_of_one_name_are_told_by_their_launch() -> None:
    events = [kernel("_backward", 1000.0, 6144), kernel("_backward", 3000.0, 6144), kernel("_backward", 500.0, 264)]
    events += [{"cat": "gpu_memcpy", "name": "Memcpy", "dur": 100.0}, {"cat": "cuda_runtime", "name": "x", "dur": 9e9}]
    long, short, copy = spent(events, ("kernel", "gpu_memcpy"), 2)
    assert (long.milliseconds, long.times) == (2.0, 1.0)
    assert str(long) == "   2.000 ms    1.0 x  _backward [6144x1x1 of 128x1x1, 168 registers]"
    assert short.milliseconds == 0.25
    assert str(copy) == "   0.050 ms    0.5 x  Memcpy"


@pytest.mark.parametrize(("work", "named"), [("training", "a step"), ("inference", "a batch")])
def test_a_step_or_a_batch_and_its_kernels(
    work: Work, named: str, model: Model, effort: Effort, heard: list[str]
) -> None:
    asked = Asked(batch=4, device=CPU, work=work, precision="float32", steps=2, told=3, effort=effort)
    report = profile("tiny", model, asked, heard.append)
    assert ("logits" in heard[-1]) == (work == "inference")
    (row,) = report.rows
    assert row.bench == "profile"
    assert row.images_per_second > 0
    assert report.notes[0].startswith(f"{named} takes {row.milliseconds:.2f} ms")
    assert len(report.notes) == 5
    assert " x  " in report.notes[1]
    assert report.notes[-1].endswith("all others")


def test_a_graph_is_of_a_step() -> None:
    with pytest.raises(UsageError, match="graph always is for training"):
        Asked(batch=4, device=CPU, work="inference", graph="always")


def test_no_step_is_no_profile() -> None:
    with pytest.raises(UsageError, match="steps"):
        Asked(batch=4, device=CPU, steps=0)
