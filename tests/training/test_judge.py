"""How a run is judged: by all validation pictures, each counted once, however many are seen together."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchwords.data.broken import Broken
from patchwords.data.cache import hold
from patchwords.data.loader import Loading
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data
from patchwords.data.transforms import normalise
from patchwords.errors import DataError, NonFiniteError
from patchwords.models.vit import ViTConfig
from patchwords.objectives.mae import MAE
from patchwords.objectives.objective import Batch, Numbers, Objective
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.training import feed
from patchwords.training.average import Average
from patchwords.training.distributed import World
from patchwords.training.judge import ByAnswers, ByLoss, Judge
from patchwords.training.recipe import DataRecipe, Recipe
from patchwords.training.signals import Wish
from patchwords.weights.card import Card

CPU = torch.device("cpu")
COUNT = 11
CONFIG = ViTConfig(depth=1, width=16, mlp=16, heads=2, patch=(4, 4), image=(8, 8), classes=0, channels=1, dropout=0.5)
GREY = Preprocess(size=(8, 8), mean=(0.4,), deviation=(0.3,))
RECIPE = Recipe(objective=MAE(), best="last", seed=5, data=DataRecipe(workers=0))


@pytest.fixture(autouse=True)
def four_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the last batch is a part of one."""
    monkeypatch.setattr(feed, "EVALUATED", 4)


@pytest.fixture
def objective(randomised: Callable[[nn.Module], nn.Module]) -> Objective:
    torch.manual_seed(3)
    model = randomised(CONFIG.build())
    return MAE(ratio=0.5, width=16, depth=1, heads=2).build(model)  # type: ignore[arg-type]


def data(broken: Collection[int] = ()) -> Data:
    pixels = np.random.default_rng(1).integers(0, 256, (COUNT, 8, 8, 1), dtype=np.uint8)
    source = Torn(pixels, np.arange(COUNT) % 3, "val")
    source.broken = broken
    return Data("squares", ("a", "b", "c"), source, source, channels=1)


class Torn(Arrays):
    """Pictures of which some cannot be read."""

    broken: Collection[int] = ()

    def picture(self, index: int) -> Any:
        return b"no picture" if index in self.broken else super().picture(index)


def judge(kind: type[Judge], objective: Objective, **changes: Any) -> Judge:
    given = {
        "recipe": RECIPE,
        "data": data(),
        "world": World(0, 1, CPU),
        "wish": Wish(),
        "average": None,
        "cache": None,
    }
    broken = Broken(1.0, COUNT, lambda note: None)
    card = Card(model=objective.model.config, preprocess=GREY)
    return kind(**given | {"broken": broken, "objective": objective, "card": card} | changes)


def by_hand(objective: Objective, pictures: int = COUNT) -> float:
    """The mean over the first pictures of the loss of each one alone, in evaluation."""
    source = data().val
    images = torch.from_numpy(np.stack([source.picture(index) for index in range(COUNT)])).permute(0, 3, 1, 2)
    objective.eval()
    losses = []
    for index in range(pictures):
        drawn = objective.drawn(RECIPE.seed, np.zeros(1, dtype=np.int64), np.array([index]))
        batch = {name: torch.from_numpy(rows) for name, rows in drawn.items()}
        with torch.no_grad():
            loss, _ = objective({"image": normalise(images[index : index + 1], GREY)} | batch)
        losses.append(float(loss))
    return float(np.mean(losses))


def kept(pictures: Data) -> Any:
    broken = Broken(0.0, COUNT, lambda note: None)
    return hold(pictures.val, None, GREY, 1, CPU, Loading(workers=0), broken, lambda done, total: None)


@dataclass(frozen=True)
class Gathering(World):
    """One of several processes, whose others give these."""

    others: tuple[Any, ...] = ()
    asked: int = 0

    def most(self, number: int) -> int:
        return max(number, self.asked)

    def gathered(self, value: Any) -> list[Any]:
        return [*self.others, value]


@pytest.mark.parametrize("cached", [False, True])
def test_the_loss_is_the_mean_over_all_pictures(objective: Objective, cached: bool) -> None:
    found = judge(ByLoss, objective, cache=kept(data()) if cached else None).result()
    assert found
    assert found.numbers == {"loss": pytest.approx(by_hand(objective), rel=1e-5)}
    assert not found.answers


