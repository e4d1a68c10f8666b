"""Which steps can be a graph, and what is said of those that cannot."""

from typing import Any

import pytest
import torch

from patchwords.errors import UsageError
from patchwords.speed.step import Graph
from patchwords.training.recordable import recordable

FIT: dict[str, Any] = {
    "device": torch.device("cuda"),
    "processes": 1,
    "scaled": False,
    "skips": False,
    "whole": True,
}
UNFIT = [
    ({"processes": 2}, "several processes"),
    ({"scaled": True}, "choose bf16"),
    ({"skips": True}, "choose stop or rollback"),
    ({"whole": False}, "set micro to the whole batch"),
]


@pytest.mark.parametrize("graph", ["auto", "never", "always"])
def test_a_step_on_one_gpu_is_what_was_asked_for(graph: Graph) -> None:
    notes: list[str] = []
    assert recordable(graph, **FIT, note=notes.append) == graph
    assert not notes


@pytest.mark.parametrize(("change", "sentence"), UNFIT)
def test_what_cannot_be_recorded_is_said_or_refused(change: dict[str, Any], sentence: str) -> None:
    notes: list[str] = []
    assert recordable("auto", **FIT | change, note=notes.append) == "never"
    (note,) = notes
    assert sentence in note
    assert recordable("never", **FIT | change, note=notes.append) == "never"
    assert len(notes) == 1
    with pytest.raises(UsageError, match=f"graph always is not possible, .*{sentence}.*or set graph to auto"):
        recordable("always", **FIT | change, note=notes.append)


def test_a_cpu_has_no_graphs_and_nobody_needs_to_hear_it() -> None:
    notes: list[str] = []
    here = FIT | {"device": torch.device("cpu")}
    assert recordable("auto", **here, note=notes.append) == "never"
    assert not notes
    with pytest.raises(UsageError, match="the device is cpu: choose cuda, or set graph to auto"):
        recordable("always", **here, note=notes.append)
