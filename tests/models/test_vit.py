"""The Vision Transformer as a whole: what goes in, what comes out, and that every parameter has a part in it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers import attention as attention_layer
from patchwords.layers.bottleneck import PRE, Form
from patchwords.layers.head import Distilled, HeadKind
from patchwords.layers.pool import Attend, BothTokens, Mean, Pool
from patchwords.layers.position import (
    Fixed1D,
    Learned1D,
    Learned2D,
    NoPosition,
    Position,
    Relative,
    RelativeBias,
    SinCos2D,
    Sinusoidal1D,
)
from patchwords.models.build import build
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config, read
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import ViT, ViTConfig

Randomise = Callable[[nn.Module], nn.Module]

PLAIN = ViTConfig(depth=3, width=16, mlp=24, heads=2, patch=(8, 8), image=(32, 24), classes=5)
PLACELESS = ("none", "relative", "relative-bias")  # kinds that add nothing to a patch


@pytest.fixture
def model(randomised: Randomise) -> ViT:
    return randomised(PLAIN.build()).eval()


def pictures(config: Config, batch: int = 2) -> Tensor:
    return torch.randn(batch, config.channels, *config.image)


# What the small configurations hold.


def choices(of: Any) -> set[tuple[str, str, Any]]:
    """Each value that a part's settings may take, if they are one of a few words."""
    hints = get_type_hints(of)
    return {
        (of.__name__, name, value)
        for name, hint in hints.items()
        if get_origin(hint) is Literal
        for value in get_args(hint)
    }


def chosen(part: Any) -> set[tuple[str, str, Any]]:
    return {(kind, name, value) for kind, name, value in choices(type(part)) if getattr(part, name) == value}


def test_the_small_configurations_hold_every_part_and_every_choice(small_configs: dict[str, Config]) -> None:
    vits = [config for config in small_configs.values() if isinstance(config, ViTConfig)]
    resnets = [config for config in small_configs.values() if isinstance(config, ResNetConfig)]
    kinds = [*get_args(Position), *get_args(Pool), *get_args(HeadKind)]
    parts = [part for config in vits for part in (config, config.position, config.pool, config.head)]
    parts += [form for config in vits if config.stem for form in [config.stem.form]] + [c.form for c in resnets]
    assert {kind for kind in kinds if not any(isinstance(part, kind) for part in parts)} == set()
    wanted = set().union(*(choices(kind) for kind in [*kinds, ViTConfig, Form]))
    fixed = {("NoPosition", "at"), ("Relative", "at"), ("Fixed1D", "at")}  # not settings
    found = set().union(*(chosen(part) for part in parts))
    assert {choice for choice in wanted - found if choice[:2] not in fixed} == set()


# Shapes and gradients, for all of them.


def test_a_model_gives_one_row_of_logits_for_each_picture(small_config: Config) -> None:
    model = small_config.build()
    width = small_config.classes or model.represent(pictures(small_config)).shape[1]
    assert model(pictures(small_config, 3)).shape == (3, width)


def test_every_trainable_parameter_gets_a_gradient(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).train()
    model(pictures(small_config, 4)).square().sum().backward()
    dead = [name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()]
    assert dead == [name for name, parameter in model.named_parameters() if not parameter.requires_grad]


