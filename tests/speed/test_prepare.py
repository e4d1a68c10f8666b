"""What is done to a module from outside leaves its names and values alone."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.unit import Unit
from patchwords.models.names import Config
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.speed import prepare as prepare_module
from patchwords.speed.kernels.available import chosen
from patchwords.speed.precision import Precision
from patchwords.speed.prepare import prepare, ready
from patchwords.speed.recompute import Recompute

CPU = torch.device("cpu")
both = pytest.mark.parametrize("small_config", ["plain", "hybrid"], indirect=True)


@pytest.fixture(autouse=True)
def plain_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the generation of code, which needs a C compiler and minutes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))


@pytest.fixture
def objective(small_config: Config) -> Classification:
    return Classification(small_config.build(), Supervised())


def prepared(objective: Classification, *, recomputed: bool, compiled: bool) -> list[str]:
    notes: list[str] = []
    prepare(
        objective,
        kernels="auto",
        recomputed=recomputed,
        compiled=compiled,
        device=CPU,
        precision="float32",
        note=notes.append,
    )
    return notes


def recomputed_units(objective: nn.Module) -> list[bool]:
    return ["forward" in vars(each) for each in objective.modules() if isinstance(each, Unit)]


def is_compiled(objective: Classification) -> bool:
    return objective._compiled_call_impl is not None


@both
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_each_is_done_where_it_is_asked_for_and_nowhere_else(
    objective: Classification, again: bool, compiled: bool
) -> None:
    assert prepared(objective, recomputed=again, compiled=compiled) == []  # a CPU has no other kernels to speak of
    assert all(recomputed_units(objective)) if again else not any(recomputed_units(objective))
    assert is_compiled(objective) == compiled
    assert not any(each._compiled_call_impl is not None for each in objective.model.modules())  # one graph, not many


@pytest.mark.parametrize(
    ("there", "least", "precision", "said"),
    [
        (True, 1, "float32", True),
        (False, 1, "float32", False),
        (True, 10**9, "float32", False),
        (True, 1, "bf16", False),
    ],
)
@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_a_processor_with_bf16_is_told_where_it_pays(
    small_config: Config, monkeypatch: pytest.MonkeyPatch, there: bool, least: int, precision: Precision, said: bool
) -> None:
    """Not for a model of few parameters, which learns faster without."""
    monkeypatch.setattr(prepare_module, "has_bf16", lambda: there)
    monkeypatch.setattr(prepare_module, "MANY", least)
    notes: list[str] = []
    given: dict[str, Any] = {"kernels": "auto", "recomputed": False, "compiled": False}
    prepare(small_config.build(), device=CPU, precision=precision, note=notes.append, **given)
    assert any("set precision to bf16" in note for note in notes) == said


@both
def test_names_values_and_modes_stay(objective: Classification) -> None:
    before = {name: each.clone() for name, each in objective.state_dict().items()}
    prepared(objective, recomputed=True, compiled=True)
    after = objective.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert objective.training


@both
def test_the_compiler_sees_the_recomputation(objective: Classification, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[bool]] = []
    monkeypatch.setattr(Classification, "compile", lambda self: seen.append(recomputed_units(self)))
    prepared(objective, recomputed=True, compiled=True)
    assert len(seen) == 1
    assert all(seen[0])


@both
def test_the_loss_is_the_same_when_units_run_again(objective: Classification, small_config: Config) -> None:
    batch = {"image": torch.rand(2, 3, *small_config.image), "target": torch.eye(5)[:2]}
    before, _ = objective(batch)
    prepared(objective, recomputed=True, compiled=False)
    after, _ = objective(batch)
    assert torch.equal(before, after)
    after.backward()
    assert all(each.grad is not None for each in objective.parameters())


@both
def test_a_model_that_is_made_ready_answers_as_before_and_stays_as_it_is(small_config: Config) -> None:
    model = small_config.build()
    answer = ready(model, device=CPU, precision="float32")
    images = torch.randn(3, 3, *small_config.image)
    assert model.training
    assert not any("forward" in vars(each) for each in model.modules())
    with torch.no_grad():
        torch.testing.assert_close(answer(images), model.eval()(images), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("device", "precision", "compiled", "reason"),
    [
        ("cpu", "bf16", False, "the device is cpu"),
        ("cuda", "float32", False, "the precision is float32"),
        ("cuda", "bf16", True, "compile makes its own"),
    ],
)
def test_kernels_that_cannot_be_used_are_refused_or_left_with_the_reason(
    device: str, precision: str, compiled: bool, reason: str
) -> None:
    found, sentence = chosen("auto", torch.device(device), precision, compiled=compiled)
    assert found is None
    assert reason in sentence
    with pytest.raises(UsageError, match=reason):
        chosen("fused", torch.device(device), precision, compiled=compiled)


@pytest.fixture
def hopper(monkeypatch: pytest.MonkeyPatch) -> torch.device:
    """A GPU with eight bits, as far as one is asked before it has something to do."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(prepare_module, "missing", lambda: "")
    return torch.device("cuda")


