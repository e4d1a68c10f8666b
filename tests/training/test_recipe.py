"""Recipes: files that state only what differs, over parents, strictly read; and those of the package."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchwords import settings
from patchwords.data.augment.augment import Augment
from patchwords.data.augment.policy import RandAugment
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.transforms import PaddedCrop, WholeCrop
from patchwords.errors import UsageError
from patchwords.models.build import blank, configure
from patchwords.studies import grid as grids
from patchwords.training import recipe
from patchwords.training.optimizer import SGD, AdamW, Lamb
from patchwords.training.recipe import BITS, HOW, DataRecipe, Recipe, read
from patchwords.training.run.same import how, unchanged
from patchwords.training.run.toml import toml
from patchwords.training.schedule import Schedule

NAMES = recipe.names()
packaged = pytest.mark.parametrize("name", NAMES)


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# The package's


def test_the_recipes_that_everybody_needs_are_there() -> None:
    assert {"digits", "scratch", "finetune", "probe", "plain-vit", "vit-lite-cifar10", "flowers/scratch"} <= set(NAMES)
    assert sum(name.startswith("paper/") for name in NAMES) > 20


@packaged
def test_a_packaged_recipe_can_be_read_and_says_where_it_comes_from(name: str) -> None:
    assert isinstance(read(name), Recipe)
    assert len(recipe.cited(name)) > 20
    assert "#" not in recipe.cited(name)[:2]


@packaged
def test_a_packaged_recipes_parts_make_a_model(name: str) -> None:
    found = read(name)
    usual = "ViT-B/16" if found.image is None or found.image[0] % 16 == 0 else "ViT-H/14"  # where weights decide
    classes = found.objective.classes(7)
    config = configure(found.model or usual, classes=classes, image=found.image)
    model = blank(settings.change(config, settings.dotted(found.parts)))
    assert model.config.classes == classes
    assert sum(each.numel() for each in model.parameters()) > 10_000


@packaged
def test_a_recipe_in_a_run_folder_is_read_as_the_same(name: str, tmp_path: Path) -> None:
    found = read(name)
    assert read(file(tmp_path, "recipe.toml", toml(settings.write(found)))) == found


# Files


def test_a_file_states_only_what_differs(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        "mine.toml",
        """
        model = "ViT-S/16"
        image = 96
        batch = "auto"
        optimizer = { kind = "sgd", lr = 0.1 }
        schedule.warmup = "5%"
        [data]
        crop = "whole"
        augment = { flip = 0.0, policy = "randaugment" }
        """,
    )
    assert read(path) == Recipe(
        model="ViT-S/16",
        image=(96, 96),
        batch="auto",
        optimizer=SGD(lr=0.1),
        schedule=Schedule(warmup="5%"),
        data=DataRecipe(crop=WholeCrop(), augment=Augment(flip=0.0, policy=RandAugment())),
    )


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert read(file(tmp_path, "empty.toml", "")) == Recipe()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("optimiser.lr = 1", "optimiser is not a setting; did you mean optimizer"),
        ("optimizer.lrr = 1", "optimizer.lrr is not a setting; did you mean lr?"),
        ("data.augment.flips = 1.0", "data.augment.flips is not a setting; did you mean flip?"),
        ("data.crop = { kind = 'randm' }", "kind 'randm' is not one of random, padded, whole; did you mean random?"),
        ("optimizer.kind = 'adma'", "'adma' is not one of adam, adamw, sgd, lamb; did you mean adam"),
        ("optimizer = { kind = 'sgd', betas = [0.9, 0.99] }", "optimizer.betas is not a setting"),
        ("batch = 'large'", "batch: 'large' is not a whole number or auto"),
        ("best = 'acuracy'", "did you mean accuracy"),
        ("precision = 'fp4'", "'fp4' is not one of float32, bf16, fp16, fp8; did you mean fp8"),
        ("nonfinite = 'ignore'", "'ignore' is not one of stop, skip, rollback"),
        ("data.cache = 'disk'", "'disk' is not one of none, memory, device"),
        ("batch = [", "cannot be read as TOML"),
        ("data = 3", "data: 3 is not a table"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_the_key_and_the_nearest_name(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        read(file(tmp_path, "wrong.toml", text))
    assert words in str(caught.value)


@pytest.mark.parametrize(("name", "near"), [("scrach", "scratch"), ("finetun", "finetune"), ("no/such.toml", "")])
def test_an_unknown_recipe_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is neither a file nor known; .*{near}"):
        read(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recipe = 'digits'\n[models]\n[study.head]", "the grid of a study .*`patchwords study NAME DATA --grid {}`"),
        ("[[task]]\ndata = 'pets'", "is a list of tasks .*`patchwords evaluate MODEL {} --protocol vtab-1k`"),
    ],
)
def test_a_file_that_is_no_recipe_is_told_with_the_command_that_takes_it(text: str, said: str, tmp_path: Path) -> None:
    path = file(tmp_path, "other.toml", text)
    with pytest.raises(UsageError, match=said.format(path)):
        read(path)


@pytest.mark.parametrize("name", grids.names())
def test_no_grid_is_a_recipe(name: str) -> None:
    with pytest.raises(UsageError, match="is the grid of a study and no recipe"):
        read(Path(grids.__file__).parent / "grids" / f"{name}.toml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read as TOML"):
        read(tmp_path / "wrong.toml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 0}, "batch 0 is below 1"),
        ({"micro": -1}, "micro -1 is below 0"),
        ({"keep": 1}, "keep 1 is below 2"),
        ({"seed": -1}, "seed -1 is below 0"),
        ({"seed": 2**63}, "seed 9223372036854775808"),
        ({"patience": -1}, "patience -1 is below 0"),
        ({"average": 1.0}, "average 1.0 is no decay"),
        (
            {"best": "last", "patience": 3},
            'patience 3 waits for a better score, and with best = "last" none is compared',
        ),
        ({"objective.kind": "mae"}, 'objective mae has no labels to choose the best by: set best to "last"'),
        ({"clip": -1.0}, "clip -1.0"),
        ({"clip": math.nan}, "clip nan"),
        ({"minutes": 0.0}, "minutes 0.0"),
        ({"duration": "a while"}, "'a while' is no duration"),
        ({"evaluate": "often"}, "'often' is no duration"),
        ({"schedule.warmup": "soon"}, "'soon' is no duration"),
        ({"data.broken": 1.5}, "broken 1.5 is no share"),
        ({"data.workers": -2}, "workers -2"),
        ({"data.timeout": 0.0}, "timeout 0.0"),
        ({"micro": 3, "data.mix.mixup": 0.8}, "micro 3 would part pairs"),
        ({"micro": 3, "data.mix.cutmix": 1.0}, "micro 3 would part pairs"),
        ({"objective.smoothing": 1.0}, "smoothing 1.0 is no share"),
        ({"image": "large"}, "image: "),
    ],
)
def test_numbers_without_a_meaning_are_refused_when_the_recipe_is_read(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read("finetune", changes)
    assert words in str(caught.value)


# Parents


def test_a_child_says_what_differs_from_its_parent(tmp_path: Path) -> None:
    file(
        tmp_path, "parent.toml", "model = 'ViT-S/16'\nbatch = 8\noptimizer = { kind = 'sgd', lr = 0.5, momentum = 0.8 }"
    )
    child = file(tmp_path, "child.toml", "base = 'parent.toml'\nbatch = 16\noptimizer.lr = 0.25")
    found = read(child)
    assert (found.model, found.batch) == ("ViT-S/16", 16)
    assert found.optimizer == SGD(lr=0.25, momentum=0.8)


def test_another_kind_starts_the_part_afresh(tmp_path: Path) -> None:
    file(tmp_path, "parent.toml", "optimizer = { kind = 'sgd', lr = 0.5 }\ndata.crop = { kind = 'padded', pixels = 9 }")
    child = "base = 'parent.toml'\noptimizer = { kind = 'adamw', decay = 0.2 }\ndata.crop = 'whole'"
    found = read(file(tmp_path, "child.toml", child))
    assert found.optimizer == AdamW(decay=0.2)
    assert found.data.crop == WholeCrop()


def test_a_word_for_a_part_is_a_parent_like_any_other(tmp_path: Path) -> None:
    file(tmp_path, "parent.toml", "optimizer = 'sgd'\ndata.crop = 'padded'")
    child = file(tmp_path, "child.toml", "base = 'parent.toml'\noptimizer.lr = 0.25\ndata.crop.pixels = 2")
    assert read(child).optimizer == SGD(lr=0.25)
    assert read(child).data.crop == PaddedCrop(pixels=2)


def test_parents_have_parents_and_may_be_the_packages(tmp_path: Path) -> None:
    file(tmp_path, "first.toml", "base = 'digits'\nclip = 0.25")
    file(tmp_path, "deeper/second.toml", "base = '../first.toml'\nseed = 4")
    third = file(tmp_path, "deeper/third.toml", "base = 'second.toml'\nkeep = 5")
    assert read(third) == replace(read("digits"), clip=0.25, seed=4, keep=5)


def test_a_parent_lies_beside_its_child_wherever_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file(tmp_path, "there/parent.toml", "seed = 7")
    file(tmp_path, "there/child.toml", "base = 'parent.toml'")
    file(tmp_path, "parent.toml", "seed = 8")
    monkeypatch.chdir(tmp_path)
    assert read("there/child.toml").seed == 7
    assert read(Path("parent.toml")).seed == 8


@pytest.mark.parametrize(("first", "second"), [("b", "a"), ("a", "a")])
def test_parents_in_a_ring_are_refused(first: str, second: str, tmp_path: Path) -> None:
    path = file(tmp_path, "a.toml", f"base = '{first}.toml'")
    file(tmp_path, "b.toml", f"base = '{second}.toml'")
    with pytest.raises(UsageError, match=r"leads back to itself: .*a\.toml -> "):
        read(path)


def test_a_parent_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'scratsh' is neither a file nor known; did you mean .*scratch"):
        read(file(tmp_path, "child.toml", "base = 'scratsh'"))


# Changes


def test_changes_go_over_the_recipe_by_dotted_keys() -> None:
    found = read("scratch", {"optimizer.lr": 0.5, "data.mix.mixup": 0.0, "parts.dropout": 0.3, "seed": 3})
    plain = read("scratch")
    assert found.optimizer == replace(plain.optimizer, lr=0.5)
    assert found.data.mix == replace(plain.data.mix, mixup=0.0)
    assert found.parts == {**plain.parts, "dropout": 0.3}
    assert found.seed == 3
    assert found.schedule == plain.schedule


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("kind", ["optimizer", "optimizer.kind"])
def test_another_kind_on_the_command_line_keeps_its_own_rate_and_nothing_of_the_recipes(kind: str, order: int) -> None:
    changes = [(kind, "sgd"), ("optimizer.lr", 0.5)][::order]
    assert read("deit/small", dict(changes)).optimizer == SGD(lr=0.5)
    assert read("deit/small", {kind: "lamb"}).optimizer == Lamb()


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        (
            "digits",
            {"optimizer.kind": "sgd"},
            "optimizer sgd takes its own lr 0.01, decay 0.0, and not the recipe's lr 0.005, decay 0.5, "
            "meant for adamw: set optimizer.lr and optimizer.decay where others are wanted",
        ),
        (
            "finetune",
            {"optimizer": "adam"},
            "optimizer adam takes its own lr 0.001, and not the recipe's lr 0.01, meant for sgd: "
            "set optimizer.lr where others are wanted",
        ),
        (
            "deit/small",
            {"optimizer": {"kind": "lamb", "lr": 0.004}},
            "optimizer lamb takes its own per 0, and not the recipe's per 512, meant for adamw: "
            "set optimizer.per where others are wanted",
        ),
    ],
)
def test_what_another_kind_leaves_of_the_recipe_is_said(name: str, changes: dict[str, Any], sentence: str) -> None:
    said: list[str] = []
    read(name, changes, said.append)
    assert said == [sentence]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer.lr": 0.1},
        {"optimizer.kind": "adamw"},
        {"optimizer.kind": "sgd", "optimizer.lr": 0.1, "optimizer.decay": 0.0},
        {"optimizer": {"kind": "sgd", "lr": 0.1, "decay": 0.0}},
    ],
)
def test_where_nothing_is_left_or_all_is_given_nothing_is_said(changes: dict[str, Any]) -> None:
    said: list[str] = []
    read("digits", changes, said.append)
    assert said == []


def test_a_whole_part_may_be_given() -> None:
    assert read("scratch", {"data.crop": {"kind": "padded", "pixels": 3}}).data.crop == PaddedCrop(pixels=3)
    assert read("scratch", {"data.crop": "whole"}).data.crop == WholeCrop()


def test_an_unknown_change_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"optimizer\.l is not a setting; did you mean .*lr"):
        read("scratch", {"optimizer.l": 1.0})


# Preprocessing


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"epochs": "two"}, "'two epochs' is no duration: write 300 epochs, 20k steps or 5%"),
        ({"lr": "high"}, "optimizer.lr: 'high' is not a number: write one"),
        ({"image": "large"}, "image: 'large' is not a whole number or a pair"),
    ],
)
def test_what_everybody_changes_is_refused_with_a_sentence(given: dict[str, Any], sentence: str) -> None:
    names = ("model", "weights", "epochs", "batch", "image", "lr", "freeze", "seed")
    with pytest.raises(UsageError, match=sentence):
        read("digits", recipe.asked(**dict.fromkeys(names) | given))
    assert recipe.asked(**dict.fromkeys(names) | {"epochs": 2.5}) == {"duration": "2.5 epochs"}


def test_the_cards_preprocessing_is_kept_but_for_what_is_set() -> None:
    assert DataRecipe().preprocess(IMAGENET) == IMAGENET
    changed = DataRecipe(fit="squash", share=0.5, interpolation="bicubic", mean=(0.0,), deviation=(1.0,))
    assert changed.preprocess(IMAGENET) == Preprocess(
        size=IMAGENET.size, fit="squash", crop=0.5, interpolation="bicubic", mean=(0.0,), deviation=(1.0,)
    )
    assert replace(DataRecipe(), share=1.0).preprocess(IMAGENET) == replace(IMAGENET, crop=1.0)


# Resuming

STORED = Recipe(
    model="ViT-Digits/2", batch=64, micro=64, optimizer=AdamW(lr=2e-3), data=DataRecipe(crop=PaddedCrop(pixels=1))
)


def test_what_may_change_on_resume_exists() -> None:
    assert {*HOW, *BITS} <= settings.dotted(settings.write(Recipe())).keys()


@pytest.mark.parametrize("key", HOW)
def test_how_a_run_is_computed_may_change_on_resume(key: str) -> None:
    before = settings.dotted(settings.write(STORED))[key]
    value = not before if isinstance(before, bool) else before + 2
    assert settings.dotted(settings.write(unchanged(STORED, None, {key: value})))[key] == value


LAST_BITS: dict[str, Any] = {
    "data.decoder": "pillow",
    "micro": 32,
    "compile": True,
    "recompute": True,
    "kernels": "plain",
    "graph": "never",
    "threads": 3,
}


@pytest.mark.parametrize("key", BITS)
def test_what_changes_the_last_bits_may_change_on_resume_and_is_said(key: str) -> None:
    wanted = unchanged(STORED, None, {key: LAST_BITS[key]})
    assert settings.dotted(settings.write(wanted))[key] == LAST_BITS[key]
    (sentence,) = how(STORED, wanted)
    before = settings.dotted(settings.write(STORED))[key]
    assert sentence == f"{key} is {LAST_BITS[key]} now and was {before} before: the last bits may differ"
    assert how(STORED, STORED) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer.lr": 0.5}, "optimizer.lr was 0.002 and would be 0.5"),
        ({"seed": 1}, "seed was 0 and would be 1"),
        ({"data.crop": {"kind": "random"}}, "data.crop.kind was 'padded' and would be 'random'"),
        ({"batch": 32}, "batch was 64 and would be 32"),
        ({"parts.dropout": 0.1}, "parts.dropout was None and would be 0.1"),
    ],
)
def test_what_decides_the_result_may_not_and_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match="a resumed run keeps its settings") as caught:
        unchanged(STORED, None, changes)
    assert words in str(caught.value)


def test_the_same_settings_again_are_no_change() -> None:
    assert unchanged(STORED, None, {}) == STORED
    assert unchanged(STORED, None, {"optimizer.lr": 2e-3, "data.crop": {"kind": "padded", "pixels": 1}}) == STORED
    digits = read("digits")
    assert unchanged(digits, "digits", {"seed": digits.seed}) == digits
    with pytest.raises(UsageError, match="a resumed run keeps its settings"):
        unchanged(digits, "scratch", {})