def test_a_picture_does_not_know_its_neighbours_in_the_batch(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    images = pictures(small_config, 3)
    alone = torch.cat([model(image[None]) for image in images])
    torch.testing.assert_close(model(images), alone, rtol=1e-4, atol=1e-5)


def test_logits_are_the_classifier_of_the_representation(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    images = pictures(small_config)
    is_distilled = small_config.head.kind == "distilled"  # there two classifiers see a token each
    represented = model.represent(images)
    represented = represented if isinstance(small_config, ViTConfig) else model.head.represent(represented)
    wanted = sum(model.pair(images)) / 2 if is_distilled else model.head.classifier(represented)
    torch.testing.assert_close(model(images), wanted)


def test_only_a_fixed_table_is_kept_from_training(small_config: Config) -> None:
    fixed = isinstance(small_config, ViTConfig) and small_config.position.kind == "fixed-1d"
    kept = [name for name, parameter in small_config.build().named_parameters() if not parameter.requires_grad]
    assert kept == (["embed.position.table"] if fixed else [])


def test_the_same_seed_builds_the_same_model(small_config: Config) -> None:
    first, second = (torch.manual_seed(3) and small_config.build().state_dict() for _ in range(2))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_model_loads_its_own_state(small_config: Config, randomised: Randomise) -> None:
    first, second = randomised(small_config.build()).eval(), small_config.build().eval()
    second.load_state_dict(first.state_dict())
    images = pictures(small_config)
    assert torch.equal(first(images), second(images))


# Looking inside.


def test_the_forward_pass_is_embed_encoder_pool_head(model: ViT) -> None:
    images = pictures(PLAIN)
    assert torch.equal(model(images), model.head(model.pool(model.encoder(model.embed(images)))))


def test_represent_is_what_the_classifier_sees(model: ViT) -> None:
    images = pictures(PLAIN)
    z = model.encoder(model.embed(images))
    assert torch.equal(model.represent(images), z.x[:, 0])


def test_features_are_the_maps_after_the_blocks_in_the_order_asked_for(model: ViT) -> None:
    images = pictures(PLAIN)
    traced = list(model.encoder.trace(model.embed(images)))
    third, first = model.features(images, at=[3, 1])
    assert third.shape == first.shape == (2, 16, 4, 3)
    for found, tokens in ((third, traced[2]), (first, traced[0])):
        for row in range(4):
            for col in range(3):
                assert torch.equal(found[:, :, row, col], tokens.x[:, 1 + 3 * row + col])


def explicit_weights(model: ViT, images: Tensor) -> list[Tensor]:
    """A forward pass in which every softmax is written out, and kept."""
    tokens, kept = model.embed(images), []
    for layer, block in enumerate(model.encoder.blocks):
        x = model.encoder.position(tokens, layer).x
        attention = block.attention
        q, k, v = attention.qkv(block.norm1(x)).unflatten(-1, (3, attention.heads, -1)).permute(2, 0, 3, 1, 4)
        logits = q @ k.mT / math.sqrt(q.shape[-1])
        if isinstance(model.config.position, Relative):
            tokens_count = q.shape[2]
            rows = [
                torch.stack(
                    [q[:, :, i] @ attention.offsets.table[i - j + tokens_count - 1] for j in range(tokens_count)], -1
                )
                for i in range(tokens_count)
            ]
            logits = logits + torch.stack(rows, 2) / math.sqrt(q.shape[-1])
        exponentials = (logits - logits.amax(-1, keepdim=True)).exp()
        kept.append(exponentials / exponentials.sum(-1, keepdim=True))
        x = x + attention.out((kept[-1] @ v).transpose(1, 2).flatten(2))
        tokens = tokens.replace(x + block.mlp(block.norm2(x)))
    return kept


@pytest.mark.parametrize("position", [Learned1D(), Learned1D(at="every"), Learned2D(at="shared"), Relative(std=1.0)])
def test_attention_gives_the_weights_that_the_forward_pass_uses(position: Position, randomised: Randomise) -> None:
    model = randomised(replace(PLAIN, position=position).build()).double().eval()
    images = pictures(PLAIN).double()
    kept = explicit_weights(model, images)
    third, first = model.attention(images, at=[3, 1])
    assert third.shape == (2, 2, 13, 13)
    torch.testing.assert_close(third, kept[2], rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(first, kept[0], rtol=1e-8, atol=1e-10)


def test_attention_computes_the_weights_of_chosen_layers_alone(model: ViT, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    plain = attention_layer.weights

    def counting(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
        nonlocal calls
        calls += 1
        return plain(q, k, bias)

    monkeypatch.setattr(attention_layer, "weights", counting)
    model(pictures(PLAIN))
    assert calls == 0
    model.attention(pictures(PLAIN), at=[2])
    assert calls == 1


def test_blocks_behind_the_last_one_asked_for_are_not_run(model: ViT) -> None:
    runs: list[int] = []
    for number, block in enumerate(model.encoder.blocks, start=1):
        block.register_forward_hook(lambda *_, number=number: runs.append(number))
    model.features(pictures(PLAIN), at=[2, 1])
    assert runs == [1, 2]
    runs.clear()
    model.attention(pictures(PLAIN), at=[2])
    assert runs == [1]  # the weights of the second need no more


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_layer_that_is_not_there_is_refused(model: ViT, number: int) -> None:
    for look in (model.features, model.attention):
        with pytest.raises(UsageError, match=f"there is no layer {number}: layers are numbered 1 to 3"):
            look(pictures(PLAIN), at=[number])


# What it shows.

SHOWS = {
    "evidence": {"axial", "axial 2d every", "resnet post", "resnet pre", "swin", "swin odd"},
    "nothing": {"axial relative"},  # a probe asks its patches, so the output is no sum over them
}


def test_a_model_shows_its_gaze_or_its_evidence_or_nothing(small_configs: dict[str, Config]) -> None:
    found = {name: config.build().shows for name, config in small_configs.items()}
    special = {name: kind for kind, names in SHOWS.items() for name in names}
    assert found == {name: special.get(name, "gaze") for name in small_configs}


def test_the_gaze_is_every_block_and_what_comes_to_it(model: ViT) -> None:
    images = pictures(PLAIN)
    gaze = model.gaze(images)
    z0 = model.embed(images)
    z1, z2, z3 = model.encoder.trace(z0)
    assert [look.block for look in gaze.looks] == list(model.encoder.blocks)
    for look, tokens in zip(gaze.looks, (z0, z1, z2), strict=True):
        assert torch.equal(look.tokens.x, tokens.x)
        assert (look.tokens.prefix, look.tokens.grid) == (1, (4, 3))
    assert torch.equal(gaze.reads, model.pool.reads(z3.replace(model.encoder.norm(z3.x))))
    assert gaze.cell == (8, 8)


@pytest.mark.parametrize("small_config", ["1d every", "2d shared", "relative", "lite", "regularised"], indirect=True)
def test_the_weights_of_the_gaze_are_those_of_attention(small_config: ViTConfig, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    images = pictures(small_config)
    every = model.attention(images, at=range(1, small_config.depth + 1))
    for look, weights in zip(model.gaze(images).looks, every, strict=True):
        assert torch.equal(look.weights(), weights)


def test_a_gaze_computes_no_weights_before_they_are_asked_for(model: ViT, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_layer, "weights", lambda *_: pytest.fail("weights were made"))
    model.gaze(pictures(PLAIN))


def test_what_the_output_reads_sums_to_one(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    if model.shows == "gaze":
        reads = model.gaze(pictures(small_config)).reads
        assert reads.shape == (2, small_config.tokens)
        torch.testing.assert_close(reads.sum(1), torch.ones(2))


@pytest.mark.parametrize("small_config", ["mean", "axial", "axial 2d every"], indirect=True)
def test_the_mean_of_the_evidence_is_the_logit_without_its_bias(small_config: ViTConfig, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    images, of = pictures(small_config), torch.tensor([4, 1])
    evidence = model.evidence(images, of)
    assert evidence.shape == (2, *small_config.grid)
    logits = model(images) - model.head.classifier.bias
    torch.testing.assert_close(evidence.mean((1, 2)), logits[[0, 1], of])


@pytest.mark.parametrize("small_config", ["plain", "mean, norm after", "map", "mlp head", "no classes"], indirect=True)
def test_evidence_that_does_not_add_up_to_a_logit_is_refused(small_config: ViTConfig) -> None:
    with pytest.raises(UsageError, match="the logits are no sums over the patches"):
        small_config.build().evidence(pictures(small_config), torch.tensor([0, 0]))


def test_filters_are_the_kernels_that_see_the_pixels(small_config: Config) -> None:
    model = small_config.build()
    filters = model.filters()
    stem = small_config.stem if isinstance(small_config, ViTConfig) else isinstance(small_config, ResNetConfig)
    assert filters.shape[1:] == (small_config.channels, *((7, 7) if stem else small_config.patch))
    assert not filters.requires_grad
    if not stem:
        assert torch.equal(filters, model.embed.patch.weight)


def test_the_filters_of_a_hybrid_are_standardised_as_they_are_used() -> None:
    filters = replace(PLAIN, stem=ResNetStem(units=(1,), width=32), patch=(2, 2)).build().filters().flatten(1)
    torch.testing.assert_close(filters.mean(1), torch.zeros(32), atol=1e-6, rtol=0)
    torch.testing.assert_close(filters.std(1, correction=0), torch.ones(32), atol=1e-3, rtol=0)


@pytest.mark.parametrize("special", [("class",), ("class", "register")])
@pytest.mark.parametrize("over", ["tokens", "class", "patches"])
@pytest.mark.parametrize("at", ["stem", "shared", "every"])
def test_positions_are_the_rows_of_the_patches(special: tuple[str, ...], over: str, at: str) -> None:
    model = replace(PLAIN, special=special, position=Learned1D(over=over, at=at)).build()
    table = model.embed.position.table if at == "stem" else model.encoder.position.tables[0].table
    positions = model.positions()
    assert positions.shape == (4, 3, 16)
    assert torch.equal(positions.flatten(0, 1), table[0, -12:])
    assert not positions.requires_grad


def test_positions_are_what_a_picture_gets_for_its_places(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    if not isinstance(small_config, ViTConfig) or small_config.position.kind in PLACELESS:
        with pytest.raises(UsageError, match=r"add nothing to a patch for its place|adds nothing for a place"):
            model.positions()
        return
    images = pictures(small_config)
    projected, _ = model.embed.project(images)
    placed = model.encoder.position(model.embed(images), 0).patches
    torch.testing.assert_close((placed - projected)[0].unflatten(0, small_config.grid), model.positions())


@pytest.mark.parametrize(
    ("stem", "patch", "cell"),
    [(None, (8, 4), (8, 4)), (ResNetStem(units=()), (2, 2), (8, 8)), (ResNetStem(units=(1, 1, 1)), (1, 2), (16, 32))],
)
def test_a_cell_is_the_part_of_the_picture_that_a_patch_stands_for(
    stem: ResNetStem | None, patch: tuple[int, int], cell: tuple[int, int]
) -> None:
    config = replace(PLAIN, image=(64, 64), stem=stem, patch=patch)
    assert config.cell == cell
    assert config.grid == (64 // cell[0], 64 // cell[1])


# Order and place.


def shuffled(images: Tensor, order: Tensor) -> Tensor:
    """The picture with its 8x8 patches in another order."""
    patches = images.unflatten(3, (3, 8)).unflatten(2, (4, 8)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    picture = patches[:, order].unflatten(1, (4, 3)).permute(0, 3, 1, 4, 2, 5)
    return picture.flatten(4).flatten(2, 3)


@pytest.mark.parametrize("pool", ["class", "mean", "map"])
def test_without_positions_a_picture_is_a_bag_of_patches(pool: str, randomised: Randomise) -> None:
    changes = {"class": {}, "mean": {"special": (), "pool": Mean()}, "map": {"special": (), "pool": Attend()}}[pool]
    model = randomised(replace(PLAIN, position=NoPosition(), **changes).build()).double().eval()
    images = pictures(PLAIN).double()
    torch.testing.assert_close(model(shuffled(images, torch.randperm(12))), model(images))


@pytest.mark.parametrize(
    "position", [Learned1D(std=1.0), Learned2D(std=1.0), SinCos2D(), Sinusoidal1D(), Relative(std=1.0)]
)
def test_with_positions_the_order_of_patches_matters(position: Position, randomised: Randomise) -> None:
    model = randomised(replace(PLAIN, position=position).build()).eval()
    images = pictures(PLAIN)
    assert (model(shuffled(images, torch.randperm(12))) - model(images)).abs().max() > 1e-3


# Pictures of other kinds.


@pytest.mark.parametrize("channels", [1, 4, 13])
@pytest.mark.parametrize("stem", [None, ResNetStem(units=(1,), width=32)])
def test_pictures_may_be_grey_or_have_many_bands(channels: int, stem: ResNetStem | None) -> None:
    config = replace(PLAIN, channels=channels, stem=stem, patch=(2, 2) if stem else (8, 8))
    assert config.build()(torch.randn(2, channels, 32, 24)).shape == (2, 5)


@pytest.mark.parametrize(
    ("image", "patch", "grid"), [((32, 64), (8, 8), (4, 8)), ((64, 16), (8, 4), (8, 4)), ((6, 9), (6, 3), (1, 3))]
)
def test_pictures_and_patches_need_not_be_square(
    image: tuple[int, int], patch: tuple[int, int], grid: tuple[int, int]
) -> None:
    config = replace(PLAIN, image=image, patch=patch)
    assert config.grid == grid
    assert config.tokens == 1 + grid[0] * grid[1]
    (features,) = config.build().features(torch.randn(1, 3, *image), at=[2])
    assert features.shape == (1, 16, *grid)


@pytest.mark.parametrize(
    "position", [Learned1D(), Learned2D(), SinCos2D(), Sinusoidal1D(), Learned2D(at="every"), Relative()]
)
def test_another_size_of_picture_is_refused_with_what_to_do(position: Position) -> None:
    model = replace(PLAIN, position=position).build()
    with pytest.raises(UsageError, match=r"the picture has 3x4 patches, the positions are for 4x3: load .* image="):
        model(torch.zeros(1, 3, 24, 32))


def test_a_size_that_the_patch_does_not_divide_is_refused() -> None:
    with pytest.raises(UsageError, match="image 33x24 is not a multiple of patch 8x8"):
        PLAIN.build()(torch.zeros(1, 3, 33, 24))


def test_a_bag_of_patches_takes_any_number_of_them(randomised: Randomise) -> None:
    model = randomised(replace(PLAIN, position=NoPosition()).build())
    assert model(torch.randn(2, 3, 40, 16)).shape == (2, 5)


# Configurations that cannot be.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"heads": 3}, "width 16 is not a multiple of heads 3: choose heads that divide it"),
        ({"image": (33, 24)}, "image 33x24 is not a multiple of patch 8x8: choose a patch that divides it"),
        ({"special": ()}, 'pool "class" needs the class token first'),
        ({"special": ("register", "class")}, "one class first, then at most one distillation, then any register"),
        ({"special": ("class", "class")}, "at most one class first"),
        ({"special": ("class", "distillation", "distillation")}, "at most one distillation"),
        ({"special": ("class", "register", "distillation")}, "then any register"),
        ({"special": ("distillation", "class")}, "at most one class first"),
        ({"pool": BothTokens()}, 'pool "distilled" and head "linear" do not go together'),
        ({"head": Distilled()}, 'pool "class" and head "distilled" do not go together'),
        ({"pool": BothTokens(), "head": Distilled()}, r'both tokens first: special = \["class", "distillation"\]'),
        ({"width": 6, "position": Fixed1D()}, "position fixed-1d needs a width that 4 divides, not 6"),
        ({"special": "class"}, "at most one class first"),
        ({"encoder": "foo"}, "encoder: 'foo' is not one of global, axial"),
        ({"biases": "q"}, "biases: 'q' is not one of qkv, qv, none"),
        ({"pool": "mean"}, "pool: 'mean' is not a part"),
        ({"image": 384}, "image: 384 is not a pair"),
        ({"patch": (8.0, 8.0)}, "patch: .* is not a pair"),
        ({"epsilon": -1.0}, "epsilon -1.0 is not between 0 and 1"),
        ({"depth": 100_000}, "depth 100000 is more than 1000"),
        ({"encoder": "axial", "pool": Mean()}, "the axial encoder has no place for special tokens"),
        (
            {"encoder": "axial", "pool": Mean(), "special": (), "position": RelativeBias()},
            'position "relative-bias" is for attention between all patches',
        ),
        ({"width": 6, "position": SinCos2D()}, "position sincos-2d needs a width that 4 divides, not 6"),
        ({"width": 5, "heads": 1, "position": Learned2D()}, "position learned-2d needs a width that 2 divides, not 5"),
        ({"width": 5, "heads": 1, "position": Sinusoidal1D()}, "position sinusoidal-1d needs a width that 2 divides"),
        ({"stem": ResNetStem(units=(1,)), "patch": (3, 3)}, "image 8x6 is not a multiple of patch 3x3"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused_before_it_is_built(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        replace(PLAIN, **changes)


@pytest.mark.parametrize("name", ["depth", "width", "mlp", "heads", "channels"])
def test_a_size_of_zero_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} 0 is below 1: choose a larger one"):
        replace(PLAIN, **{name: 0})


@pytest.mark.parametrize("name", ["patch", "image"])
def test_a_side_of_zero_is_refused(name: str) -> None:
    for pair in [(0, 8), (8, 0)]:
        with pytest.raises(UsageError, match=f"{name} 0 is below 1"):
            replace(PLAIN, **{name: pair})


def test_less_than_no_classes_are_refused() -> None:
    with pytest.raises(UsageError, match="classes -1 is below 0"):
        replace(PLAIN, classes=-1)


def test_more_tokens_than_any_machine_can_hold_are_refused() -> None:
    with pytest.raises(UsageError, match="choose larger patches or smaller pictures"):
        replace(PLAIN, image=(8192, 8192), patch=(4, 4))


@pytest.mark.parametrize("name", ["dropout", "weight_dropout", "stochastic_depth"])
@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5])
def test_a_rate_of_dropping_outside_of_zero_to_one_is_refused(name: str, rate: float) -> None:
    with pytest.raises(UsageError, match=name):
        replace(PLAIN, **{name: rate})


def test_the_final_norm_stands_on_one_side_of_the_mean_alone() -> None:
    before = replace(PLAIN, pool=Mean()).build()
    after = replace(PLAIN, pool=Mean(norm="after")).build()
    assert isinstance(before.encoder.norm, nn.LayerNorm)
    assert isinstance(before.pool.norm, nn.Identity)
    assert isinstance(after.encoder.norm, nn.Identity)
    assert isinstance(after.pool.norm, nn.LayerNorm)


def test_the_epsilon_of_every_norm_is_the_configured_one() -> None:
    for config in (PLAIN, replace(PLAIN, epsilon=1e-5, pool=Attend()), replace(PLAIN, pool=Mean(norm="after"))):
        norms = [module for module in config.build().modules() if isinstance(module, nn.LayerNorm)]
        assert len(norms) == 2 * 3 + 1 + isinstance(config.pool, Attend)
        assert {norm.eps for norm in norms} == {config.epsilon}
    assert read("ViT-B/16").epsilon == 1e-6


# Hybrids.


@pytest.mark.parametrize(
    ("name", "units", "patch", "grid", "channels"),
    [
        ("R+ViT-Ti/16", (), (8, 8), (7, 7), 64),
        ("R26+ViT-S/32", (2, 2, 2, 2), (1, 1), (7, 7), 2048),
        ("R26+ViT-B/32", (2, 2, 2, 2), (1, 1), (7, 7), 2048),
        ("R50+ViT-B/32", (3, 4, 6, 3), (1, 1), (7, 7), 2048),
        ("R50+ViT-B/16", (3, 4, 9), (1, 1), (14, 14), 1024),
        ("R50+ViT-L/32", (3, 4, 6, 3), (1, 1), (7, 7), 2048),
        ("R50+ViT-L/16", (3, 4, 9), (1, 1), (14, 14), 1024),
    ],
)
def test_a_hybrid_cuts_its_patches_from_the_feature_map(
    name: str, units: tuple[int, ...], patch: tuple[int, int], grid: tuple[int, int], channels: int
) -> None:
    config = read(name)
    assert isinstance(config, ViTConfig)
    assert config.stem
    assert (config.stem.units, config.patch, config.grid, config.stem.channels) == (units, patch, grid, channels)
    with torch.device("meta"):
        model = config.build()
        assert model.embed.stem(torch.empty(1, 3, 224, 224)).shape == (1, channels, *config.stem.size((224, 224)))
        assert model.embed(torch.empty(1, 3, 224, 224)).x.shape == (1, 1 + grid[0] * grid[1], config.width)


@pytest.mark.parametrize("form", [ResNetStem(units=()).form, PRE])
@pytest.mark.parametrize("units", [(), (1,), (1, 1), (1, 1, 1)])
@pytest.mark.parametrize("image", [(64, 32), (37, 50)])
def test_the_size_of_the_feature_map_is_known_beforehand(
    units: tuple[int, ...], form: Form, image: tuple[int, int]
) -> None:
    stem = ResNetStem(units=units, width=32, form=form)
    with torch.device("meta"):
        assert stem.build(3)(torch.empty(1, 3, *image)).shape == (1, stem.channels, *stem.size(image))


def test_a_hybrid_has_the_stem_of_a_resnet_of_the_same_form() -> None:
    stem = ResNetStem(units=(1, 1), width=32).build(3)
    resnet = ResNetConfig(units=(1, 1), width=32, form=stem_form()).build()
    resnet.load_state_dict(stem.state_dict() | {name: t for name, t in resnet.state_dict().items() if "head" in name})
    images = torch.randn(2, 3, 32, 24)
    assert torch.equal(stem(images), resnet.features(images, at=[2])[0])


def stem_form() -> Form:
    return ResNetStem(units=()).form


def test_build_gives_a_vit() -> None:
    assert isinstance(build("ViT-Mu/16"), ViT)
