"""Live beside transformers, with random weights and no network: its folders load here, ours there, equal logits."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError
from patchwords.layers.head import TanhMLP
from patchwords.models.build import build
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.formats import TIMM_PRE

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]

CLOSE = 2e-5

VITS: dict[str, dict[str, Any]] = {
    "square": {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
    | {"image_size": 16, "patch_size": 4, "num_labels": 7},
    "deep, tanh and another epsilon": {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2}
    | {"intermediate_size": 100, "image_size": 24, "patch_size": 8, "num_labels": 3}
    | {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-3},
    "wide, grey, oblong patches, no bias": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    | {"intermediate_size": 64, "image_size": [16, 24], "patch_size": [4, 8], "num_labels": 5}
    | {"num_channels": 1, "qkv_bias": False},
}
BITS: dict[str, dict[str, Any]] = {
    "two stages": {"embedding_size": 32, "hidden_sizes": [128, 256], "depths": [1, 1], "num_labels": 7},
    "deeper": {"embedding_size": 32, "hidden_sizes": [128, 256, 512], "depths": [2, 1, 2], "num_labels": 3},
    "wide": {"embedding_size": 64, "hidden_sizes": [256], "depths": [2], "num_labels": 5, "num_channels": 1},
}
vits = pytest.mark.parametrize("sizes", VITS.values(), ids=VITS)
bits = pytest.mark.parametrize("sizes", BITS.values(), ids=BITS)

OURS = ViTConfig(depth=2, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16), classes=7)


def pictures(sizes: dict[str, Any]) -> Tensor:
    size = sizes.get("image_size", 64)
    height, width = (size, size) if isinstance(size, int) else size
    noise = torch.rand(2, sizes.get("num_channels", 3), height, width, generator=torch.Generator().manual_seed(1))
    return 2 * noise - 1


def written(model: Any, folder: Path, **card: Any) -> Path:
    """Our model as a Hugging Face folder."""
    checkpoint = Checkpoint(Card(model=model.config, **card), dict(model.state_dict()), "native")
    convert(checkpoint, folder, "huggingface")
    return folder


def strictly(cls: Any, folder: Path) -> Any:
    """from_pretrained, and nothing missing, left over or of another size."""
    model, said = cls.from_pretrained(folder, output_loading_info=True)
    assert {name: list(keys) for name, keys in said.items() if keys} == {}
    return model.eval()


@vits
def test_a_vit_of_transformers_gives_the_same_logits_here(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTForImageClassification(hf.ViTConfig(**sizes)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert ours.config.heads == sizes["num_attention_heads"]
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).logits) <= CLOSE


@vits
def test_a_bare_vit_of_transformers_gives_its_pooled_vector_here(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTModel(hf.ViTConfig(**sizes)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert ours.config.classes == 0
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).pooler_output) <= CLOSE


@bits
def test_a_bit_of_transformers_gives_the_same_logits_here(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.BitForImageClassification(hf.BitConfig(**sizes)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).logits) <= CLOSE


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"depth": 4, "width": 64, "heads": 2, "activation": "gelu", "epsilon": 1e-3},
        {"image": (16, 24), "patch": (4, 8), "channels": 1, "biases": "none", "activation": "gelu"},
    ],
    ids=["the official details", "deep, erf and another epsilon", "oblong, grey, no bias"],
)
def test_our_vit_gives_the_same_logits_in_transformers(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    config = replace(OURS, **sizes)
    ours = randomise(build(config))
    theirs = strictly(hf.ViTForImageClassification, written(ours, tmp_path / "folder"))
    x = pictures({"image_size": config.image, "num_channels": config.channels})
    assert difference(theirs(x).logits, ours(x)) <= CLOSE


@pytest.mark.parametrize("hidden", [None, 20], ids=["as wide as the model", "narrower"])
def test_our_hidden_layer_without_a_classifier_is_transformers_pooler(
    hidden: int | None, hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(replace(OURS, classes=0, head=TanhMLP(hidden=hidden))))
    theirs = strictly(hf.ViTModel, written(ours, tmp_path / "folder"))
    x = pictures({"image_size": 16})
    assert difference(theirs(x).pooler_output, ours(x)) <= CLOSE


def test_a_narrow_pooler_of_transformers_is_read(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTModel(hf.ViTConfig(**VITS["square"], pooler_output_size=20)))
    theirs.save_pretrained(tmp_path)
    x = pictures(VITS["square"])
    assert difference(patchwords.load(tmp_path).eval()(x), theirs(x).pooler_output) <= CLOSE


@pytest.mark.parametrize(("units", "width"), [((1, 1), 32), ((2, 1, 2), 32), ((2,), 64)])
def test_our_bit_gives_the_same_logits_in_transformers(
    units: tuple[int, ...],
    width: int,
    hf: ModuleType,
    randomise: Randomise,
    difference: Difference,
    tmp_path: Path,
) -> None:
    ours = randomise(build(ResNetConfig(units=units, width=width, form=TIMM_PRE, image=(64, 64), classes=7)))
    theirs = strictly(hf.BitForImageClassification, written(ours, tmp_path / "folder"))
    assert difference(theirs(pictures({})).logits, ours(pictures({}))) <= CLOSE


def test_what_config_json_says_of_activation_and_epsilon_decides(
    hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    theirs = hf.ViTForImageClassification(hf.ViTConfig(**VITS["deep, tanh and another epsilon"]))
    theirs.save_pretrained(tmp_path / "theirs")
    read = patchwords.load(tmp_path / "theirs").config
    assert (read.activation, read.epsilon) == ("gelu-tanh", 1e-3)
    folder = written(randomise(build(replace(OURS, activation="gelu", epsilon=1e-7))), tmp_path / "ours")
    config = hf.ViTConfig.from_pretrained(folder)
    assert (config.hidden_act, config.layer_norm_eps) == ("gelu", 1e-7)


@pytest.mark.parametrize(
    ("changed", "asked"), [({"hidden_act": "relu"}, "relu"), ({"model_type": "swin"}, "swin")], ids=str
)
def test_a_config_json_that_asks_for_something_else_is_refused(
    changed: dict[str, str], asked: str, randomise: Randomise, tmp_path: Path
) -> None:
    folder = written(randomise(build(OURS)), tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | changed), encoding="utf-8")
    with pytest.raises(ModelError, match=asked):
        patchwords.load(folder)


@pytest.mark.parametrize(
    "changed",
    [{"global_padding": "same"}, {"embedding_dynamic_padding": True}, {"num_groups": 16}],
    ids=["padding", "pooling", "groups"],
)
def test_a_bit_that_computes_otherwise_is_refused_or_computed_so(
    changed: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    sizes = BITS["two stages"]
    theirs = randomise(hf.BitForImageClassification(hf.BitConfig(**sizes | changed)))
    theirs.save_pretrained(tmp_path)
    try:
        ours = patchwords.load(tmp_path).eval()
    except ModelError as error:
        assert next(iter(changed)) in str(error)  # noqa: PT017
    else:
        assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).logits) <= CLOSE


def test_a_pooler_that_computes_otherwise_is_refused_or_computed_so(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTModel(hf.ViTConfig(**VITS["square"], pooler_act="gelu")))
    theirs.save_pretrained(tmp_path)
    x = pictures(VITS["square"])
    try:
        ours = patchwords.load(tmp_path).eval()
    except ModelError as error:
        assert "pooler_act" in str(error)  # noqa: PT017
    else:
        assert difference(ours(x), theirs(x).pooler_output) <= CLOSE


NAMES = ("daisy", "Gänseblümchen", "雛菊", "a, b", "tulip", "5", "")


def test_class_names_are_carried_from_transformers(hf: ModuleType, tmp_path: Path) -> None:
    labels = dict(enumerate(NAMES))
    config = hf.ViTConfig(**{k: v for k, v in VITS["square"].items() if k != "num_labels"}, id2label=labels)
    hf.ViTForImageClassification(config).save_pretrained(tmp_path)
    assert open_checkpoint(tmp_path).card.classes == NAMES


def test_class_names_are_carried_to_transformers(hf: ModuleType, randomise: Randomise, tmp_path: Path) -> None:
    folder = written(randomise(build(OURS)), tmp_path / "folder", classes=NAMES)
    model = strictly(hf.ViTForImageClassification, folder)
    assert model.config.id2label == dict(enumerate(NAMES))
    assert model.config.label2id == {name: i for i, name in enumerate(NAMES)}
    assert open_checkpoint(folder).card.classes == NAMES


def test_placeholder_labels_are_no_class_names(hf: ModuleType, tmp_path: Path) -> None:
    hf.ViTForImageClassification(hf.ViTConfig(**VITS["square"])).save_pretrained(tmp_path)
    assert open_checkpoint(tmp_path).card.classes == ()


SQUASH = Preprocess(size=(16, 16), interpolation="bicubic", mean=(0.1, 0.2, 0.3), deviation=(0.4, 0.5, 0.6))
CROP = replace(SQUASH, fit="crop", crop=0.8, interpolation="bilinear")


@pytest.mark.parametrize("prepared", [SQUASH, CROP], ids=["squash", "crop"])
def test_preprocessing_is_carried_to_transformers_and_back(
    prepared: Preprocess, hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    folder = written(randomise(build(OURS)), tmp_path / "folder", preprocess=prepared)
    processor = hf.AutoImageProcessor.from_pretrained(folder)
    assert type(processor).__name__.startswith("ViT" if prepared.fit == "squash" else "Bit")
    assert tuple(processor.image_mean) == prepared.mean
    assert tuple(processor.image_std) == prepared.deviation
    assert int(processor.resample) == {"bilinear": 2, "bicubic": 3}[prepared.interpolation]
    if prepared.fit == "squash":
        assert (processor.size["height"], processor.size["width"]) == (16, 16)
    else:
        assert processor.size["shortest_edge"] == 20
        assert (processor.crop_size["height"], processor.crop_size["width"]) == (16, 16)
    read = open_checkpoint(folder).card.preprocess
    assert replace(read, crop=prepared.crop) == prepared
    assert prepared.fit == "squash" or read.crop == pytest.approx(prepared.crop)


@pytest.mark.parametrize("fit", ["squash", "crop"])
def test_preprocessing_is_carried_from_transformers(fit: str, hf: ModuleType, tmp_path: Path) -> None:
    hf.ViTForImageClassification(hf.ViTConfig(**VITS["square"])).save_pretrained(tmp_path)
    values = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    if fit == "squash":
        hf.ViTImageProcessor(size={"height": 16, "width": 16}, resample=3, **values).save_pretrained(tmp_path)
    else:
        crop = {"height": 16, "width": 16}
        hf.BitImageProcessor(size={"shortest_edge": 20}, crop_size=crop, resample=2, **values).save_pretrained(tmp_path)
    read = open_checkpoint(tmp_path)
    assert read.card.preprocess == (SQUASH if fit == "squash" else CROP)
    assert read.notes == []


def test_a_processor_that_does_not_normalise_is_no_reason_to_assume_a_half(hf: ModuleType, tmp_path: Path) -> None:
    hf.ViTForImageClassification(hf.ViTConfig(**VITS["square"])).save_pretrained(tmp_path)
    hf.ViTImageProcessor(size={"height": 16, "width": 16}, do_normalize=False).save_pretrained(tmp_path)
    read = open_checkpoint(tmp_path).card.preprocess
    assert (read.mean, read.deviation) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_a_hidden_layer_before_the_classifier_is_refused_and_nothing_is_written(
    randomise: Randomise, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="hidden layer before the classifier"):
        written(randomise(build(replace(OURS, head=TanhMLP()))), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_half_precision_folders_load_as_single(hf: ModuleType, randomise: Randomise, tmp_path: Path) -> None:
    theirs = randomise(hf.ViTForImageClassification(hf.ViTConfig(**VITS["square"]))).half()
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path)
    assert {p.dtype for p in ours.parameters()} == {torch.float32}
    assert torch.equal(ours.head.classifier.weight, theirs.classifier.weight.float())


def test_several_shards_load_as_one_file(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTForImageClassification(hf.ViTConfig(**VITS["square"])))
    theirs.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    x = pictures(VITS["square"])
    assert difference(patchwords.load(tmp_path).eval()(x), theirs(x).logits) <= CLOSE