def in_eight(model: nn.Module, device: torch.device, **given: Any) -> str:
    """What is said of a model that is to learn in eight bits."""
    notes: list[str] = []
    usual: dict[str, Any] = {"kernels": "auto", "recomputed": False, "compiled": False, "precision": "fp8"}
    prepare(model, device=device, note=notes.append, **usual | given)
    (sentence,) = notes
    return sentence


@pytest.mark.parametrize("small_config", ["plain", "mean, norm after", "lite"], indirect=True)
def test_the_note_says_how_many_blocks_are_in_eight_bits(small_config: Config, hopper: torch.device) -> None:
    said = "kernels: fused in 2 of 2 blocks"
    assert in_eight(small_config.build(), hopper) == f"{said}, products in eight bits in 1"
    assert in_eight(small_config.build(), hopper, recomputed=True) == f"{said}, products in eight bits in 1"
    assert in_eight(small_config.build(), hopper, precision="bf16") == said


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
@pytest.mark.parametrize(("again", "what"), [("norms", "norms"), ("hidden", "norms and hidden layers")])
def test_the_note_says_what_is_made_again(
    small_config: Config, hopper: torch.device, again: Recompute, what: str
) -> None:
    model, said = small_config.build(), "kernels: fused in 2 of 2 blocks"
    assert in_eight(model, hopper, precision="bf16", recomputed=again) == f"{said}, {what} made again"
    assert recomputed_units(model) == [True, True]  # fused, and not run again whole
    assert not any(isinstance(each.forward, partial) for each in model.modules())
    eight = f"{said}, products in eight bits in 1, {what} made again"
    assert in_eight(small_config.build(), hopper, recomputed=again) == eight


@pytest.mark.parametrize("again", ["norms", "hidden"])
@pytest.mark.parametrize(
    ("small_config", "given"), [("plain", {"kernels": "plain"}), ("regularised", {})], indirect=["small_config"]
)
def test_what_only_fused_blocks_make_again_is_refused_without_them(
    small_config: Config, hopper: torch.device, given: dict[str, Any], again: Recompute
) -> None:
    with pytest.raises(
        UsageError, match=rf'recompute "{again}" is for fused blocks, and there are none .*: set .*true'
    ):
        in_eight(small_config.build(), hopper, precision="bf16", recomputed=again, **given)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_a_library_that_is_missing_is_told(
    small_config: Config, hopper: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_module, "missing", lambda: "it is lost")
    notes: list[str] = []
    given: dict[str, Any] = {"kernels": "auto", "recomputed": False, "compiled": False, "precision": "bf16"}
    prepare(small_config.build(), device=hopper, note=notes.append, **given)
    assert notes == ["kernels: fused in 2 of 2 blocks", "products are made as torch makes them: it is lost"]


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
@pytest.mark.parametrize(
    ("given", "reason"), [({"kernels": "plain"}, "as asked"), ({"compiled": True}, "compile makes its own")]
)
def test_eight_bits_without_fused_kernels_are_refused(
    small_config: Config, hopper: torch.device, given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(
        UsageError, match=f"needs fused kernels, .*{reason}.*: set kernels to auto and compile to false"
    ):
        in_eight(small_config.build(), hopper, **given)


@pytest.mark.parametrize("small_config", ["regularised", "beit", "resnet pre", "swin"], indirect=True)
def test_models_without_a_block_for_eight_bits_are_refused(small_config: Config, hopper: torch.device) -> None:
    with pytest.raises(UsageError, match=r"and this model has none .*: choose bf16"):
        in_eight(small_config.build(), hopper)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_eight_bits_on_a_cpu_are_refused(small_config: Config) -> None:
    with pytest.raises(UsageError, match="the device is cpu: choose bf16 or float32"):
        in_eight(small_config.build(), CPU)


def test_a_machine_without_triton_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.speed.kernels.available.find_spec", lambda name: None)
    assert chosen("auto", torch.device("cuda"), "bf16", compiled=False) == (
        None,
        "kernels: plain (Triton is not installed)",
    )


def test_plain_kernels_are_taken_where_they_are_asked_for() -> None:
    assert chosen("plain", torch.device("cuda"), "bf16", compiled=False) == (None, "kernels: plain (as asked)")
