"""The model that a run begins with: fresh by its name, or loaded and fitted to new classes (section 3.2)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords import settings
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data
from patchwords.errors import ModelError, UsageError
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import (
    Fixed1D,
    Learned1D,
    Learned2D,
    NoPosition,
    Position,
    Relative,
    RelativeBias,
    SinCos2D,
)
from patchwords.models.build import configure
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.ops import draws
from patchwords.ops.resampling import resample_table
from patchwords.training.recipe import DataRecipe, Recipe, read
from patchwords.training.start import begin
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.load import save

TINY = ViTConfig(depth=2, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16), classes=7)  # 4x4 patches
FLOWERS = ("daisy", "rose", "tulip")


def data_of(classes: tuple[str, ...] = FLOWERS, channels: int = 3) -> Data:
    pixels = np.zeros((6, 16, 16, channels), dtype=np.uint8)
    source = Arrays(pixels, np.arange(6) % len(classes), "train")
    return Data("flowers", classes, source, source, channels=channels)


@pytest.fixture
def native(tmp_path: Path, randomised: Callable[[nn.Module], nn.Module]) -> Callable[..., Path]:
    """A native file of a small model that has learned something."""

    def write(config: Config = TINY, **card: object) -> Path:
        torch.manual_seed(5)
        model = randomised(config.build())
        if config.classes:
            nn.init.normal_(model.get_parameter("head.classifier.weight"))
        save(model, tmp_path / "start.safetensors", Card(model=config, **card))  # type: ignore[arg-type]
        return tmp_path / "start.safetensors"

    return write


@pytest.fixture
def official(native: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """The same as an official .npz."""

    def write(config: Config = TINY) -> Path:
        convert(open_checkpoint(native(config)), tmp_path / "start.npz", "official")
        return tmp_path / "start.npz"

    return write


def pictures(config: Config, seed: int = 1) -> Tensor:
    return torch.rand(4, config.channels, *config.image, generator=torch.Generator().manual_seed(seed))


# From nothing


def test_a_named_model_is_built_for_the_datas_classes() -> None:
    model, card = begin(Recipe(model="ViT-Mu/16", image=(64, 48)), data_of())
    assert (model.config.classes, model.config.image) == (3, (64, 48))
    assert card.model == model.config
    assert card.classes == FLOWERS
    assert card.preprocess == Preprocess(size=(64, 48))


def test_the_seed_alone_decides_how_it_starts() -> None:
    def drawn(seed: int, global_seed: int) -> Tensor:
        torch.manual_seed(global_seed)
        model, _ = begin(Recipe(model="ViT-Mu/16", seed=seed), data_of())
        return torch.cat([each.detach().flatten() for each in model.parameters()])

    assert torch.equal(drawn(0, 1), drawn(0, 2))
    assert not torch.equal(drawn(0, 1), drawn(1, 1))


def test_parts_change_the_model() -> None:
    parts = {"dropout": 0.2, "head": {"kind": "mlp"}, "pool.kind": "mean", "position": {"kind": "none"}}
    model, card = begin(Recipe(model="ViT-Mu/16", parts=parts), data_of())
    assert isinstance(model.config, ViTConfig)
    assert (model.config.dropout, model.config.head.kind, model.config.pool.kind) == (0.2, "mlp", "mean")
    assert model.config.position == NoPosition()
    assert card.model == model.config


def test_wrong_parts_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"dropot is not a setting; did you mean dropout"):
        begin(Recipe(model="ViT-Mu/16", parts={"dropot": 0.1}), data_of())


def test_without_a_model_or_weights_there_is_nothing_to_train() -> None:
    with pytest.raises(UsageError, match="no model was named: give --model, for example ViT-S/16, or --weights"):
        begin(Recipe(), data_of())


@pytest.mark.parametrize(
    ("channels", "model", "wanted"), [(1, "ViT-Mu/16", 3), (3, "ViT-Digits/2", 1), (5, "ViT-Mu/16", 5)]
)
def test_grey_and_colour_are_made_of_each_other_and_other_channels_are_the_models_own(
    channels: int, model: str, wanted: int
) -> None:
    found, card = begin(Recipe(model=model), data_of(channels=channels))
    assert found.config.channels == wanted
    assert len(card.preprocess.mean) == wanted


def test_the_recipes_preprocessing_goes_over_the_cards() -> None:
    recipe = Recipe(model="ViT-Mu/16", data=DataRecipe(fit="crop", share=0.5, mean=(0.1, 0.2, 0.3)))
    _, card = begin(recipe, data_of())
    assert card.preprocess == Preprocess(fit="crop", crop=0.5, mean=(0.1, 0.2, 0.3))


def test_one_mean_stands_for_all_channels() -> None:
    """The card says it for each, since a model without a card beside it is asked how many there are."""
    _, card = begin(Recipe(model="ViT-Mu/16", data=DataRecipe(mean=(0.2,), deviation=(0.3,))), data_of())
    assert (card.preprocess.mean, card.preprocess.deviation) == ((0.2, 0.2, 0.2), (0.3, 0.3, 0.3))


# From weights


@pytest.fixture(params=["native", "official"])
def weights(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)()


@pytest.mark.parametrize("image", [16, 24, 12, (32, 20)])
def test_fine_tuning_keeps_the_body_resamples_the_positions_and_starts_with_a_head_of_zeros(
    weights: Path, image: int | tuple[int, int]
) -> None:
    size = (image, image) if isinstance(image, int) else image
    model, card = begin(Recipe(weights=str(weights), image=size), data_of())
    before = patchwords.load(weights)
    assert (model.config.image, model.config.classes) == (size, 3)
    assert (card.classes, card.preprocess.size) == (FLOWERS, size)
    found, given = model.state_dict(), before.state_dict()
    head = {name: tensor for name, tensor in found.items() if name.startswith("head.")}
    assert {name: tensor.shape for name, tensor in head.items()} == {
        "head.classifier.weight": (3, 48),
        "head.classifier.bias": (3,),
    }
    assert not any(tensor.any() for tensor in head.values())
    table = "embed.position.table"
    grid = (size[0] // 4, size[1] // 4)
    assert torch.equal(found[table], resample_table(given[table], (4, 4), grid))
    others = found.keys() - head.keys() - {table}
    assert len(others) > 20
    assert all(torch.equal(found[name], given[name]) for name in others)


def test_what_it_sees_at_a_higher_resolution_is_near_what_it_saw(native: Callable[..., Path], tmp_path: Path) -> None:
    """Where neighbouring positions are alike, as they are once learned, a resampled table says the same."""
    config = replace(TINY, image=(56, 56), patch=(4, 4))  # 14x14 patches
    rows, cols = torch.meshgrid(torch.linspace(0, 3, 14), torch.linspace(0, 3, 14), indexing="ij")
    path = native(config)
    learned = patchwords.load(path)
    waves = torch.stack([torch.sin(rows * f + p) * torch.cos(cols * f) for f in (0.5, 1.0) for p in range(24)], -1)
    with torch.no_grad():
        learned.get_parameter("embed.position.table")[0, 1:] = waves.flatten(0, 1)
    save(learned, path)
    small, _ = begin(Recipe(weights=str(path)), data_of())
    large, _ = begin(Recipe(weights=str(path), image=(96, 96)), data_of())  # as 224 to 384
    wrong, _ = begin(Recipe(weights=str(path), image=(96, 96)), data_of())
    with torch.no_grad():
        table = wrong.get_parameter("embed.position.table")
        table[:, 1:] = table[:, 1 + torch.randperm(24 * 24)]
    smooth = torch.nn.functional.interpolate(torch.rand(8, 3, 4, 4), 96, mode="bicubic")
    shrunk = torch.nn.functional.interpolate(smooth, 56, mode="bilinear", antialias=True)
    seen = [model.eval().represent(x).detach() for model, x in ((small, shrunk), (large, smooth), (wrong, smooth))]
    near, far = (1 - torch.cosine_similarity(seen[0], other).mean() for other in seen[1:])
    assert near < 0.2
    assert near < 0.5 * far


def test_the_first_outputs_of_a_new_head_are_all_alike(weights: Path) -> None:
    model, _ = begin(Recipe(weights=str(weights)), data_of())
    assert not model.eval()(pictures(model.config)).any()


def test_the_same_classes_keep_their_head(native: Callable[..., Path]) -> None:
    path = native(replace(TINY, classes=3), classes=FLOWERS)
    model, card = begin(Recipe(weights=str(path)), data_of())
    assert torch.equal(model.eval()(pictures(TINY)), patchwords.load(path).eval()(pictures(TINY)))
    assert card.classes == FLOWERS
    other, card = begin(Recipe(weights=str(path)), data_of(("a", "b", "c")))  # as many, but others
    assert not other.get_parameter("head.classifier.weight").any()
    assert card.classes == ("a", "b", "c")


def test_a_head_whose_classes_nobody_names_is_not_kept(native: Callable[..., Path]) -> None:
    model, _ = begin(Recipe(weights=str(native())), data_of(tuple("abcdefg")))  # as many as the file has
    assert not model.get_parameter("head.classifier.weight").any()


def test_the_recipe_may_want_another_head(weights: Path) -> None:
    model, _ = begin(Recipe(weights=str(weights), parts={"head.bias": -6.9}), data_of())
    assert model.get_parameter("head.classifier.bias").tolist() == pytest.approx([-6.9] * 3)
    model, _ = begin(Recipe(weights=str(weights), parts={"head": {"kind": "mlp", "hidden": 8}}), data_of())
    assert model.get_parameter("head.pre_logits.weight").shape == (8, 48)


def test_another_pool_may_be_named_where_it_has_no_weights_of_its_own(native: Callable[..., Path]) -> None:
    """As a masked autoencoder is fine-tuned: its class token gives way to the mean, its norm to a fresh one."""
    named = configure("MAE-Mu/16", image=32, classes=7)
    assert isinstance(named, ViTConfig)
    path = native(replace(named, pool=ClassToken(), position=Learned1D()))
    model, card = begin(Recipe(weights=str(path), model="MAE-Mu/16"), data_of())
    assert model.config == card.model == replace(named, classes=3)
    found, given = model.state_dict(), patchwords.load(path).state_dict()
    assert found.keys() - given.keys() == {"pool.norm.weight", "pool.norm.bias"}
    assert torch.equal(found["pool.norm.weight"], torch.ones(32))
    assert torch.equal(found["embed.position.table"], given["embed.position.table"])


def test_a_name_does_not_throw_a_learned_pool_away(native: Callable[..., Path]) -> None:
    path = native(configure("ViT-Mu/16-map", image=32, classes=7))
    with pytest.raises(ModelError, match=r"pool\.kind map and not mean"):
        begin(Recipe(weights=str(path), model="ViT-Mu/16-gap"), data_of())
    model, _ = begin(Recipe(weights=str(path), parts={"pool.kind": "mean"}), data_of())  # asked for by its own word
    assert isinstance(model.config, ViTConfig)
    assert model.config.pool.kind == "mean"


def test_positions_that_a_name_wants_and_the_weights_do_not_have_are_refused(native: Callable[..., Path]) -> None:
    path = native(configure("ViT-Mu/16", image=32, classes=7))
    with pytest.raises(ModelError, match=r"BEiT-Mu/16 and parts \{\} do not fit the weights .*offsets\.table"):
        begin(Recipe(weights=str(path), model="BEiT-Mu/16"), data_of())


def test_positions_learn_or_not_as_the_parts_say(native: Callable[..., Path]) -> None:
    path = native(replace(TINY, position=Fixed1D()))
    table = "embed.position.table"
    kept, _ = begin(Recipe(weights=str(path)), data_of())
    learned, _ = begin(Recipe(weights=str(path), parts={"position.kind": "learned-1d"}), data_of())
    assert not kept.get_parameter(table).requires_grad
    assert learned.get_parameter(table).requires_grad
    assert torch.equal(kept.get_parameter(table), learned.get_parameter(table))


def test_one_table_of_biases_becomes_one_for_each_block(native: Callable[..., Path]) -> None:
    """As BEiT is fine-tuned; until the first step it answers as before."""
    config = replace(TINY, position=RelativeBias(at="shared"), classes=3)
    path = native(config, classes=FLOWERS)
    model, card = begin(Recipe(weights=str(path), parts={"position.at": "every"}), data_of())
    assert card.model == replace(config, position=RelativeBias(at="every"))
    assert model.get_parameter("encoder.blocks.1.attention.offsets.table").requires_grad
    before = patchwords.load(path)
    torch.testing.assert_close(model.eval()(pictures(config)), before.eval()(pictures(config)))


def test_another_window_or_patch_is_what_the_weights_are_resampled_to(
    native: Callable[..., Path], small_configs: dict[str, Config]
) -> None:
    swin = small_configs["swin"]
    assert isinstance(swin, SwinConfig)
    wanted = {"window": (swin.window[0] + 1, swin.window[1] + 1)}
    assert_fitted(native(swin), {"parts": {"window": wanted["window"][0]}}, wanted)
    assert_fitted(native(TINY), {"parts": {"patch": [8, 8]}, "image": (32, 32)}, {"patch": (8, 8), "image": (32, 32)})


def assert_fitted(path: Path, changes: dict, numbers: dict) -> None:
    model, card = begin(Recipe(weights=str(path), **changes), data_of())
    expected = patchwords.load(path, classes=FLOWERS, **numbers)
    assert model.config == card.model == expected.config
    assert same(model, expected)


def same(one: nn.Module, other: nn.Module) -> bool:
    given = other.state_dict()
    return all(torch.equal(tensor, given[name]) for name, tensor in one.state_dict().items())


def test_a_model_is_its_name_and_its_parts(native: Callable[..., Path]) -> None:
    """What a recipe built, the same recipe takes as weights."""
    recipe = Recipe(model="ViT-Mu/16", image=(32, 32), parts={"depth": 2})
    built, _ = begin(recipe, data_of())
    model, _ = begin(replace(recipe, weights=str(native(built.config))), data_of())
    assert model.config == built.config


def test_a_hidden_layer_of_the_head_is_removed(native: Callable[..., Path], small_configs: dict[str, Config]) -> None:
    model, _ = begin(Recipe(weights=str(native(small_configs["mlp head"]))), data_of())
    assert model.config.head.kind == "linear"
    assert not any("pre_logits" in name for name in model.state_dict())


def test_every_parameter_can_learn(weights: Path) -> None:
    model, _ = begin(Recipe(weights=str(weights), image=(24, 24)), data_of())
    assert model.training
    assert all(each.requires_grad for each in model.parameters())
    assert not any(each.is_meta for each in model.parameters())


def test_the_cards_preprocessing_is_kept_unless_the_recipe_says_otherwise(native: Callable[..., Path]) -> None:
    path = native(preprocess=replace(IMAGENET, size=(16, 16)))
    _, card = begin(Recipe(weights=str(path), image=(24, 24)), data_of())
    assert card.preprocess == replace(IMAGENET, size=(24, 24))
    _, card = begin(Recipe(weights=str(path), data=DataRecipe(interpolation="bicubic")), data_of())
    assert card.preprocess == replace(IMAGENET, size=(16, 16), interpolation="bicubic")


def test_parts_that_need_no_weights_may_be_set(weights: Path) -> None:
    recipe = Recipe(weights=str(weights), parts={"dropout": 0.1, "stochastic_depth": 0.2})
    model, card = begin(recipe, data_of())
    assert isinstance(model.config, ViTConfig)
    assert (model.config.dropout, model.config.stochastic_depth) == (0.1, 0.2)
    assert card.model == model.config
    given = patchwords.load(weights)
    assert torch.equal(model.state_dict()["embed.patch.weight"], given.state_dict()["embed.patch.weight"])


@pytest.mark.parametrize("parts", [{"layer_scale": 0.1}, {"depth": 3}, {"width": 96}])
def test_parts_that_the_weights_do_not_have_are_a_problem_of_the_model(weights: Path, parts: dict) -> None:
    with pytest.raises(ModelError, match="do not fit the weights") as caught:
        begin(Recipe(weights=str(weights), parts=parts), data_of())
    assert caught.value.exit_code == 4


def test_other_channels_are_mixed_into_the_first_kernel(weights: Path) -> None:
    model, card = begin(Recipe(weights=str(weights)), data_of(channels=5))
    assert model.config.channels == 5
    assert len(card.preprocess.mean) == 5


# Positions anew

AXIAL = replace(TINY, encoder="axial", special=(), pool=Mean())
LEARNED: list[Position] = [
    Learned1D(),
    Learned1D(over="patches"),
    Learned1D(at="every"),
    Learned1D(at="shared"),
    Learned2D(),
    Learned2D(at="every"),
    Relative(),
    RelativeBias(),
    RelativeBias(at="shared"),
]
PLACED: list[Config] = [
    *(replace(TINY, position=position) for position in LEARNED),
    replace(AXIAL, position=Learned2D(at="every")),
    replace(AXIAL, position=Relative()),
    SwinConfig(depths=(2, 2), heads=(1, 2), width=16, window=(2, 2), image=(16, 16), classes=7),
]
SEED = 3


def new(config: Config) -> dict[str, Tensor]:
    """The weights of a new model, by the seed of a run."""
    torch.manual_seed(draws.seed("initial", SEED))
    return dict(config.build().state_dict())


def said(config: Config) -> str:
    position = getattr(config, "position", None)
    return f"{config.kind} {getattr(config, 'encoder', '')} {position.kind} {position.at}" if position else config.kind


@pytest.mark.parametrize("image", [(16, 16), (32, 48)], ids=["the same size", "another size"])
@pytest.mark.parametrize("config", PLACED, ids=said)
def test_positions_anew_are_a_new_models_and_all_else_is_the_weights(
    native: Callable[..., Path], config: Config, image: tuple[int, int]
) -> None:
    usual = Recipe(weights=str(native(config)), image=image, seed=SEED)
    model, card = begin(replace(usual, positions="anew"), data_of())
    before, after = begin(usual, data_of())[0].state_dict(), model.state_dict()
    tables = {name for name in after if "position" in name or "offsets" in name}
    assert {name for name in after if not torch.equal(after[name], before[name])} == tables
    fresh = new(card.model)
    assert all(torch.equal(after[name], fresh[name]) for name in tables)
    assert all(each.requires_grad for each in model.parameters())
    assert card == begin(usual, data_of())[1]


def test_positions_anew_may_be_of_another_kind(native: Callable[..., Path]) -> None:
    """What could not be resampled need not be: the weights may have had other positions, or none."""
    for before, kind, table in (
        (Learned1D(), "learned-2d", "embed.position.rows"),
        (Learned1D(at="every"), "relative-bias", "encoder.blocks.1.attention.offsets.table"),
        (NoPosition(), "learned-1d", "embed.position.table"),
    ):
        path = native(replace(TINY, position=before))
        recipe = Recipe(weights=str(path), parts={"position.kind": kind}, seed=SEED)
        with pytest.raises(ModelError, match="do not fit the weights"):
            begin(recipe, data_of())
        model, card = begin(replace(recipe, positions="anew"), data_of())
        assert torch.equal(model.state_dict()[table], new(card.model)[table])


def test_positions_anew_that_are_fixed_are_those_of_the_new_grid(native: Callable[..., Path]) -> None:
    path = native(replace(TINY, position=Fixed1D()))
    recipe = Recipe(weights=str(path), image=(24, 24), positions="anew")
    model, card = begin(recipe, data_of())
    table = "embed.position.table"
    assert torch.equal(model.get_parameter(table), new(card.model)[table])
    assert not model.get_parameter(table).requires_grad


def test_positions_anew_of_a_model_that_learns_none_are_refused(
    native: Callable[..., Path], small_configs: dict[str, Config]
) -> None:
    nowhere: list[Config] = [replace(TINY, position=NoPosition()), replace(TINY, position=SinCos2D())]
    for config in (*nowhere, small_configs["resnet post"]):
        with pytest.raises(UsageError, match='positions "anew" has nothing to start anew'):
            begin(Recipe(weights=str(native(config)), positions="anew"), data_of())


# Another model than was named


def test_the_name_of_what_the_file_holds_is_welcome(native: Callable[..., Path]) -> None:
    config = ViTConfig(depth=1, width=32, mlp=128, heads=2, patch=(16, 16), image=(64, 64), classes=7)
    model, _ = begin(Recipe(model="ViT-Mu/16", weights=str(native(config)), image=(96, 96)), data_of())
    assert model.config.image == (96, 96)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ViT-Mu/16", r"depth 2 and not 1, width 48 and not 32, mlp 96 and not 128, heads 3 and not 2, patch"),
        ("R50x1", "kind vit and not resnet"),
        ("R26+ViT-B/32", "stem.units None and not"),
    ],
)
def test_a_checkpoint_of_another_architecture_is_refused_with_what_differs(
    weights: Path, name: str, words: str
) -> None:
    with pytest.raises(ModelError, match="holds another model than") as caught:
        begin(Recipe(model=name, weights=str(weights)), data_of())
    assert words in str(caught.value)
    assert "name no model (--set model='\"\"')" in str(caught.value)


def test_a_hybrid_with_another_resnet_is_another_architecture(
    native: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, small_configs: dict[str, Config]
) -> None:
    hybrid = small_configs["hybrid"]
    assert isinstance(hybrid, ViTConfig)
    assert hybrid.stem
    other = replace(hybrid, stem=replace(hybrid.stem, units=(1, 2)))
    monkeypatch.setattr("patchwords.training.start.configure", lambda name: other)
    with pytest.raises(ModelError, match=r"stem\.units"):
        begin(Recipe(model="any", weights=str(native(hybrid))), data_of())


def test_a_name_that_is_none_is_refused(weights: Path) -> None:
    with pytest.raises(UsageError, match="is no model's name"):
        begin(Recipe(model="ViT-Q/16", weights=str(weights)), data_of())


def test_weights_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises((UsageError, ModelError), match=r"gone\.npz"):
        begin(Recipe(weights=str(tmp_path / "gone.npz")), data_of())


def test_beit_is_fine_tuned_from_what_it_learned_without_labels(native: Callable[..., Path]) -> None:
    """The recipes of both, on a small one: the mean and its norm are new, the biases are copied, the rest is kept."""
    before, after = (settings.dotted(read(f"beit/{name}").parts) for name in ("pretrain-b16", "finetune-b16"))
    small = configure("BEiT-Mu/16", image=32, classes=0)
    path = native(settings.change(small, before))
    model, card = begin(Recipe(weights=str(path), parts=after), data_of())
    assert card.model == replace(small, classes=3, stochastic_depth=0.1)  # type: ignore[call-arg]
    found, given = model.state_dict(), patchwords.load(path).state_dict()
    assert torch.equal(found["encoder.blocks.0.attention.offsets.table"], given["encoder.position.bias.table"])
    assert torch.equal(found["encoder.blocks.0.mlp.fc1.weight"], given["encoder.blocks.0.mlp.fc1.weight"])
