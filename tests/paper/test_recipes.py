"""Tables 3 and 4, written out again, against the recipes; and what the other recipes are named after."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords import settings
from patchwords.data.augment.policy import RandAugment
from patchwords.models.build import blank
from patchwords.models.names import read as read_model
from patchwords.training import recipe
from patchwords.training.optimizer import SGD, AdamW, scaled
from patchwords.training.recipe import Recipe
from patchwords.weights.zoo import ZOO

FOLDER = Path(patchwords.__file__).parent / "recipes"
NAMES = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.toml"))

# Table 3: recipe, model, epochs, base LR, LR decay, weight decay, dropout.
TABLE_3 = [
    ("jft-b16", "ViT-B/16", 7, 8e-4, "linear", 0.1, 0.0),
    ("jft-b32", "ViT-B/32", 7, 8e-4, "linear", 0.1, 0.0),
    ("jft-l32", "ViT-L/32", 7, 6e-4, "linear", 0.1, 0.0),
    ("jft-l16-7", "ViT-L/16", 7, 4e-4, "linear", 0.1, 0.0),
    ("jft-l16-14", "ViT-L/16", 14, 4e-4, "linear", 0.1, 0.0),
    ("jft-h14", "ViT-H/14", 14, 3e-4, "linear", 0.1, 0.0),
    ("jft-r50x1", "R50x1", 7, 1e-3, "linear", 0.1, 0.0),
    ("jft-r50x2", "R50x2", 7, 1e-3, "linear", 0.1, 0.0),
    ("jft-r101x1", "R101x1", 7, 8e-4, "linear", 0.1, 0.0),
    ("jft-r152x1", "R152x1", 7, 6e-4, "linear", 0.1, 0.0),
    ("jft-r152x2", "R152x2", 7, 6e-4, "linear", 0.1, 0.0),
    ("jft-r50-b16", "R50+ViT-B/16", 7, 8e-4, "linear", 0.1, 0.0),
    ("jft-r50-b32", "R50+ViT-B/32", 7, 8e-4, "linear", 0.1, 0.0),
    ("jft-r50-l32", "R50+ViT-L/32", 7, 2e-4, "linear", 0.1, 0.0),
    ("jft-r50-l16-7", "R50+ViT-L/16", 7, 4e-4, "linear", 0.1, 0.0),
    ("jft-r50-l16-14", "R50+ViT-L/16", 14, 4e-4, "linear", 0.1, 0.0),
    ("imagenet21k-b16", "ViT-B/16", 90, 1e-3, "linear", 0.03, 0.1),
    ("imagenet21k-b32", "ViT-B/32", 90, 1e-3, "linear", 0.03, 0.1),
    ("imagenet21k-l16-30", "ViT-L/16", 30, 1e-3, "linear", 0.03, 0.1),
    ("imagenet21k-l16-90", "ViT-L/16", 90, 1e-3, "linear", 0.03, 0.1),
    ("imagenet21k-l32-30", "ViT-L/32", 30, 1e-3, "linear", 0.03, 0.1),
    ("imagenet21k-l32-90", "ViT-L/32", 90, 1e-3, "linear", 0.03, 0.1),
    ("imagenet-b16", "ViT-B/16", 300, 3e-3, "cosine", 0.3, 0.1),
    ("imagenet-b32", "ViT-B/32", 300, 3e-3, "cosine", 0.3, 0.1),
    ("imagenet-l16", "ViT-L/16", 300, 3e-3, "cosine", 0.3, 0.1),
    ("imagenet-l32", "ViT-L/32", 300, 3e-3, "cosine", 0.3, 0.1),
]

# Table 4: recipe, steps, base LR grid, share of the training set to choose by.
TABLE_4 = [
    ("imagenet", 20_000, [0.003, 0.01, 0.03, 0.06], 0.01),
    ("cifar100", 10_000, [0.001, 0.003, 0.01, 0.03], 0.02),
    ("cifar10", 10_000, [0.001, 0.003, 0.01, 0.03], 0.02),
    ("pets", 500, [0.001, 0.003, 0.01, 0.03], 0.1),
    ("flowers", 500, [0.001, 0.003, 0.01, 0.03], 0.1),
    ("vtab", 2_500, [0.01], 0.2),
]

# AugReg: strength, mixup, RandAugment's operations and magnitude.
STRENGTHS: list[tuple[str, float, tuple[int, float] | None]] = [
    ("none", 0.0, None),
    ("light1", 0.0, (2, 0)),
    ("light2", 0.2, (2, 10)),
    ("medium1", 0.2, (2, 15)),
    ("medium2", 0.5, (2, 15)),
    ("strong1", 0.5, (2, 20)),
    ("strong2", 0.8, (2, 20)),
]
# AugReg's recommended weights: recipe, name in the zoo, model, strength, decay, dropout, stochastic depth.
RECOMMENDED = [
    ("l16", "augreg-l16-i21k", "ViT-L/16", "strong1", 0.1, 0.0, 0.0),
    ("b16", "augreg-b16-i21k", "ViT-B/16", "medium1", 0.1, 0.0, 0.0),
    ("s16", "augreg-s16-i21k", "ViT-S/16", "light1", 0.03, 0.0, 0.0),
    ("r50-l32", "augreg-r50-l32-i21k", "R50+ViT-L/32", "medium1", 0.1, 0.1, 0.1),
    ("r26-s32", "augreg-r26-s32-i21k", "R26+ViT-S/32", "light1", 0.1, 0.0, 0.0),
    ("ti16", "augreg-ti16-i21k", "ViT-Ti/16", "none", 0.03, 0.0, 0.0),
    ("b32", "augreg-b32-i21k", "ViT-B/32", "light1", 0.1, 0.0, 0.0),
    ("s32", "augreg-s32-i21k", "ViT-S/32", "none", 0.1, 0.0, 0.0),
    ("r-ti16", "augreg-r-ti16-i21k", "R+ViT-Ti/16", "none", 0.03, 0.0, 0.0),
]


def table(name: str) -> dict[str, Any]:
    """A recipe as its files state it: the parents' tables with the child's over them, key by key."""
    stated = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    return merged(table(stated.pop("base")), stated) if "base" in stated else stated


def merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = dict(below)
    for key, value in above.items():
        old = both.get(key)
        tables = isinstance(value, dict) and isinstance(old, dict)
        both[key] = merged(old, value) if tables and value.get("kind", old.get("kind")) == old.get("kind") else value
    return both


def configuration(found: Recipe) -> Any:
    return settings.change(read_model(found.model), settings.dotted(found.parts))


@pytest.mark.parametrize(("name", "model", "epochs", "lr", "shape", "decay", "dropout"), TABLE_3)
def test_table_3(name: str, model: str, epochs: int, lr: float, shape: str, decay: float, dropout: float) -> None:
    stated = table(f"paper/{name}")
    assert stated["model"] == model
    assert stated["duration"] == f"{epochs} epochs"
    assert stated["optimizer"] == {"kind": "adamw", "lr": lr, "decay": decay, "betas": [0.9, 0.999]}
    assert stated["schedule"] == {"warmup": "10k steps", "shape": shape}
    assert (stated["batch"], stated["image"]) == (4096, 224)
    assert stated.get("parts", {}).get("dropout", 0.0) == dropout
    assert stated.get("clip", 0.0) == (1.0 if name.startswith("imagenet-") else 0.0)


@pytest.mark.parametrize(("name", "model", "epochs", "lr", "shape", "decay", "dropout"), TABLE_3)
def test_the_rows_of_table_3_as_they_are_read(
    name: str, model: str, epochs: int, lr: float, shape: str, decay: float, dropout: float
) -> None:
    found = recipe.read(f"paper/{name}")
    assert found.optimizer == AdamW(lr=lr, decay=decay, betas=(0.9, 0.999))
    assert scaled(found.optimizer, 4096) == lr
    config = configuration(found)
    if "ViT" in model:
        assert (config.dropout, config.head.kind) == (dropout, "mlp")


@pytest.mark.parametrize(("name", "steps", "grid", "share"), TABLE_4)
def test_table_4(name: str, steps: int, grid: list[float], share: float) -> None:
    stated = table(f"paper/finetune-{name}")
    assert re.fullmatch(r"(\d+)(k?) steps", stated["duration"])
    assert int(stated["duration"].replace("k", "000").removesuffix(" steps")) == steps
    assert stated["optimizer"].pop("lr") in grid
    assert stated["optimizer"] == {"kind": "sgd", "momentum": 0.9, "decay": 0.0}
    assert stated["schedule"] == {"shape": "cosine"}
    assert (stated["batch"], stated["clip"], stated["image"]) == (512, 1.0, 384)
    assert stated["data"]["validation"]["share"] == share


@pytest.mark.parametrize(("name", "steps", "grid", "share"), TABLE_4)
def test_the_rates_that_table_4_tried_are_named(name: str, steps: int, grid: list[float], share: float) -> None:
    tried = re.search(r"Rates tried: ([\d. ]*\d)", recipe.cited(f"paper/finetune-{name}"))
    assert tried is not None
    assert [float(rate) for rate in tried[1].split()] == grid


@pytest.mark.parametrize(("name", "pixels"), [("l16-512", 512), ("h14-518", 518)])
def test_the_best_numbers_of_table_2_have_more_pixels_and_an_average(name: str, pixels: int) -> None:
    found = recipe.read(f"paper/finetune-imagenet-{name}")
    assert (found.image, found.average, found.duration) == ((pixels, pixels), 0.9999, "20k steps")


def test_every_recipe_of_the_paper_is_a_row_or_what_rows_share() -> None:
    rows = {f"paper/{row[0]}" for row in TABLE_3} | {f"paper/finetune-{row[0]}" for row in TABLE_4}
    rows |= {"paper/finetune-imagenet-l16-512", "paper/finetune-imagenet-h14-518"}
    shared = {f"paper/{name}" for name in ("pretrain", "jft", "jft-vit", "imagenet21k", "imagenet", "finetune")}
    assert {name for name in NAMES if name.startswith("paper/")} == rows | shared


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_is_read_says_where_it_comes_from_and_has_a_model_that_can_be_built(name: str) -> None:
    text = (FOLDER / f"{name}.toml").read_text("utf-8")
    assert text.startswith("# ")
    assert max(map(len, text.splitlines())) <= 120
    found = recipe.read(name)
    if found.model:
        config = configuration(found)
        blank(settings.change(config, {"image": list(found.image)}) if found.image else config)
    assert not found.weights or found.weights in ZOO


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_states_only_what_differs_from_its_parent(name: str) -> None:
    stated = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    if "base" in stated:
        below = settings.dotted(table(stated.pop("base")))
        repeated = {key for key, value in settings.dotted(stated).items() if below.get(key) == value}
        assert {key for key in repeated if not key.endswith("kind")} == set()


@pytest.mark.parametrize(("strength", "mixup", "randaugment"), STRENGTHS)
@pytest.mark.parametrize("data", ["imagenet", "imagenet21k"])
def test_the_strengths_of_augreg(data: str, strength: str, mixup: float, randaugment: tuple[int, float] | None) -> None:
    stated = table(f"augreg/{data}-{strength}")
    policy = stated["data"].get("augment", {}).get("policy")
    assert stated["data"].get("mix", {}).get("mixup", 0.0) == mixup
    assert (policy and (policy["operations"], policy["magnitude"])) == randaugment
    assert policy is None or policy["table"] == "big-vision"
    assert stated["objective"]["loss"] == "sigmoid"
    assert stated["parts"]["head"] == (
        {"kind": "mlp", "bias": -6.9} if data == "imagenet" else {"kind": "linear", "bias": -10.0}
    )
    assert stated["optimizer"] == {"kind": "adamw", "lr": 1e-3, "decay": 0.1}
    assert (stated["batch"], stated["duration"], stated["clip"]) == (4096, "300 epochs", 1.0)
    assert stated["schedule"] == {"warmup": "10k steps"}


@pytest.mark.parametrize(("name", "zoo", "model", "strength", "decay", "dropout", "depth"), RECOMMENDED)
def test_the_recommended_weights_of_augreg_are_named_after_their_recipe(
    name: str, zoo: str, model: str, strength: str, decay: float, dropout: float, depth: float
) -> None:
    found = recipe.read(f"augreg/recommended-{name}")
    config = configuration(found)
    assert found.model == model == ZOO[zoo].model
    assert (found.optimizer.decay, config.dropout, config.stochastic_depth) == (decay, dropout, depth)
    assert found.data == recipe.read(f"augreg/imagenet21k-{strength}").data
    assert f"-lr_0.001-aug_{strength}-wd_{decay}-do_{dropout}-sd_{depth}.npz" in ZOO[zoo].address


def test_the_better_plain_vit() -> None:
    found = recipe.read("plain-vit")
    assert blank(configuration(found)).config.position.kind == "sincos-2d"
    assert sum(parameter.numel() for parameter in blank(configuration(found)).parameters()) == 22_122_472
    assert (found.batch, found.duration, found.clip) == (1024, "90 epochs", 1.0)
    assert (found.optimizer.lr, found.optimizer.decay) == (1e-3, 0.1)
    assert found.data.mix.mixup == 0.2
    assert found.data.augment.policy == RandAugment(operations=2, magnitude=10.0, table="big-vision")


def test_deit_has_its_rates_at_its_batch() -> None:
    found = recipe.read("deit")
    rate = scaled(found.optimizer, 1024)
    assert rate == 1e-3
    assert found.schedule.start * rate == pytest.approx(1e-6)
    assert found.schedule.floor * rate == pytest.approx(1e-5)


def test_vit_lite_warms_up_from_and_ends_at_its_lowest_rate() -> None:
    found = recipe.read("vit-lite-cifar10")
    assert found.schedule.start * found.optimizer.lr == pytest.approx(1e-5, rel=1e-4)
    assert found.schedule.floor * found.optimizer.lr == pytest.approx(1e-5, rel=1e-4)
    assert found.data.mix.until == pytest.approx(175 / 300, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "epochs", "freeze", "weights"),
    [("probe", 10, "backbone", "vit-b16-i21k"), ("finetune", 10, "", "vit-b16-i21k"), ("scratch", 48, "", "")],
)
def test_the_three_runs_of_the_flower_reproduction(name: str, epochs: int, freeze: str, weights: str) -> None:
    found = recipe.read(f"flowers/{name}")
    assert (found.duration, found.freeze, found.weights) == (f"{epochs} epochs", freeze, weights)
    assert found.optimizer == SGD(lr=1e-3, momentum=0.9, decay=5e-5)
    assert (found.batch, found.schedule.floor, found.schedule.warmup) == (8, 0.01, "0 steps")
    assert (found.data.fit, found.data.share, found.data.mean, found.data.deviation) == (
        "crop",
        0.875,
        (0.5,) * 3,
        (0.5,) * 3,
    )
    assert (found.data.validation.share, found.data.validation.seed) == (0.2, 0)


@pytest.mark.parametrize("name", ["digits", "scratch", "finetune", "probe", "flowers/scratch", "flowers/probe"])
@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_recipes_for_small_sets_can_be_made_as_short_as_one_likes(name: str, steps: int) -> None:
    plan = recipe.read(name).schedule.plan(total=steps, per_epoch=3.5)
    assert all(0 < plan.rate(step) <= 1 for step in range(steps))
