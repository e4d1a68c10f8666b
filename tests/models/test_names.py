"""Names as the paper writes them: what each part of a name means, and what a wrong one is answered."""

from dataclasses import replace

import pytest
import torch

from patchwords.errors import UsageError
from patchwords.layers.bottleneck import POST, PRE
from patchwords.layers.head import Distilled
from patchwords.layers.pool import Attend, BothTokens, ClassToken, Mean
from patchwords.layers.position import Fixed1D, Learned1D
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import NAMES, fits, read
from patchwords.models.resnet import ResNetConfig
from patchwords.models.sizes import SIZES
from patchwords.models.vit import ViTConfig

BASE = ViTConfig(depth=12, width=768, mlp=3072, heads=12, patch=(16, 16))


@pytest.mark.parametrize(
    ("letter", "width", "depth", "mlp", "heads"),
    [
        ("Mu", 32, 1, 128, 2),
        ("Ti", 192, 12, 768, 3),
        ("S", 384, 12, 1536, 6),
        ("M", 512, 12, 2048, 8),
        ("B", 768, 12, 3072, 12),
        ("L", 1024, 24, 4096, 16),
        ("H", 1280, 32, 5120, 16),
        ("So400m", 1152, 27, 4304, 16),
        ("g", 1408, 40, 6144, 16),
        ("g-opt", 1536, 40, 6144, 16),
        ("G", 1664, 48, 8192, 16),
        ("G-opt", 1536, 48, 8192, 16),
        ("e", 1792, 56, 15360, 16),
    ],
)
def test_a_letter_is_a_size_and_the_number_is_the_patch(
    letter: str, width: int, depth: int, mlp: int, heads: int
) -> None:
    config = ViTConfig(depth=depth, width=width, mlp=mlp, heads=heads, patch=(14, 14))
    assert read(f"ViT-{letter}/14") == config


def test_every_size_is_tested() -> None:
    assert len(SIZES) == 13


@pytest.mark.parametrize(
    ("patch", "grid"), [(8, (28, 28)), (16, (14, 14)), (32, (7, 7)), (14, (16, 16)), (7, (32, 32))]
)
def test_any_patch_that_divides_the_picture_can_be_named(patch: int, grid: tuple[int, int]) -> None:
    assert read(f"ViT-B/{patch}") == replace(BASE, patch=(patch, patch))
    assert read(f"ViT-B/{patch}").grid == grid


@pytest.mark.parametrize(("text", "image"), [("384", (384, 384)), ("160x480", (160, 480))])
def test_the_number_after_at_is_the_picture_height_before_width(text: str, image: tuple[int, int]) -> None:
    assert read(f"ViT-B/16@{text}") == replace(BASE, image=image)
    assert read(f"R50+ViT-B/16@{text}").image == image
    assert read(f"BiT-R50x1@{text}").image == image
    assert read(f"R50x1@{text}").image == image


@pytest.mark.parametrize(("word", "pool"), [("gap", Mean()), ("map", Attend())])
def test_gap_and_map_are_pools_without_a_class_token(word: str, pool: Mean | Attend) -> None:
    assert read(f"ViT-B/16-{word}") == replace(BASE, pool=pool, special=())
    assert read(f"ViT-B/16-{word}@384") == replace(BASE, pool=pool, special=(), image=(384, 384))
    hybrid = read(f"R26+ViT-S/32-{word}")
    assert (hybrid.pool, hybrid.special) == (pool, ())


def test_a_plain_name_has_a_class_token() -> None:
    assert (BASE.pool, BASE.special) == (ClassToken(), ("class",))
    assert read("ViT-B/16") == BASE


def test_axial_is_the_axial_encoder_with_a_mean() -> None:
    assert read("Axial-ViT-B/16") == replace(BASE, encoder="axial", special=(), pool=Mean())
    assert read("Axial-ViT-B/16-map@64x32") == replace(BASE, encoder="axial", special=(), pool=Attend(), image=(64, 32))


@pytest.mark.parametrize(
    ("name", "units"),
    [
        ("R26+ViT-B/32", (2, 2, 2, 2)),
        ("R26+ViT-B/16", (2, 2, 4)),
        ("R50+ViT-B/32", (3, 4, 6, 3)),
        ("R50+ViT-B/16", (3, 4, 9)),
        ("R101+ViT-B/16", (3, 4, 26)),
        ("R152+ViT-B/32", (3, 8, 36, 3)),
        ("R200+ViT-B/32", (3, 24, 36, 3)),
    ],
)
def test_the_number_of_a_hybrid_is_the_downsampling_of_its_resnet(name: str, units: tuple[int, ...]) -> None:
    assert read(name) == replace(BASE, patch=(1, 1), stem=ResNetStem(units=units, width=64, form=POST))
    side = 224 // int(name.rpartition("/")[2])
    assert read(name).grid == (side, side)


def test_r_alone_is_the_root_with_patches_of_eight_and_so_has_49_of_them() -> None:
    config = read("R+ViT-Ti/16")
    assert isinstance(config, ViTConfig)
    assert config.stem == ResNetStem(units=())
    assert config.patch == (8, 8)
    assert config.grid == (7, 7)
    assert config.tokens == 50


EXACT = replace(BASE, activation="gelu")  # the later papers' GELU


@pytest.mark.parametrize(("tail", "image"), [("", (224, 224)), ("@384", (384, 384)), ("@160x480", (160, 480))])
def test_deit_is_a_vit_with_the_exact_gelu_and_distilled_it_has_a_token_and_a_classifier_more(
    tail: str, image: tuple[int, int]
) -> None:
    assert read(f"DeiT-B/16{tail}") == replace(EXACT, image=image)
    both = replace(EXACT, image=image, special=("class", "distillation"), pool=BothTokens(), head=Distilled())
    assert read(f"DeiT-B/16-distilled{tail}") == both


