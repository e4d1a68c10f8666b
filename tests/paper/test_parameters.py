"""Table 1 and what was published after it: how many parameters each model has, to the last one."""

import random
from dataclasses import replace

import pytest
import torch

from patchwords.layers.head import TanhMLP
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import RelativeBias, SinCos2D
from patchwords.models.build import configure
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config, read
from patchwords.models.vit import ViTConfig

# Classes: 1000; 21843; 21843 behind pre-logits; none; 1000 on a larger picture (378 for /14, else 384).
PUBLISHED: dict[str, tuple[int | None, ...]] = {
    "ViT-Ti/16": (5_717_416, 9_740_115, 9_777_171, 5_524_416, 5_790_376),
    "ViT-S/32": (22_878_952, 30_903_507, 31_051_347, 22_493_952, 22_915_432),
    "ViT-S/16": (22_050_664, 30_075_219, 30_223_059, 21_665_664, 22_196_584),
    "ViT-B/32": (88_224_232, 104_252_499, 104_843_091, 87_455_232, 88_297_192),
    "ViT-B/16": (86_567_656, 102_595_923, 103_186_515, 85_798_656, 86_859_496),
    "ViT-B/8": (86_576_872, 102_605_139, 103_195_731, 85_807_872, 87_744_232),
    "ViT-L/32": (306_535_400, 327_899_475, 328_949_075, 305_510_400, 306_632_680),
    "ViT-L/16": (304_326_632, 325_690_707, 326_740_307, 303_301_632, 304_715_752),
    "ViT-H/14": (632_045_800, 658_745_683, 660_385_363, 630_764_800, 632_651_240),
    "R+ViT-Ti/16": (6_337_704, 10_360_403, None, 6_144_704, None),
    "R26+ViT-S/32": (36_431_912, 44_456_467, None, 36_046_912, None),
    "R26+ViT-B/32": (101_383_976, 117_412_243, None, 100_614_976, None),
    "R50+ViT-B/16": (98_659_112, 114_687_379, None, 97_890_112, 98_950_952),
    "R50+ViT-L/32": (328_994_856, 350_358_931, None, 327_969_856, None),
    "ViT-g/14": (1_012_611_432, 1_041_979_219, None, 1_011_202_432, None),
    "ViT-G/14": (1_844_440_680, 1_879_144_275, None, 1_842_775_680, None),
}
PRE_LOGITS = {name: counts[2] for name, counts in PUBLISHED.items() if counts[2]}
LARGER = {name: counts[4] for name, counts in PUBLISHED.items() if counts[4]}

BIT = {  # pre-activation, post-activation
    "R50x1": (25_549_352, 25_557_032),
    "R50x2": (97_988_712, 98_004_072),
    "R101x1": (44_541_480, 44_549_160),
    "R152x1": (60_185_128, 60_192_808),
    "R152x2": (236_335_208, 236_350_568),
    "R152x4": (936_533_224, 936_563_944),
    "R200x3": (568_633_000, 568_656_040),
}


def parameters(config: Config) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in config.build().parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_with_1000_classes(name: str) -> None:
    assert parameters(read(name)) == PUBLISHED[name][0]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_with_21843_classes(name: str) -> None:
    assert parameters(configure(name, classes=21843)) == PUBLISHED[name][1]


@pytest.mark.parametrize("name", PRE_LOGITS)
def test_parameters_with_21843_classes_behind_pre_logits(name: str) -> None:
    assert parameters(replace(configure(name, classes=21843), head=TanhMLP())) == PRE_LOGITS[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_without_a_head(name: str) -> None:
    assert parameters(configure(name, classes=0)) == PUBLISHED[name][3]


@pytest.mark.parametrize("name", LARGER)
def test_parameters_on_a_larger_picture(name: str) -> None:
    size = 378 if name.endswith("/14") else 384
    assert parameters(read(f"{name}@{size}")) == LARGER[name]


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("ViT-S/16-gap", 22_049_896),
        ("ViT-S/32-gap", 22_878_184),
        ("ViT-B/16-gap", 86_566_120),
        ("ViT-B/32-gap", 88_222_696),
        ("ViT-L/16@512", 305_174_504),
        ("ViT-H/14@518", 633_470_440),
    ],
)
def test_parameters_of_other_published_models(name: str, count: int) -> None:
    assert parameters(read(name)) == count


def test_parameters_of_the_better_plain_vit() -> None:
    linear = replace(read("ViT-S/16-gap"), position=SinCos2D())
    assert parameters(linear) == 21_974_632
    assert parameters(replace(linear, head=TanhMLP())) == 22_122_472


def test_parameters_of_the_official_test_model() -> None:
    assert parameters(ViTConfig(depth=1, width=10, mlp=10, heads=2, patch=(16, 16))) == 21_390


@pytest.mark.parametrize(("depth", "count"), [(4, 413_066), (6, 3_190_538), (7, 3_716_874)])
def test_parameters_of_vit_lite_on_cifar_10(depth: int, count: int) -> None:
    assert parameters(read(f"ViT-Lite-{depth}/4")) == count


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("Swin-T", 28_288_354),
        ("Swin-S", 49_606_258),
        ("Swin-B", 87_768_224),
        ("Swin-L", 196_532_476),
        ("Swin-B@384", 87_903_584),
        ("Swin-L@384", 196_735_516),
    ],
)
def test_parameters_of_swin(name: str, count: int) -> None:
    assert parameters(read(name)) == count


