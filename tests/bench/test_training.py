"""Training: the same start, the same first loss, then everybody's steps."""

from types import ModuleType

import pytest
import torch

from patchwords.bench.measure import Effort
from patchwords.bench.row import Row
from patchwords.bench.training import Asked, _weighed, training
from patchwords.errors import ModelError
from patchwords.models.build import build
from patchwords.models.model import Model

CPU = torch.device("cpu")


def asked(effort: Effort, **given: object) -> Asked:
    usual: dict[str, object] = {"batch": 4, "device": CPU, "precisions": ("float32",), "who": ("ours", "timm")}
    return Asked(**usual | {"effort": effort} | given)


def test_both_begin_with_the_same_loss(
    timm: ModuleType, uncompiled: object, model: Model, effort: Effort, heard: list[str]
) -> None:
    ours, theirs = training("tiny", model, asked(effort, hows=("eager", "compiled")), heard.append).rows[:2]
    assert theirs.named == "timm eager"
    assert ours.further["loss"] == pytest.approx(theirs.further["loss"], rel=1e-5)
    assert ours.ratios.keys() == {"timm eager float32", "timm compiled float32"}


def test_several_precisions_are_measured_in_turns_and_each_beside_its_own(
    timm: ModuleType, model: Model, effort: Effort, heard: list[str]
) -> None:
    asking = asked(effort, precisions=("float32", "bf16"), hows=("eager",))
    rows = training("tiny", model, asking, heard.append).rows
    assert [(row.who, row.precision) for row in rows] == [
        ("ours", "float32"),
        ("ours", "bf16"),
        ("timm", "float32"),
        ("timm", "bf16"),
    ]
    assert rows[0].further["loss"] != rows[1].further["loss"]  # it was rounded
    assert rows[0].further["loss"] == pytest.approx(rows[1].further["loss"], rel=0.02)
    assert any(said.startswith("ours bf16: ready after") for said in heard)


def test_a_model_without_classes_is_refused(effort: Effort, heard: list[str]) -> None:
    with pytest.raises(ModelError, match="tiny has no classes to learn"):
        training("tiny", build("ViT-Mu/8", image=16, classes=0), asked(effort, who=("ours",)), heard.append)


def test_every_call_is_a_step(model: Model, effort: Effort, heard: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    plain = torch.optim.AdamW.step
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: (steps.append(1), plain(self))[1])
    training("tiny", model, asked(effort, who=("ours",)), heard.append)
    assert len(steps) >= 6


def test_the_model_is_left_as_it_is(timm: ModuleType, model: Model, effort: Effort, heard: list[str]) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    training("tiny", model, asked(effort, hows=("eager",)), heard.append)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_peer_that_learns_something_else_is_not_measured(
    timm: ModuleType, model: Model, effort: Effort, heard: list[str]
) -> None:
    class Spoilt(timm.VisionTransformer):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images) * (100.0 if self.training else 1.0)

    timm.VisionTransformer = Spoilt
    (ours,) = training("tiny", model, asked(effort, hows=("eager",)), heard.append).rows
    assert ours.who == "ours"
    assert "learns something else" in heard[-1]


def test_who_has_no_eight_bits_is_measured_in_sixteen(
    timm: ModuleType, model: Model, effort: Effort, heard: list[str]
) -> None:
    asking = asked(effort, precisions=("fp8", "bf16"), who=("timm",), hows=("eager",))
    (theirs,) = training("tiny", model, asking, heard.append).rows
    assert theirs.precision == "bf16"


def test_memory_is_weighed_against_the_least_of_the_others() -> None:
    def made(who: str, memory: int | None) -> Row:
        sizes = {"batch": 1, "image": (8, 8), "images_per_second": 1.0, "milliseconds": 1.0}
        return Row(bench="training", model="", who=who, how="", precision="bf16", memory=memory, **sizes)

    ours, *_ = _weighed([made("ours", 60), made("timm", 80), made("torchvision", 100)])
    assert ours.further["memory"] == 0.75
    assert _weighed([made("ours", None), made("timm", None)])[0].further == {}
