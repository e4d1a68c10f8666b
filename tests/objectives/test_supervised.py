"""Learning from labels: the losses of the papers, and gradients for every parameter."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords import settings
from patchwords.errors import UsageError
from patchwords.models.names import Config
from patchwords.objectives.objective import Objective
from patchwords.objectives.supervised import Classification, Supervised, cross_entropy

Randomised = Callable[[nn.Module], nn.Module]

LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.0, 0.0, 0.0], [1.0, 3.0, -2.0], [-1.0, 0.3, 0.2]])
LABELS = torch.tensor([0, 2, 1, 1])
HARD = F.one_hot(LABELS, 3).float()
SOFT = torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.5, 0.5], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])


def test_softmax_is_the_mean_of_minus_the_log_probability_of_the_label() -> None:
    by_hand = [-math.log(math.exp(row[label]) / sum(map(math.exp, row)))
               for row, label in zip(LOGITS.tolist(), LABELS.tolist(), strict=True)]  # fmt: skip
    assert float(cross_entropy(LOGITS, HARD, Supervised())) == pytest.approx(sum(by_hand) / 4, rel=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_smoothing_is_torchs_label_smoothing(smoothing: float) -> None:
    found = cross_entropy(LOGITS, HARD, Supervised(smoothing=smoothing))
    torch.testing.assert_close(found, F.cross_entropy(LOGITS, LABELS, label_smoothing=smoothing))


def test_soft_targets_weigh_their_classes() -> None:
    by_hand = -(SOFT * LOGITS.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(cross_entropy(LOGITS, SOFT, Supervised()), by_hand)


@pytest.mark.parametrize("target", [HARD, SOFT], ids=["hard", "soft"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_sigmoids_are_summed_over_the_classes_and_averaged_over_the_batch(target: Tensor, smoothing: float) -> None:
    spread = target * (1 - smoothing) + smoothing / 3
    by_hand = -(spread * LOGITS.sigmoid().log() + (1 - spread) * (1 - LOGITS.sigmoid()).log()).sum(1).mean()
    torch.testing.assert_close(cross_entropy(LOGITS, target, Supervised(loss="sigmoid", smoothing=smoothing)), by_hand)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_large_logits_stay_finite(loss: str) -> None:
    found = cross_entropy(1e4 * LOGITS, HARD, settings.read({"loss": loss}, Supervised))
    assert found.isfinite()


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_the_loss_is_a_mean_over_the_batch(loss: str) -> None:
    chosen = settings.read({"loss": loss}, Supervised)
    pieces = [cross_entropy(LOGITS[row : row + 1], HARD[row : row + 1], chosen) for row in range(4)]
    torch.testing.assert_close(cross_entropy(LOGITS, HARD, chosen), torch.stack(pieces).mean())


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, math.nan])
def test_smoothing_is_a_share_below_one(smoothing: float) -> None:
    with pytest.raises(UsageError, match="is no share"):
        Supervised(smoothing=smoothing)


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(UsageError, match="'softmx' is not one of softmax, sigmoid; did you mean softmax"):
        Supervised(loss="softmx")  # type: ignore[arg-type]


class Given(nn.Module):
    """Answers with these logits."""

    def forward(self, images: Tensor) -> Tensor:
        return LOGITS


def test_accuracy_is_the_share_of_right_answers_and_a_soft_target_means_its_largest_class() -> None:
    objective = Classification(Given(), Supervised())  # type: ignore[arg-type]
    for target, right in ((HARD, 0.75), (SOFT, 0.25)):
        loss, numbers = objective({"image": torch.zeros(4), "target": target})
        assert numbers.keys() == {"accuracy"}
        assert float(numbers["accuracy"]) == right
        torch.testing.assert_close(loss, cross_entropy(LOGITS, target, Supervised()))


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("small_config", ["plain", "mlp head", "map", "hybrid", "resnet pre"], indirect=True)
def test_every_trainable_parameter_receives_a_gradient(small_config: Config, loss: str, randomised: Randomised) -> None:
    learned = settings.read({"loss": loss, "smoothing": 0.1}, Supervised)
    objective = Classification(randomised(small_config.build()), learned)
    images = torch.rand(4, small_config.channels, *small_config.image)
    target = F.one_hot(torch.arange(4), small_config.classes).float()
    value, _ = objective({"image": images, "target": target})
    value.backward()
    missing = [name for name, each in objective.named_parameters() if each.grad is None or not each.grad.any()]
    assert missing == []


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_the_objective_owns_the_model_and_nothing_else(small_config: Config) -> None:
    model = small_config.build()
    objective = Classification(model, Supervised())
    assert isinstance(objective, Objective)
    assert objective.model is model
    assert objective.needs == ("image", "target")
    assert {name.removeprefix("model.") for name in objective.state_dict()} == set(model.state_dict())
    before = {name: each.clone() for name, each in objective.state_dict().items()}
    objective.after_step(0.5)
    assert all(torch.equal(each, before[name]) for name, each in objective.state_dict().items())


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_the_loss_is_computed_in_float32_whatever_the_model_answers_in(small_config: Config) -> None:
    objective = Classification(small_config.build().bfloat16(), Supervised())
    batch = {"image": torch.rand(4, 3, *small_config.image).bfloat16(), "target": torch.eye(5)[:4]}
    assert objective(batch)[0].dtype == torch.float32


def test_a_mixed_picture_may_be_wholly_of_each_of_its_classes() -> None:
    """DeiT III."""
    both = cross_entropy(LOGITS, SOFT, Supervised(loss="sigmoid", mixed="whole"))
    torch.testing.assert_close(both, cross_entropy(LOGITS, (SOFT > 0).float(), Supervised(loss="sigmoid")))


def test_a_softmax_is_of_one_class() -> None:
    with pytest.raises(UsageError, match="use loss sigmoid"):
        Supervised(mixed="whole")
