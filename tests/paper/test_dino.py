"""The numbers of DINO (Caron et al., 2021), written out again, against its recipes."""

import pytest

from patchwords.data.augment.byol import Byol
from patchwords.data.glimpses import Glimpses
from patchwords.data.transforms import RandomCrop
from patchwords.objectives.dino import Dino
from patchwords.training.optimizer import scaled
from patchwords.training.recipe import read


@pytest.mark.parametrize(("name", "model"), [("dino/s16", "ViT-S/16"), ("dino/b16", "ViT-B/16")])
def test_the_recipes_have_the_papers_numbers(name: str, model: str) -> None:
    recipe = read(name)
    rate = scaled(recipe.optimizer, 1024)
    assert (recipe.model, recipe.batch, recipe.duration) == (model, 1024, "100 epochs")
    assert rate == pytest.approx(5e-4 * 1024 / 256)
    assert rate * recipe.schedule.floor == pytest.approx(1e-6)
    assert (recipe.schedule.warmup, recipe.optimizer.decay, recipe.clip) == ("10 epochs", 0.04, 3.0)
    assert recipe.parts["stochastic_depth"] == 0.1
    assert recipe.objective == Dino(
        outputs=65536, hidden=2048, bottleneck=256, temperature=0.1, teacher_temperature=0.04, first_temperature=0.04,
        centre=0.9, momentum=0.996, held=1 / 100,
    )  # fmt: skip
    assert recipe.data.crop == RandomCrop(scale=(0.4, 1.0))
    assert recipe.data.glimpses == Glimpses(large=1, small=8, scale=(0.05, 0.4), size=(96, 96))
    assert recipe.data.augment.policy == Byol()
    assert recipe.best == "last"
