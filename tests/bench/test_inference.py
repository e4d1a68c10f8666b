"""Inference: the same logits first, then everybody's speed."""

import json
from dataclasses import asdict
from types import ModuleType

import pytest
import torch

from patchwords.bench import inference as bench
from patchwords.bench.inference import Asked, inference
from patchwords.bench.measure import Effort
from patchwords.errors import ModelError, UsageError
from patchwords.models.model import Model

CPU = torch.device("cpu")


def asked(effort: Effort, **given: object) -> Asked:
    usual: dict[str, object] = {"batch": 2, "device": CPU, "precisions": ("float32",), "hows": ("eager",)}
    return Asked(**usual | {"who": ("ours", "timm"), "effort": effort} | given)


def test_ours_and_a_peer_with_the_same_weights(
    timm: ModuleType, model: Model, effort: Effort, heard: list[str]
) -> None:
    report = inference("tiny", model, asked(effort), heard.append)
    ours, theirs = report.rows
    assert (ours.who, theirs.who) == ("ours", "timm")
    assert ours.ratios == {"timm eager float32": ours.images_per_second / theirs.images_per_second}
    assert ours.ceiling is not None
    assert 0 < ours.ceiling < 2
    assert report.machine["timm"] == "9.9"
    assert ours.further["apart"] < 1e-3
    assert [remark.partition(":")[0] for remark in heard] == ["ours in float32", "timm eager in float32"]
    json.dumps(asdict(report))


def test_a_peer_that_computes_something_else_is_not_measured(
    timm: ModuleType, model: Model, effort: Effort, heard: list[str]
) -> None:
    timm.VisionTransformer.scale = 1.01
    (ours,) = inference("tiny", model, asked(effort), heard.append).rows
    assert ours.who == "ours"
    assert heard[-1].startswith("timm is left out: timm in float32 computes other logits")


def test_ours_is_refused_if_it_computes_something_else(
    model: Model, effort: Effort, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "ready", lambda model, **_: lambda images: 2 * model(images))
    with pytest.raises(ModelError, match="ours in float32 computes other logits"):
        inference("tiny", model, asked(effort, who=("ours",)), heard.append)


def test_compiled_and_graphs_are_entrants_of_their_own(
    timm: ModuleType, uncompiled: object, model: Model, effort: Effort, heard: list[str]
) -> None:
    every = asked(effort, who=("timm",), hows=("eager", "compiled", "eager graphs"), precisions=("float32", "bf16"))
    rows = inference("tiny", model, every, heard.append).rows
    assert [(row.how, row.precision) for row in rows] == [  # graphs are a GPU's
        ("eager", "float32"),
        ("compiled", "float32"),
        ("eager", "bf16"),
        ("compiled", "bf16"),
    ]


def test_what_a_peer_has_not_is_measured_in_the_best_it_has(effort: Effort) -> None:
    assert asked(effort, precisions=("int8", "float32")).rivals == ("float32",)
    assert asked(effort, precisions=("fp8", "float32"), device=torch.device("cuda")).rivals == ("bf16", "float32")


def test_the_model_is_left_as_it_is(timm: ModuleType, model: Model, effort: Effort, heard: list[str]) -> None:
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inference("tiny", model, asked(effort), heard.append)
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_wait_for_one_picture_is_told(model: Model, effort: Effort, heard: list[str]) -> None:
    (row,) = inference("tiny", model, asked(effort, batch=1, who=("ours",)), heard.append).rows
    assert row.further["wait"] > 0


def test_nobody_is_an_error(lonely: None, model: Model, effort: Effort, heard: list[str]) -> None:
    with pytest.raises(UsageError, match="--who"):
        inference("tiny", model, asked(effort, who=("timm",)), heard.append)


@pytest.mark.parametrize("wrong", [{"batch": 0}, {"precisions": ("float16",)}, {"hows": ("fast",)}])
def test_wrong_settings_are_refused(effort: Effort, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        asked(effort, **wrong)


@pytest.mark.gpu
def test_a_gpu_tells_memory_and_plays_graphs(timm: ModuleType, model: Model, effort: Effort, heard: list[str]) -> None:
    every = asked(effort, device=torch.device("cuda"), hows=("eager", "eager graphs"), precisions=("bf16",))
    ours, eager, played = inference("tiny", model, every, heard.append).rows
    assert ours.memory is not None
    assert ours.memory > 0
    assert eager.memory is not None
    assert played.how == "eager graphs"