def test_deit_iii_has_layer_scale_and_positions_over_the_patches_alone() -> None:
    assert read("DeiT3-B/16") == replace(EXACT, layer_scale=1e-4, position=Learned1D(over="patches"))


def test_mae_is_its_encoder_with_fixed_positions_and_the_mean_of_the_patches() -> None:
    assert read("MAE-B/16") == replace(EXACT, position=Fixed1D(), pool=Mean(norm="after"))


@pytest.mark.parametrize("family", ["DeiT", "DeiT3", "MAE"])
@pytest.mark.parametrize("letter", SIZES)
def test_the_later_papers_have_every_size_and_any_patch(family: str, letter: str) -> None:
    config = read(f"{family}-{letter}/8@32")
    assert (config.depth, config.width, config.mlp, config.heads) == SIZES[letter]
    assert (config.patch, config.image) == ((8, 8), (32, 32))


@pytest.mark.parametrize(("name", "form"), [("BiT-R101x3", PRE), ("R101x3", POST)])
def test_a_resnet_is_named_by_depth_and_factor(name: str, form: object) -> None:
    assert read(name) == ResNetConfig(units=(3, 4, 23, 3), width=192, form=form)


@pytest.mark.parametrize(
    ("depth", "width", "mlp", "heads"), [(2, 128, 128, 2), (4, 128, 128, 2), (6, 256, 512, 4), (7, 256, 512, 4)]
)
def test_vit_lite_is_for_cifar_and_has_the_layer_of_the_compact_transformers(
    depth: int, width: int, mlp: int, heads: int
) -> None:
    assert read(f"ViT-Lite-{depth}/4") == ViTConfig(
        depth=depth,
        width=width,
        mlp=mlp,
        heads=heads,
        patch=(4, 4),
        image=(32, 32),
        classes=10,
        block="stream-norm",
        biases="none",
        activation="gelu",
        epsilon=1e-5,
        position=Learned1D(std=0.2),
    )


def test_digits_are_grey_and_eight_pixels_wide() -> None:
    config = read("ViT-Digits/2")
    assert isinstance(config, ViTConfig)
    assert (config.image, config.channels, config.classes, config.grid) == ((8, 8), 1, 10, (4, 4))


@pytest.mark.parametrize("name", NAMES)
def test_every_listed_name_can_be_read_and_built(name: str) -> None:
    with torch.device("meta"):
        assert read(name).build().config == read(name)


def test_no_two_listed_names_are_the_same_model() -> None:
    assert len({repr(read(name)) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("vit-b/16", "ViT-B/16"),
        ("ViT-B16", "ViT-B/16"),
        ("ViT-B-16", "ViT-B/16"),
        ("ViT-X/16", "ViT-S/16"),
        ("ViT-Lite-5/4", "ViT-Lite-4/4"),
        ("ViT-B/16-gpa", "ViT-B/16"),
        ("ViT-B/16@", "ViT-B/16"),
        ("ViT-B/16@384x", "ViT-B/16"),
        (" ViT-B/16", "ViT-B/16"),
        ("ViT-B/16\n", "ViT-B/16"),
        ("R50+ViTB/16", "R50+ViT-B/16"),
        ("R51+ViT-B/16", "R50+ViT-B/16"),
        ("R50+ViT-B/8", "R50+ViT-B/16"),
        ("R+ViT-Ti/32", "R+ViT-Ti/16"),
        ("BiT-R50", "BiT-R50x1"),
        ("DeiT-X/16", "DeiT-B/16"),
        ("DeiT3-B/16-distilled", "DeiT-B/16-distilled"),
        ("MAE-B/16-distilled", "DeiT-B/16-distilled"),
        ("deit-b/16", "DeiT-B/16"),
        ("MAE-B16", "MAE-B/16"),
        ("R34x1", "R50x1"),
        ("BiT-R50x0", "BiT-R50x1"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(wrong)
    given, _, advice = str(caught.value).partition("did you mean")
    assert f"{wrong!r} is no" in given
    assert near in advice.rstrip("?").split() or near in advice


def test_a_name_like_no_other_is_answered_with_many_and_how_many_more() -> None:
    with pytest.raises(UsageError) as caught:
        read("???")
    assert all(name in str(caught.value) for name in NAMES[:30])
    assert f"and {len(NAMES) - 30} more" in str(caught.value)


def test_the_sentence_for_a_wrong_hybrid_says_which_there_are() -> None:
    with pytest.raises(UsageError, match=r"R and a depth of 26, 50, 101, 152, 200 with /16 or /32"):
        read("R34+ViT-B/16")


def test_a_patch_that_does_not_divide_the_picture_is_refused() -> None:
    with pytest.raises(UsageError, match="image 224x224 is not a multiple of patch 15x15"):
        read("ViT-B/15")
    with pytest.raises(UsageError, match="image 384x384 is not a multiple of patch 14x14"):
        read("ViT-H/14@384")


@pytest.mark.parametrize("name", ["ViT-B/0", "ViT-B/16@0", "R50+ViT-B/16@0", "R50x1@0"])
def test_a_zero_in_a_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        read(name)


@pytest.mark.parametrize("word", ["ViT-B/16", "ViT-zz/16", "Swin-T@384", "BiT-R50x1", "DALL-E", "Tokenizer-512/3"])
def test_a_word_is_written_like_a_name_whether_or_not_there_is_such_a_model(word: str) -> None:
    assert fits(word)


@pytest.mark.parametrize("word", ["", "runs/photos-1", "ViT-B16", "ViT-B/16@", "ViT-B/16\n", "Swin-T/4", "R50"])
def test_other_words_are_not_written_like_a_name(word: str) -> None:
    assert not fits(word)
