"""What is written has the names, shapes, counts and sizes of the published files."""

from dataclasses import replace

import pytest

from patchwords.layers.head import TanhMLP
from patchwords.models.names import read
from patchwords.weights.adapt import shapes
from patchwords.weights.recognise import choose
from patchwords.weights.rules import State, give


def published(name: str, format: str, **changes: object) -> State:
    config = replace(read(name), **changes)  # type: ignore[arg-type]
    return give(choose(format, config).rules(getattr(config, "heads", 1)), shapes(config), format)


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("ViT-Ti/16", 200),
        ("ViT-S/32", 200),
        ("ViT-B/16", 200),
        ("ViT-L/16", 392),
        ("ViT-H/14", 520),
        ("R50+ViT-B/16", 356),
        ("R26+ViT-S/32", 287),
        ("R50+ViT-L/32", 551),
        ("R+ViT-Ti/16", 203),
    ],
)
def test_official_files_have_as_many_arrays_as_the_published_ones(name: str, arrays: int) -> None:
    assert len(published(name, "official")) == arrays
    assert len(published(name, "official", head=TanhMLP())) == arrays + 2


def test_official_arrays_have_the_published_names_and_shapes() -> None:
    tensors = published("ViT-B/16", "official", classes=21843, head=TanhMLP())
    block = "Transformer/encoderblock_11"
    attention = f"{block}/MultiHeadDotProductAttention_1"
    wanted = {
        "cls": (1, 1, 768),
        "embedding/kernel": (16, 16, 3, 768),
        "embedding/bias": (768,),
        "Transformer/posembed_input/pos_embedding": (1, 197, 768),
        f"{block}/LayerNorm_0/scale": (768,),
        f"{block}/LayerNorm_2/bias": (768,),
        "Transformer/encoder_norm/scale": (768,),
        f"{attention}/query/kernel": (768, 12, 64),
        f"{attention}/value/bias": (12, 64),
        f"{attention}/out/kernel": (12, 64, 768),
        f"{attention}/out/bias": (768,),
        f"{block}/MlpBlock_3/Dense_0/kernel": (768, 3072),
        f"{block}/MlpBlock_3/Dense_1/kernel": (3072, 768),
        "pre_logits/kernel": (768, 768),
        "head/kernel": (768, 21843),
        "head/bias": (21843,),
    }
    assert {name: tuple(tensors[name].shape) for name in wanted} == wanted
    hybrid_arrays = published("R50+ViT-B/16", "official")
    assert hybrid_arrays["embedding/kernel"].shape == (1, 1, 1024, 768)
    assert hybrid_arrays["conv_root/kernel"].shape == (7, 7, 3, 64)
    assert hybrid_arrays["block1/unit1/gn_proj/scale"].shape == (1, 1, 1, 256)
    assert published("R26+ViT-S/32", "official")["embedding/kernel"].shape == (1, 1, 2048, 384)
    assert published("R+ViT-Ti/16", "official")["embedding/kernel"].shape == (8, 8, 64, 192)


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    [
        ("ViT-L/16", 1243),
        ("ViT-B/16", 391),
        ("ViT-S/16", 115),
        ("R50+ViT-L/32", 1337),
        ("R26+ViT-S/32", 170),
        ("ViT-Ti/16", 37),
        ("ViT-B/32", 398),
        ("ViT-S/32", 118),
        ("R+ViT-Ti/16", 40),
    ],
)
def test_official_files_are_as_large_as_the_published_ones(name: str, mebibytes: int) -> None:
    values = sum(tensor.numel() for tensor in published(name, "official", classes=21843).values())
    assert round(4 * values / 2**20) == pytest.approx(mebibytes, abs=1)


@pytest.mark.parametrize(("format", "tensors"), [("timm", 152), ("torchvision", 152), ("huggingface", 200)])
def test_torch_ports_have_as_many_tensors_as_the_published_ones(format: str, tensors: int) -> None:
    assert len(published("ViT-B/16", format)) == tensors
