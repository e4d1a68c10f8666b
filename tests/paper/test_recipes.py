"""Tables 3 and 4, written out again, against the recipes; and what the other recipes are named after."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords import settings
from patchwords.data.augment.augment import Augment
from patchwords.data.augment.policy import RandAugment, ThreeAugment
from patchwords.data.mix import Mix
from patchwords.models.build import blank
from patchwords.models.names import read as read_model
from patchwords.objectives.distill import Distill
from patchwords.objectives.supervised import Supervised
from patchwords.training import recipe
from patchwords.training.optimizer import SGD, AdamW, Lamb, scaled
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

# DeiT: recipe, model, parameters, whether it has a teacher.
DEIT = [
    ("tiny", "DeiT-Ti/16", 5_717_416, False),
    ("small", "DeiT-S/16", 22_050_664, False),
    ("base", "DeiT-B/16", 86_567_656, False),
    ("tiny-distilled", "DeiT-Ti/16-distilled", 5_910_800, True),
    ("small-distilled", "DeiT-S/16-distilled", 22_436_432, True),
    ("base-distilled", "DeiT-B/16-distilled", 87_338_192, True),
]
# DeiT III on ImageNet-1k: recipe, model, pixels, learning rate, stochastic depth (M's two are ours).
DEIT_3 = [
    ("small", "DeiT3-S/16", 224, 4e-3, 0.05),
    ("medium", "DeiT3-M/16", 224, 3e-3, 0.1),
    ("base", "DeiT3-B/16", 192, 3e-3, 0.2),
    ("large", "DeiT3-L/16", 192, 3e-3, 0.45),
    ("huge", "DeiT3-H/14", 154, 3e-3, 0.6),
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


def repeated(above: dict[str, Any], below: dict[str, Any]) -> set[str]:
    """What is said again; a part of another kind has to say everything anew."""
    if above.get("kind", below.get("kind")) != below.get("kind"):
        return set()
    found = {
        key for key, value in above.items() if key != "kind" and not isinstance(value, dict) and below.get(key) == value
    }
    tables = [(value, below[key]) for key, value in above.items() if isinstance(value, dict) and key in below]
    return found.union(*(repeated(value, under) for value, under in tables if isinstance(under, dict)))


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
        assert repeated(stated, table(stated.pop("base"))) == set()


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


@pytest.mark.parametrize(("name", "model", "parameters", "distilled"), DEIT)
def test_deit(name: str, model: str, parameters: int, distilled: bool) -> None:
    found = recipe.read(f"deit/{name}")
    rate = scaled(found.optimizer, 1024)
    assert (found.model, found.image, found.batch, found.duration) == (model, (224, 224), 1024, "300 epochs")
    assert (rate, found.optimizer.decay, found.optimizer.kind) == (1e-3, 0.05, "adamw")
    assert found.schedule.warmup == "5 epochs"
    assert found.schedule.start * rate == pytest.approx(1e-6)
    assert found.schedule.floor * rate == pytest.approx(1e-5)
    config = configuration(found)
    assert (config.stochastic_depth, config.dropout, found.average) == (0.1, 0.0, 0.99996)
    assert sum(parameter.numel() for parameter in blank(config).parameters()) == parameters
    assert found.data.augment.policy == RandAugment(magnitude=9.0, deviation=0.5, probability=0.5)
    assert (found.data.augment.erase, found.data.augment.repeats) == (0.25, 3)
    assert found.data.mix == Mix(mixup=0.8, cutmix=1.0, probability=1.0, switch=0.5)
    assert (found.data.fit, found.data.share, found.data.interpolation) == ("crop", 0.875, "bicubic")
    teacher = "timm:regnety_160.deit_in1k"
    assert found.objective == (
        Distill(teacher=teacher, how="hard", alpha=0.5, smoothing=0.1) if distilled else Supervised(smoothing=0.1)
    )


@pytest.mark.parametrize(
    ("name", "model", "depth", "parameters"),
    [
        ("tiny", "Swin-T", 0.2, 28_288_354),
        ("small", "Swin-S", 0.3, 49_606_258),
        ("base", "Swin-B", 0.5, 87_768_224),
    ],
)
def test_swin(name: str, model: str, depth: float, parameters: int) -> None:
    found = recipe.read(f"swin/{name}")
    rate = scaled(found.optimizer, 1024)
    assert (found.model, found.image, found.batch, found.duration) == (model, (224, 224), 1024, "300 epochs")
    assert (rate, found.optimizer.decay, found.optimizer.kind) == (1e-3, 0.05, "adamw")
    assert (found.optimizer.betas, found.clip, found.average) == ((0.9, 0.999), 5.0, 0.0)
    assert (found.schedule.warmup, found.schedule.shape) == ("20 epochs", "cosine")
    base = found.optimizer.lr  # the code's numbers are those of a batch of 512
    assert (found.schedule.start * base, found.schedule.floor * base) == (pytest.approx(5e-7), pytest.approx(5e-6))
    config = configuration(found)
    assert (config.stochastic_depth, config.dropout) == (depth, 0.0)
    assert sum(parameter.numel() for parameter in blank(config).parameters()) == parameters
    assert found.data.augment == Augment(policy=RandAugment(magnitude=9.0, deviation=0.5, probability=0.5), erase=0.25)
    assert found.data.mix == Mix(mixup=0.8, cutmix=1.0, probability=1.0, switch=0.5)
    assert found.objective == Supervised(smoothing=0.1)


def test_swin_at_384_pixels() -> None:
    found, before = recipe.read("swin/base-384"), recipe.read("swin/base")
    assert (found.image, found.duration, found.schedule.warmup) == ((384, 384), "30 epochs", "5 epochs")
    assert (found.optimizer.lr, found.optimizer.per, found.optimizer.decay) == (2e-5, 512, 1e-8)
    assert (found.model, found.data, found.objective) == (before.model, before.data, before.objective)
    config = settings.change(configuration(found), {"image": 384})
    assert config == settings.change(read_model("Swin-B@384"), {"stochastic_depth": 0.5})


def test_swin_on_imagenet_22k() -> None:
    found = recipe.read("swin/large-22k")
    assert (found.model, found.duration, found.schedule.warmup) == ("Swin-L", "90 epochs", "5 epochs")
    assert (scaled(found.optimizer, found.batch), configuration(found).stochastic_depth) == (1e-3, 0.2)


@pytest.mark.parametrize("name", ["base", "base-distilled"])
def test_deit_at_384_pixels(name: str) -> None:
    found, before = recipe.read(f"deit/{name}-384"), recipe.read(f"deit/{name}")
    assert (found.image, found.batch, found.duration) == ((384, 384), 512, "30 epochs")
    rate = scaled(found.optimizer, 512)
    assert (rate, found.optimizer.decay) == (5e-6, 1e-8)
    assert (found.schedule.start * rate, found.schedule.floor * rate) == (pytest.approx(1e-6), 5e-6)
    assert (found.model, found.data, found.objective) == (before.model, before.data, before.objective)


@pytest.mark.parametrize(("name", "model", "pixels", "lr", "depth"), DEIT_3)
def test_deit_iii(name: str, model: str, pixels: int, lr: float, depth: float) -> None:
    found = recipe.read(f"deit3/{name}")
    assert (found.model, found.image, found.batch, found.duration) == (model, (pixels, pixels), 2048, "800 epochs")
    assert found.optimizer == Lamb(lr=lr, decay=0.05, epsilon=1e-8 * 1000)  # of a loss that is the sum of 1000
    assert found.clip == 1.0 * 1000
    assert found.schedule.warmup == "5 epochs"
    assert found.schedule.start * lr == pytest.approx(1e-6, rel=1e-4)
    assert found.schedule.floor * lr == pytest.approx(1e-5, rel=1e-4)
    assert configuration(found).stochastic_depth == depth
    assert found.objective == Supervised(loss="sigmoid", mixed="whole")
    assert found.data.augment == Augment(policy=ThreeAugment(), jitter=0.3, repeats=3)
    assert found.data.mix == Mix(mixup=0.8, cutmix=1.0)
    assert (found.data.fit, found.data.share, found.data.mean[0]) == ("crop", 1.0, 0.485)


def test_deit_iii_goes_on_at_224_pixels() -> None:
    found = recipe.read("deit3/finetune")
    assert (found.image, found.batch, found.duration) == ((224, 224), 512, "20 epochs")
    assert found.optimizer == AdamW(lr=1e-5, decay=0.1)
    assert found.objective == Supervised(smoothing=0.1)
    assert found.data.augment == Augment(policy=RandAugment(magnitude=9.0, deviation=0.5, probability=0.5))


def test_every_recipe_of_deit_is_checked() -> None:
    known = {f"deit/{row[0]}" for row in DEIT} | {"deit/base-384", "deit/base-distilled-384"}
    known |= {f"deit3/{row[0]}" for row in DEIT_3} | {"deit3/finetune"}
    assert {name for name in NAMES if name.startswith("deit")} == known


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