@pytest.mark.parametrize("name", BIT)
def test_parameters_of_bit_resnets(name: str) -> None:
    assert (parameters(read(f"BiT-{name}")), parameters(read(name))) == BIT[name]


@pytest.mark.parametrize(
    ("size", "plain", "distilled"),
    [("Ti", 5_717_416, 5_910_800), ("S", 22_050_664, 22_436_432), ("B", 86_567_656, 87_338_192)],
)
def test_parameters_of_deit_with_and_without_the_distillation_token(size: str, plain: int, distilled: int) -> None:
    assert parameters(read(f"DeiT-{size}/16")) == parameters(read(f"ViT-{size}/16")) == plain
    assert parameters(read(f"DeiT-{size}/16-distilled")) == distilled


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("DeiT3-S/16", 22_059_496),
        ("DeiT3-M/16", 38_849_512),
        ("DeiT3-B/16", 86_585_320),
        ("DeiT3-L/16", 304_374_760),
        ("DeiT3-H/14", 632_126_440),
    ],
)
def test_parameters_of_deit_iii(name: str, count: int) -> None:
    assert parameters(read(name)) == count


@pytest.mark.parametrize(
    ("name", "count"), [("MAE-B/16", 85_798_656), ("MAE-L/16", 303_301_632), ("MAE-H/14", 630_764_800)]
)
def test_parameters_of_the_encoders_of_mae_with_their_fixed_table(name: str, count: int) -> None:
    encoder = configure(name, classes=0)
    assert parameters(encoder) == parameters(replace(encoder, pool=ClassToken())) == count


@pytest.mark.parametrize(
    ("name", "count"),
    [("BEiT-B/16", 86_530_984), ("BEiT-L/16", 304_430_568), ("BEiT-B/16@384", 86_744_104)],
)
def test_parameters_of_beit(name: str, count: int) -> None:
    assert parameters(read(name)) == count


def test_one_table_for_all_blocks_of_beit_is_counted_once() -> None:
    every = read("BEiT-B/16")
    shared = replace(every, position=RelativeBias(at="shared"))
    assert parameters(every) - parameters(shared) == 11 * (27**2 + 3) * 12


def test_the_millions_of_table_1_are_those_of_base_16_large_32_and_huge_14() -> None:
    for name, millions in {"ViT-B/16": 86, "ViT-L/32": 307, "ViT-H/14": 632}.items():
        assert abs(parameters(read(name)) / 1e6 - millions) < 1
    assert abs(parameters(read("ViT-L/16")) / 1e6 - 307) > 2


def block(width: int, mlp: int) -> int:
    attention = 4 * width**2 + 4 * width
    return attention + 2 * width * mlp + mlp + width + 4 * width


def closed_form(config: ViTConfig, channels: int) -> int:
    """Patches, class token and positions, blocks and the last norm, head."""
    patch = config.patch[0] * config.patch[1]
    stem = channels * patch * config.width + config.width
    sequence = config.width + (config.grid[0] * config.grid[1] + 1) * config.width
    head = config.width * config.classes + config.classes
    return stem + sequence + config.depth * block(config.width, config.mlp) + 2 * config.width + head


def resnet_closed_form(units: tuple[int, ...]) -> int:
    total, channels = 9_536, 64
    for stage, count in enumerate(units):
        middle = 64 * 2**stage
        total += 4 * channels * middle + 8 * middle  # the projection of the first unit
        for _ in range(count):
            total += channels * middle + 13 * middle**2 + 12 * middle
            channels = 4 * middle
    return total


def random_config(dice: random.Random) -> ViTConfig:
    heads, patch = dice.randint(1, 8), dice.choice([2, 4, 7, 16])
    return ViTConfig(
        depth=dice.randint(1, 5),
        width=heads * dice.randint(1, 24),
        mlp=dice.randint(1, 300),
        heads=heads,
        patch=(patch, patch),
        image=(patch * dice.randint(1, 12), patch * dice.randint(1, 12)),
        classes=dice.randint(1, 500),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_closed_form_counts_any_size(seed: int) -> None:
    config = random_config(random.Random(seed))
    assert parameters(config) == closed_form(config, channels=3)


@pytest.mark.parametrize("seed", range(10))
def test_average_pooling_removes_two_rows_and_fixed_positions_the_table(seed: int) -> None:
    config = random_config(random.Random(seed))
    config = replace(config, width=4 * config.width)
    rows, cols = config.grid
    mean = replace(config, special=(), pool=Mean())
    assert parameters(mean) == closed_form(config, channels=3) - 2 * config.width
    assert parameters(replace(mean, position=SinCos2D())) == parameters(mean) - rows * cols * config.width


@pytest.mark.parametrize("units", [(), (1,), (2, 3), (1, 2, 1), (2, 2, 2, 2)])
def test_the_closed_form_counts_hybrids(units: tuple[int, ...]) -> None:
    config = replace(read("ViT-Ti/16"), stem=ResNetStem(units=units), patch=(1, 1))
    channels = 64 if not units else 256 * 2 ** (len(units) - 1)
    assert parameters(config) == resnet_closed_form(units) + closed_form(config, channels)
