"""Live beside timm, where it is installed: its weights give the same logits here, and ours the same ones there."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import patchwords
from patchwords.errors import ModelError
from patchwords.models.build import build
from patchwords.weights import files
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]

CLOSE = 2e-5
SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 48, "depth": 2, "num_heads": 3, "mlp_ratio": 2, "num_classes": 7}
VITS: dict[str, dict[str, Any]] = {
    "class token": {},
    "average, norm after": {"global_pool": "avg"},
    "average, no class token": {"global_pool": "avg", "class_token": False},
    "attention pool": {"global_pool": "map", "class_token": False},
    "layer scale": {"init_values": 0.1},
    "registers": {"reg_tokens": 2},
    "registers without rows": {"reg_tokens": 4, "no_embed_class": True},
    "class token without a row": {"no_embed_class": True},
    "no bias": {"qkv_bias": False},
    "no classes": {"num_classes": 0},
    "grey": {"in_chans": 1},
    "other sizes": {"img_size": 24, "patch_size": 8, "embed_dim": 64, "depth": 3, "num_heads": 2, "mlp_ratio": 3},
}
HYBRIDS = {"root alone": "vit_tiny_r_s16_p8_224", "four stages": "vit_small_r26_s32_224"}
BITS: dict[str, dict[str, Any]] = {
    "two stages": {"layers": [1, 1], "channels": [128, 256], "stem_chs": 32},
    "three stages": {"layers": [2, 1, 2], "channels": [128, 256, 512], "stem_chs": 32},
    "wide": {"layers": [2], "channels": [256], "stem_chs": 64, "in_chans": 1},
}
vits = pytest.mark.parametrize("sizes", VITS.values(), ids=VITS)
bits = pytest.mark.parametrize("sizes", BITS.values(), ids=BITS)
hybrids = pytest.mark.parametrize("name", HYBRIDS.values(), ids=HYBRIDS)


@pytest.fixture(scope="module")
def timm() -> Iterator[ModuleType]:
    for name in ("timm", "torchvision"):  # without the second, the first fails in its own way
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("timm.models.resnetv2", exc_type=ImportError)
        yield pytest.importorskip("timm", exc_type=ImportError)


def vit(timm: ModuleType, sizes: dict[str, Any]) -> Any:
    return timm.models.vision_transformer.VisionTransformer(**SMALL | sizes)


def bit(timm: ModuleType, sizes: dict[str, Any]) -> Any:
    standardised = partial(timm.layers.StdConv2d, eps=1e-8)
    return timm.models.resnetv2.ResNetV2(num_classes=7, stem_type="fixed", conv_layer=standardised, **sizes)


def pictures(model: Any, side: int) -> Tensor:
    channels = next(p for p in model.parameters() if p.dim() == 4).shape[1]
    return 2 * torch.rand(2, channels, side, side, generator=torch.Generator().manual_seed(1)) - 1


def check_both_ways(
    theirs: Any, side: int, heads: int | None, randomise: Randomise, difference: Difference, folder: Path
) -> None:
    """Their weights here, then other weights of ours there: names, shapes and logits."""
    x = pictures(theirs, side)
    save_file(randomise(theirs).state_dict(), folder / "theirs.safetensors")
    ours = patchwords.load(folder / "theirs.safetensors", heads=heads).eval()
    assert difference(ours(x), theirs(x)) <= CLOSE

    ours = randomise(build(ours.config))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.mul_(1.1)  # so that these are not their weights again
    card = Card(model=ours.config)
    convert(Checkpoint(card, dict(ours.state_dict()), "native"), folder / "ours.safetensors", "timm")
    written = files.read(folder / "ours.safetensors").tensors
    wanted = theirs.state_dict()
    assert {k: v.shape for k, v in written.items()} == {k: v.shape for k, v in wanted.items()}
    theirs.load_state_dict(written, strict=True)
    assert difference(theirs(x), ours(x)) <= CLOSE


@vits
def test_a_vit_agrees_both_ways(
    sizes: dict[str, Any], timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    full = SMALL | sizes
    check_both_ways(vit(timm, sizes), full["img_size"], full["num_heads"], randomise, difference, tmp_path)


@hybrids
def test_a_hybrid_agrees_both_ways(
    name: str, timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = timm.create_model(name, num_classes=7, img_size=64)
    check_both_ways(theirs, 64, None, randomise, difference, tmp_path)


@bits
def test_a_bit_resnet_agrees_both_ways(
    sizes: dict[str, Any], timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    check_both_ways(bit(timm, sizes), 64, None, randomise, difference, tmp_path)


def test_a_published_bit_architecture_agrees(
    timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(timm.create_model("resnetv2_50x1_bit", num_classes=7))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    ours = patchwords.load(tmp_path / "theirs.safetensors").eval()
    x = pictures(theirs, 64).double()  # fifty layers of rounding are too many for single precision
    assert difference(ours.double()(x), theirs.double()(x)) <= 1e-9


def test_an_attention_pool_that_leaves_out_the_class_token_is_refused_or_computed_so(
    timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(vit(timm, {"global_pool": "map"}))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    try:
        ours = patchwords.load(tmp_path / "theirs.safetensors", heads=3).eval()
    except ModelError as error:
        assert "pool" in str(error)  # noqa: PT017
    else:
        assert difference(ours(pictures(theirs, 16)), theirs(pictures(theirs, 16))) <= CLOSE


def test_a_wide_picture_is_read_where_it_is_said(
    timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(vit(timm, {"img_size": (16, 24)}))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    x = pictures(theirs, 24)[:, :, :16]
    ours = patchwords.load(tmp_path / "theirs.safetensors", heads=3, image=(16, 24)).eval()
    assert difference(ours(x), theirs(x)) <= CLOSE


def test_positions_loaded_the_librarys_way_are_those_it_makes(
    timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(vit(timm, {}))
    save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    theirs.set_input_size((28, 20))
    ours = patchwords.load(
        tmp_path / "theirs.safetensors", heads=3, image=(28, 20), positions="bicubic-antialias"
    ).eval()
    x = pictures(theirs, 28)[:, :, :, :20]
    assert difference(ours(x), theirs(x)) <= CLOSE


def test_a_file_of_the_official_names_means_the_same_to_both(
    timm: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build("ViT-Ti/16", classes=7, image=64))
    card = Card(model=ours.config)
    convert(Checkpoint(card, dict(ours.state_dict()), "native"), tmp_path / "official.npz", "official")
    theirs = timm.create_model(
        "vit_tiny_patch16_224", num_classes=7, img_size=64, act_layer=partial(nn.GELU, approximate="tanh")
    )
    theirs.load_pretrained(str(tmp_path / "official.npz"))
    assert difference(theirs.eval()(pictures(theirs, 64)), ours(pictures(theirs, 64))) <= CLOSE
    assert open_checkpoint(tmp_path / "official.npz").card.model.heads == 3