@pytest.mark.parametrize("size", [2, 3, 13])
def test_several_processes_find_what_one_finds(objective: Objective, size: int) -> None:
    """In the last case two have no picture at all."""
    ranks = range(size)
    judges = [judge(ByLoss, objective, world=World(rank, size, CPU)) for rank in ranks]
    sums = [each._sums("val") for each in judges]  # type: ignore[attr-defined]
    assert [count for _, count in sums] == [len(range(rank, COUNT, size)) for rank in ranks]
    last = Gathering(size - 1, size, CPU, others=tuple(sums[:-1]))
    found = judge(ByLoss, objective, world=last).result()
    assert found
    assert found.numbers == {"loss": pytest.approx(by_hand(objective), rel=1e-5)}


def test_the_same_model_is_judged_the_same_twice_and_nothing_is_learned(objective: Objective) -> None:
    before = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    one, two = (judge(ByLoss, objective)() for _ in range(2))
    assert one == two
    assert all(torch.equal(before[name], tensor) for name, tensor in objective.state_dict().items())
    assert all(each.grad is None for each in objective.parameters())


def test_the_average_is_judged_where_there_is_one_and_taken_out_again(objective: Objective) -> None:
    average = Average(objective.model, 0.9)
    wanted = by_hand(objective)
    with torch.no_grad():
        for parameter in objective.model.parameters():
            parameter += 0.3
    trained = by_hand(objective)
    assert trained != pytest.approx(wanted, rel=1e-3)
    assert judge(ByLoss, objective, average=average)() == {"loss": pytest.approx(wanted, rel=1e-5)}
    assert by_hand(objective) == trained


def test_a_loss_that_is_not_finite_is_an_error(objective: Objective) -> None:
    with torch.no_grad():
        objective.model.get_parameter("embed.patch.weight").fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="the loss of the validation pictures is not finite any more: lower"):
        judge(ByLoss, objective)()


@pytest.mark.parametrize("kind", [ByLoss, ByAnswers])
def test_asked_to_stop_there_is_no_result(kind: type[Judge], objective: Objective) -> None:
    wish = Wish()
    wish.hear(15, None)
    assert judge(kind, objective, wish=wish)() is None
    assert judge(kind, objective, world=Gathering(0, 2, CPU, asked=15))() is None  # another process was


def test_a_batch_of_which_nothing_can_be_read_does_not_count(objective: Objective) -> None:
    found = judge(ByLoss, objective, data=data(broken=(8, 9, 10))).result()
    assert found
    assert found.numbers == {"loss": pytest.approx(by_hand(objective, pictures=8), rel=1e-5)}
    with pytest.raises(DataError, match="not one picture of val could be read"):
        judge(ByLoss, objective, data=data(broken=range(COUNT))).result()


class Counting(Objective):
    """Logs beside the loss what is no mean of a picture's own: how many there were."""

    needs = ("image", "target")

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        size = torch.tensor(float(batch["image"].shape[0]))
        return batch["target"].sum(0)[1] / size, {"seen_together": size}


def test_numbers_are_weighted_by_the_pictures_of_their_batch() -> None:
    """Batches of 4, 4 and 3 pictures, of which 4 in all are of the second class."""
    found = judge(ByLoss, Counting(CONFIG.build())).result()
    assert found
    assert found.numbers == {
        "loss": pytest.approx(4 / COUNT),
        "seen_together": pytest.approx((4 * 4 + 4 * 4 + 3 * 3) / COUNT),
    }


def test_with_labels_the_models_answers_are_scored(randomised: Callable[[nn.Module], nn.Module]) -> None:
    model: Any = randomised(replace(CONFIG, classes=3).build())
    found = judge(ByAnswers, Classification(model, Supervised())).result()
    assert found
    assert found.scores
    assert found.numbers == found.scores.numbers()
    right = found.answers["logits"].argmax(1) == found.answers["labels"]
    assert found.scores.accuracy == pytest.approx(right.mean())
    assert found.answers["indices"].tolist() == list(range(COUNT))
