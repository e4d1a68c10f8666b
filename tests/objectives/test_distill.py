"""DeiT's distillation: the formulas by hand, a teacher that nothing touches, and answers that are kept."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords import settings
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import build
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.objectives.distill import Distill, hard, soft
from patchwords.objectives.guide import shown
from patchwords.objectives.objective import Batch, Guide, Surroundings
from patchwords.objectives.supervised import Supervised, cross_entropy
from patchwords.objectives.teacher import Asked

Randomised = Callable[[nn.Module], nn.Module]

CLASSES = ("ant", "bee", "cat", "dog", "elk")
STUDENT = ViTConfig(depth=1, width=32, mlp=48, heads=2, patch=(8, 8), image=(16, 16), classes=5)
TOKEN = settings.change(
    STUDENT, {"special": ["class", "distillation"], "pool.kind": "distilled", "head.kind": "distilled"}
)
TEACHER = replace(STUDENT, image=(24, 16), dropout=0.2)
OURS = Preprocess(size=(16, 16))
THEIRS = Preprocess(size=(24, 16), mean=IMAGENET.mean, deviation=IMAGENET.deviation)

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.1, 0.0], [1.0, 3.0, -2.0], [-1.0, 0.3, 0.2]])
TAUGHT = torch.tensor([[1.0, 1.5, -0.5], [2.0, 0.0, 0.0], [0.0, 4.0, 1.0], [0.2, 0.1, 0.0]])


@pytest.fixture
def guide(randomised: Randomised) -> Guide:
    torch.manual_seed(3)
    model = randomised(build(TEACHER))
    return Guide(model.eval().requires_grad_(False), THEIRS, CLASSES)


def around(guide: Guide, answers: NDArray[Any] | None = None, classes: tuple[str, ...] = CLASSES) -> Surroundings:
    def kept(_: Guide) -> NDArray[Any]:
        assert answers is not None
        return answers

    return Surroundings(preprocess=OURS, classes=classes, open=lambda name: guide, answers=kept)


def batch(count: int = 6) -> Batch:
    generator = torch.Generator().manual_seed(5)
    target = torch.rand(count, 5, generator=generator)
    return {"image": torch.randn(count, 3, 16, 16, generator=generator), "target": target / target.sum(1, keepdim=True)}


def student(randomised: Randomised, config: Config = TOKEN) -> Model:
    torch.manual_seed(4)
    model = randomised(build(config))
    assert isinstance(model, Model)
    return model


def softmax(row: list[float], temperature: float) -> list[float]:
    powers = [math.exp(number / temperature) for number in row]
    return [power / sum(powers) for power in powers]


def test_hard_is_cross_entropy_with_the_teachers_first_choice() -> None:
    chosen = [1, 0, 1, 0]
    by_hand = [-math.log(softmax(row, 1.0)[label]) for row, label in zip(LOGITS.tolist(), chosen, strict=True)]
    assert float(hard(LOGITS, TAUGHT, 3.0)) == pytest.approx(sum(by_hand) / 4, rel=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_soft_is_the_divergence_of_the_softened_probabilities(temperature: float) -> None:
    total = 0.0
    for said, taught in zip(LOGITS.tolist(), TAUGHT.tolist(), strict=True):
        p, q = softmax(taught, temperature), softmax(said, temperature)
        total += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    assert float(soft(LOGITS, TAUGHT, temperature)) == pytest.approx(temperature**2 * total / 4, rel=1e-5)


def test_soft_divided_by_the_classes_is_what_the_official_code_has() -> None:
    official = F.kl_div(
        F.log_softmax(LOGITS / 2, 1), F.log_softmax(TAUGHT / 2, 1), reduction="sum", log_target=True
    ) * (4 / LOGITS.numel())
    torch.testing.assert_close(soft(LOGITS, TAUGHT, 2.0) / 3, official)


@pytest.mark.parametrize("how", ["hard", "soft"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_labels_go_to_one_head_and_the_teacher_to_the_other(
    how: str, alpha: float, guide: Guide, randomised: Randomised
) -> None:
    model, given = student(randomised), batch()
    chosen = settings.read({"teacher": "t", "how": how, "alpha": alpha, "smoothing": 0.1, "temperature": 2.0}, Distill)
    loss, numbers = chosen.build(model, around(guide))(given)
    by_label, by_teacher = model.pair(given["image"])
    taught = guide.model(shown(given["image"], OURS, THEIRS))
    labels = cross_entropy(by_label, given["target"], Supervised(smoothing=0.1))
    from_teacher = {"hard": hard, "soft": soft}[how](by_teacher, taught, 2.0)
    torch.testing.assert_close(loss, (1 - alpha) * labels + alpha * from_teacher)
    right = model(given["image"]).argmax(1) == given["target"].argmax(1)
    assert float(numbers["accuracy"]) == pytest.approx(float(right.float().mean()))
    assert float(numbers["agreement"]) == pytest.approx(
        float((by_teacher.argmax(1) == taught.argmax(1)).float().mean())
    )


@pytest.mark.parametrize("small_config", ["plain", "resnet pre", "mean"], indirect=True)
def test_a_model_without_that_token_learns_both_with_its_one_head(
    small_config: Config, guide: Guide, randomised: Randomised
) -> None:
    model, given = student(randomised, replace(small_config, image=(32, 32))), batch()
    given["image"] = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    wide = replace(around(guide), preprocess=Preprocess(size=(32, 32)))
    loss, _ = Distill(teacher="t").build(model, wide)(given)
    logits, taught = model(given["image"]), guide.model(shown(given["image"], wide.preprocess, THEIRS))
    by_hand = 0.5 * F.cross_entropy(logits, given["target"]) + 0.5 * F.cross_entropy(logits, taught.argmax(1))
    torch.testing.assert_close(loss, by_hand)


def test_the_loss_is_a_mean_over_the_pieces(guide: Guide, randomised: Randomised) -> None:
    objective, given = Distill(teacher="t", how="soft").build(student(randomised), around(guide)), batch()
    pieces = [objective({key: value[part] for key, value in given.items()})[0] for part in (slice(3), slice(3, 6))]
    torch.testing.assert_close(objective(given)[0], sum(pieces) / 2)


def test_every_parameter_of_the_student_gets_a_gradient_and_the_teacher_none(
    guide: Guide, randomised: Randomised
) -> None:
    before = {name: tensor.clone() for name, tensor in guide.model.state_dict().items()}
    objective = Distill(teacher="t").build(student(randomised), around(guide)).train()
    objective(batch())[0].backward()
    assert [name for name, parameter in objective.named_parameters() if not parameter.grad.any()] == []
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in guide.model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in guide.model.state_dict().items())


def test_the_teacher_is_neither_trained_nor_saved_and_always_sure(guide: Guide, randomised: Randomised) -> None:
    objective = Distill(teacher="t").build(student(randomised), around(guide)).train()
    assert objective.training
    assert not any(module.training for module in guide.model.modules())
    assert set(objective.state_dict()) == {f"model.{name}" for name in objective.model.state_dict()}
    assert {name for name, _ in objective.named_parameters()} == set(objective.state_dict())
    assert torch.equal(objective.teacher(batch()), objective.teacher(batch()))  # its dropout is off


def test_the_teacher_follows_the_student(guide: Guide, randomised: Randomised) -> None:
    objective = Distill(teacher="t").build(student(randomised), around(guide))
    assert objective.to("meta").model.config == TOKEN
    assert {parameter.device.type for parameter in guide.model.parameters()} == {"meta"}
    assert isinstance(objective.teacher, Asked)
    assert objective.teacher.outputs.device.type == "meta"


def test_classes_in_another_order_are_matched_by_name(guide: Guide, randomised: Randomised) -> None:
    turned = tuple(reversed(CLASSES))
    plain = Distill(teacher="t").build(student(randomised), around(guide))
    other = Distill(teacher="t").build(student(randomised), around(guide, classes=turned))
    assert torch.equal(other.teacher(batch()), plain.teacher(batch()).flip(1))


def test_a_teacher_without_names_is_taken_in_the_order_of_the_data(guide: Guide, randomised: Randomised) -> None:
    named = Distill(teacher="t").build(student(randomised), around(guide))
    unnamed = Distill(teacher="t").build(student(randomised), around(guide._replace(classes=())))
    assert torch.equal(unnamed.teacher(batch()), named.teacher(batch()))


def test_a_teacher_of_other_classes_is_refused(guide: Guide, randomised: Randomised) -> None:
    with pytest.raises(ModelError, match="teacher runs/a knows 5 classes, and the data has 4"):
        Distill(teacher="runs/a").build(student(randomised), around(guide, classes=CLASSES[:4]))
    with pytest.raises(ModelError, match="does not know fox; it knows ant, bee, cat and 2 more"):
        Distill(teacher="runs/a").build(student(randomised), around(guide, classes=(*CLASSES[:4], "fox")))


def test_a_teacher_without_classes_is_refused_even_if_it_ends_with_as_many_numbers(randomised: Randomised) -> None:
    guide = Guide(build(replace(TEACHER, classes=0, width=len(CLASSES) * 4, heads=4)), THEIRS)
    wide = tuple(f"class {number}" for number in range(len(CLASSES) * 4))
    with pytest.raises(
        ModelError, match="teacher runs/a has learned no classes: take one that was trained with labels"
    ):
        Distill(teacher="runs/a").build(student(randomised), around(guide, classes=wide))


def test_a_teacher_of_other_channels_is_refused_before_training(randomised: Randomised) -> None:
    two = replace(THEIRS, mean=(0.5,) * 2, deviation=(0.5,) * 2)
    guide = Guide(build(replace(TEACHER, channels=2)), two, CLASSES)
    with pytest.raises(UsageError, match="of 3 channels cannot be shown to a model that takes 2"):
        Distill(teacher="t").build(student(randomised), around(guide))


@pytest.mark.parametrize("how", ["hard", "soft"])
def test_kept_answers_give_the_loss_that_the_live_teacher_gives(how: str, guide: Guide, randomised: Randomised) -> None:
    turned, given = (*CLASSES[2:], *CLASSES[:2]), batch()
    kept = np.zeros((20, 5), dtype=np.float32)
    indices = np.array([7, 3, 19, 0, 3, 4])
    given["image"][4] = given["image"][1]  # it is the same picture
    kept[indices] = guide.model(shown(given["image"], OURS, THEIRS)).numpy()
    chosen = settings.read({"teacher": "t", "how": how}, Distill)
    live = chosen.build(student(randomised), around(guide, classes=turned))
    cached = replace(chosen, cache=True).build(student(randomised), around(guide, kept, turned))
    assert (live.needs, cached.needs) == (("image", "target"), ("image", "target", "taught"))
    assert live.drawn(0, np.zeros(6), indices) == {}
    drawn = cached.drawn(0, np.zeros(6), indices)
    assert drawn.keys() == {"taught"}
    looked_up: Tensor = cached({**given, "taught": torch.from_numpy(drawn["taught"])})[0]
    torch.testing.assert_close(looked_up, live(given)[0], rtol=1e-6, atol=1e-6)


def test_it_compiles_whole_and_gives_the_same(guide: Guide, randomised: Randomised) -> None:
    objective, given = Distill(teacher="t", how="soft").build(student(randomised), around(guide)), batch()
    plain = objective(given)[0]
    graph = torch.compile(objective, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(graph(given)[0], plain)


def test_losses_are_computed_in_full_precision_under_autocast(guide: Guide, randomised: Randomised) -> None:
    objective, given = Distill(teacher="t", how="soft").build(student(randomised), around(guide)), batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss, numbers = objective(given)
    assert loss.dtype == numbers["agreement"].dtype == torch.float32
    torch.testing.assert_close(loss, objective(given)[0], rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"alpha": 1.5}, "alpha 1.5 is no share of the loss"),
        ({"temperature": 0.0}, "temperature 0.0 is not above 0"),
        ({"smoothing": 1.0}, "smoothing 1.0 is no share"),
        ({"how": "warm"}, "how: 'warm' is not one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        settings.read(changes, Distill)


def test_a_teacher_must_be_named(guide: Guide, randomised: Randomised) -> None:
    with pytest.raises(UsageError, match=r"set objective\.teacher"):
        Distill().build(student(randomised), around(guide))


def test_the_student_has_the_classes_of_the_data() -> None:
    assert Distill().classes(7) == 7
