"""How long an answer takes, and how often it is that of float32."""

import pytest
import torch

from patchwords.bench import latency as module
from patchwords.bench.inference import Asked
from patchwords.bench.latency import latency
from patchwords.bench.measure import Effort
from patchwords.models.model import Model

CPU = torch.device("cpu")


def asked(effort: Effort, *precisions: str) -> Asked:
    return Asked(batch=1, device=CPU, precisions=precisions, who=("ours",), effort=effort)


def test_float32_agrees_with_itself(model: Model, effort: Effort, heard: list[str]) -> None:
    report = latency("tiny", model, asked(effort, "float32"), torch.randn(12, 3, 16, 16), heard.append)
    (row,) = report.rows
    assert (row.bench, row.further["agreement"]) == ("latency", 1.0)
    assert row.further["wait"] > 0
    assert report.notes == ("the agreement is on 12 pictures",)


def test_random_pictures_are_said_to_be_so(model: Model, effort: Effort, heard: list[str]) -> None:
    report = latency("tiny", model, asked(effort, "float32"), None, heard.append)
    assert "random pictures" in report.notes[0]


def test_a_setting_that_says_something_else_is_seen(
    model: Model, effort: Effort, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ready", lambda model, **_: lambda images: -model(images))
    (row,) = latency("tiny", model, asked(effort, "float32"), torch.randn(12, 3, 16, 16), heard.append).rows
    assert row.further["agreement"] == 0.0
