"""What a study stands on: tables of a grid over each other, and pictures that judge once."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from patchwords import settings
from patchwords.errors import DataError
from patchwords.objectives.masked_patch import MaskedPatch
from patchwords.studies import grid as grids
from patchwords.studies.catalogue import EXPERIMENTS, planned
from patchwords.studies.grid import ONCE, Grid, Member
from patchwords.studies.ground import Ground
from patchwords.studies.shares import portion
from patchwords.training import recipe as recipes
from patchwords.training.optimizer import SGD, Adam

VIT = Member(model="ViT-Digits/2")


def grid(member: Member = VIT, **tables: Any) -> Grid:
    return Grid(recipe="digits", models={"ViT": member}, study={}, **tables)


@pytest.fixture
def learned(stand: Any) -> Any:
    """`learned(member, both={…})` is the recipe of a model that learns from scratch on such a grid."""
    return lambda member=VIT, **tables: stand(grid(member, **tables)).learn({"model": "ViT"}, 0).recipe


def test_the_recipe_of_the_grid_is_beneath_everything(learned: Any) -> None:
    assert learned() == recipes.read("digits", {**ONCE, "seed": 0, "model": "ViT-Digits/2"})


def test_tables_lie_over_each_other_from_all_to_one(stand: Any) -> None:
    member = Member(model="ViT-Digits/2", both={"clip": 4.0}, learn={"batch": 5})
    ground = stand(
        grid(
            member,
            both={"micro": 2, "clip": 2.0, "batch": 2, "average": 0.2, "threads": 2},
            learn={"clip": 3.0, "batch": 3, "average": 0.3, "threads": 3},
        )
    )
    recipe = ground.learn({"model": "ViT"}, 0, {"threads": 6}).recipe
    assert (recipe.micro, recipe.average, recipe.clip, recipe.batch, recipe.threads) == (2, 0.3, 4.0, 5, 6)


def test_learning_has_its_tables_and_fine_tuning_its_own(stand: Any) -> None:
    member = Member(model="ViT-Digits/2", learn={"batch": 5}, tune={"batch": 7})
    ground = stand(grid(member, learn={"duration": "3 steps"}, tune={"duration": "4 steps"}))
    learned, alone = ground.learn({"model": "ViT"}, 0), ground.scratch({"model": "ViT"}, 0)
    tuned = ground.tune(learned)
    assert (learned.recipe.duration, learned.recipe.batch) == ("3 steps", 5)
    assert (tuned.recipe.duration, tuned.recipe.batch) == ("4 steps", 7)
    assert alone.recipe == learned.recipe


def test_tables_within_tables_are_merged_key_by_key(learned: Any) -> None:
    recipe = learned(both={"data": {"workers": 0}}, learn={"data": {"mix": {"cutmix": 1.0}}})
    plain = recipes.read("digits")
    assert recipe.data == replace(plain.data, workers=0, mix=replace(plain.data.mix, cutmix=1.0))


def test_another_kind_starts_afresh(learned: Any) -> None:
    recipe = learned(
        both={"optimizer": {"lr": 0.5, "betas": [0.1, 0.2]}}, learn={"optimizer": {"kind": "sgd", "lr": 0.1}}
    )
    assert recipe.optimizer == SGD(lr=0.1)
    member = Member(model="ViT-Digits/2", learn={"optimizer": {"kind": "adam", "decay": 0.2}})
    recipe = learned(member, learn={"optimizer": {"kind": "sgd", "lr": 0.1, "decay": 0.1}})
    assert recipe.optimizer == Adam(decay=0.2)


def test_the_same_kind_goes_on(learned: Any) -> None:
    recipe = learned(both={"optimizer": {"kind": "sgd", "lr": 0.1}}, learn={"optimizer": {"kind": "sgd", "decay": 0.2}})
    assert recipe.optimizer == SGD(lr=0.1, decay=0.2)


def test_an_empty_table_empties_what_lies_beneath(learned: Any) -> None:
    parts = {"width": 32, "position": {"std": 0.5}}
    assert learned(both={"parts": parts}).parts == parts
    assert learned(Member(model="ViT-Digits/2", both={"parts": {}}), both={"parts": parts}).parts == {}
    emptied = Member(model="ViT-Digits/2", both={"parts": {}}, learn={"parts": {"depth": 1}})
    assert learned(emptied, both={"parts": parts}).parts == {"depth": 1}


def test_the_grids_recipe_is_never_changed_by_a_cell(stand: Any) -> None:
    made = grid(both={"parts": {"width": 32}}, learn={"optimizer": {"kind": "sgd"}})
    before = settings.write(made)
    ground = stand(made)
    ground.tune(ground.learn({"model": "ViT"}, 0, {"parts": {"depth": 1}}), change={"parts.width": 16})
    assert settings.write(made) == before


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("given", grids.names())
def test_every_training_of_every_study_is_judged_once_after_its_last_step(name: str, given: str, stand: Any) -> None:
    read = grids.read(given, name, {})
    for cell in planned(name, read).cells(stand(read), (5,)):
        recipe = cell.recipe
        assert (recipe.evaluate, recipe.best, recipe.patience) == ("100%", "last", 0)
        assert recipe.seed == cell.seed == 5


def test_what_learned_is_judged_by_a_few_pictures_of_the_target_too(stand: Any) -> None:
    ground = stand(grid(shots=3))
    cell = ground.learn({"model": "ViT"}, 4)
    assert (cell.stage, cell.shots, cell.seed) == ("pre-training", 3, 4)
    assert cell.data is ground.first
    assert cell.frozen is ground.target
    assert cell.called == ground.first_from
    assert cell.after is None


def test_fine_tuning_takes_the_files_model_and_gives_it_a_fresh_head(stand: Any) -> None:
    ground = stand(grid(both={"parts": {"head": {"kind": "tanh-mlp", "hidden": 8}}}))
    learned = ground.learn({"model": "ViT"}, 4)
    tuned = ground.tune(learned, {"way": "all"})
    assert learned.recipe.parts["head"]["kind"] == "tanh-mlp"
    assert tuned.recipe.model == ""
    assert tuned.recipe.parts["head"] == {"kind": "linear"}
    assert (tuned.stage, tuned.shots, tuned.frozen) == ("fine-tuning", 0, None)
    assert tuned.at == {"model": "ViT", "way": "all"}
    assert tuned.seed == tuned.recipe.seed == 4
    assert tuned.after is learned
    assert tuned.data is ground.target
    assert tuned.called == ground.target_from


def test_weights_that_are_asked_about_say_what_model_they_are(stand: Any) -> None:
    ground = replace(stand(grid(tune={"batch": 9})), weights="some.safetensors")
    cell = ground.adopt({"model": "ViT", "trained": "all"}, 2, {"freeze": "backbone"})
    recipe = cell.recipe
    assert (recipe.weights, recipe.model, recipe.parts) == ("some.safetensors", "", {"head": {"kind": "linear"}})
    assert (recipe.batch, recipe.freeze, recipe.seed) == (9, "backbone", 2)
    assert (cell.stage, cell.after, cell.data) == ("fine-tuning", None, ground.target)


def test_from_scratch_the_target_is_learned_from_and_judges(stand: Any) -> None:
    ground = stand(grid())
    cell = ground.scratch({"model": "ViT"}, 1)
    assert (cell.stage, cell.after, cell.shots) == ("from scratch", None, 0)
    assert cell.data is ground.target
    assert cell.recipe.model == "ViT-Digits/2"


def test_shares_are_of_what_is_learned_from(shades: Any) -> None:
    data = shades(4, train=400, val=8)
    ground = Ground(
        first=data, first_from="a", target=data, target_from="b", grid=grid(), recipe=recipes.read(grid().recipe)
    )
    learned = ground.learn({"model": "ViT"}, 0, share=0.07)
    cells = [learned, ground.tune(learned, share=0.07), ground.scratch({"model": "ViT"}, 0, share=0.07)]
    for cell in cells:
        assert np.bincount(cell.data.train.labels).tolist() == [7, 7, 7, 7]  # of 100, not one more
        assert cell.data.val is data.val


@pytest.mark.parametrize("given", grids.names())
def test_masked_patches_are_learned_from_without_what_labels_need(given: str, stand: Any) -> None:
    read = grids.read(given, "self-supervision", {})
    ground = stand(read)
    recipe = ground.learn({"model": read.study["self-supervision"]["model"]}, 0, read.mask).recipe
    assert recipe.objective == MaskedPatch()
    assert not recipe.data.mix.mixup
    assert not recipe.data.mix.cutmix


def test_fewer_pictures_than_shots_are_refused_with_what_would_do(shades: Any) -> None:
    data = shades(4, train=40, val=8)
    few = portion(data, 0.2, 0)
    with pytest.raises(DataError, match=r"has 2 pictures to learn from, too few for 5 shots: .*shots=2"):
        Ground(
            first=data,
            first_from="a",
            target=few,
            target_from="b",
            grid=settings.change(grid(), {"shots": 5}),
            recipe=recipes.read("digits"),
        )


def test_a_target_of_other_channels_is_refused_unless_one_is_grey(shades: Any) -> None:
    data = shades(4, train=40, val=8)
    given = {"first_from": "a", "target_from": "b", "grid": grid(), "recipe": recipes.read("digits")}
    assert Ground(first=replace(data, channels=3), target=replace(data, channels=1), **given)
    with pytest.raises(DataError, match=r"3 channels and .* of 4"):
        Ground(first=replace(data, channels=3), target=replace(data, channels=4), **given)
