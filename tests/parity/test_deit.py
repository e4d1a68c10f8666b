"""Live beside transformers' DeiT, with and without a teacher's classifier: its folders load here, ours there."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords.errors import ModelError
from patchwords.layers.head import Linear, TanhMLP
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import Learned1D
from patchwords.models.build import build
from patchwords.models.deit import distilled
from patchwords.models.vit import ViTConfig
from patchwords.weights import files
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]

CLOSE = 2e-5
SIZES: dict[str, dict[str, Any]] = {
    "square": {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
    | {"image_size": 16, "patch_size": 4, "num_labels": 7},
    "oblong, grey, tanh, no bias": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    | {"intermediate_size": 64, "image_size": [16, 24], "patch_size": [4, 8], "num_labels": 5, "num_channels": 1}
    | {"qkv_bias": False, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-3},
}
sizes_of = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)

TINY = ViTConfig(depth=2, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16), classes=7)
BOTH = distilled(TINY)
PLAIN = replace(BOTH, pool=ClassToken(), head=Linear())  # the token is there, and no head asks it


def pictures(sizes: dict[str, Any]) -> Tensor:
    size = sizes.get("image_size", 16)
    height, width = (size, size) if isinstance(size, int) else size
    noise = torch.rand(2, sizes.get("num_channels", 3), height, width, generator=torch.Generator().manual_seed(1))
    return 2 * noise - 1


def written(model: Any, folder: Path) -> Path:
    convert(Checkpoint(Card(model=model.config), dict(model.state_dict()), "native"), folder, "huggingface")
    return folder


def strictly(cls: Any, folder: Path) -> Any:
    """from_pretrained, and nothing missing, left over or of another size."""
    model, said = cls.from_pretrained(folder, output_loading_info=True)
    assert {name: list(keys) for name, keys in said.items() if keys} == {}
    return model.eval()


def same_file(found: Path, wanted: Path) -> None:
    """Every tensor of two folders has the same name and bits."""
    ours, theirs = files.read(found).tensors, files.read(wanted).tensors
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@sizes_of
def test_a_deit_with_a_teacher_gives_the_same_logits_here_by_both_classifiers(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**sizes)))
    theirs.save_pretrained(tmp_path / "theirs")
    ours, x = patchwords.load(tmp_path / "theirs").eval(), pictures(sizes)
    by_label, by_teacher = ours.pair(x)
    wanted = theirs(x)
    assert difference(ours(x), wanted.logits) <= CLOSE
    assert difference(by_label, wanted.cls_logits) <= CLOSE
    assert difference(by_teacher, wanted.distillation_logits) <= CLOSE
    convert(open_checkpoint(tmp_path / "theirs"), tmp_path / "ours", "huggingface")
    same_file(tmp_path / "ours", tmp_path / "theirs")


@sizes_of
def test_a_plain_deit_gives_the_same_logits_here_by_its_class_token(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.DeiTForImageClassification(hf.DeiTConfig(**sizes)))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = patchwords.load(tmp_path / "theirs").eval()
    assert ours.config.special == ("class", "distillation")
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).logits) <= CLOSE
    convert(open_checkpoint(tmp_path / "theirs"), tmp_path / "ours", "huggingface")
    same_file(tmp_path / "ours", tmp_path / "theirs")


@sizes_of
def test_a_bare_deit_gives_its_pooled_vector_here(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.DeiTModel(hf.DeiTConfig(**sizes)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert ours.config.classes == 0
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).pooler_output) <= CLOSE


@pytest.mark.parametrize(
    "changes",
    [{}, {"image": (16, 24), "patch": (4, 8), "channels": 1, "biases": "none", "activation": "gelu", "epsilon": 1e-3}],
    ids=["the official details", "oblong, grey, no bias"],
)
def test_our_distilled_model_gives_the_same_logits_in_transformers(
    changes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(replace(BOTH, **changes)))
    theirs = strictly(hf.DeiTForImageClassificationWithTeacher, written(ours, tmp_path / "folder"))
    x = pictures({"image_size": ours.config.image, "num_channels": ours.config.channels})
    by_label, by_teacher = ours.pair(x)
    found = theirs(x)
    assert difference(found.logits, ours(x)) <= CLOSE
    assert difference(found.cls_logits, by_label) <= CLOSE
    assert difference(found.distillation_logits, by_teacher) <= CLOSE


def test_our_model_with_an_unasked_distillation_token_is_a_plain_deit(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(PLAIN))
    theirs = strictly(hf.DeiTForImageClassification, written(ours, tmp_path / "folder"))
    assert difference(theirs(pictures({})).logits, ours(pictures({}))) <= CLOSE


def test_our_hidden_layer_without_a_classifier_is_deits_pooler(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(replace(PLAIN, classes=0, head=TanhMLP())))
    theirs = strictly(hf.DeiTModel, written(ours, tmp_path / "folder"))
    assert difference(theirs(pictures({})).pooler_output, ours(pictures({}))) <= CLOSE


@pytest.mark.parametrize("cls", ["DeiTForImageClassificationWithTeacher", "DeiTForImageClassification", "DeiTModel"])
def test_the_names_in_memory_are_read_like_those_of_files(
    cls: str, hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    theirs = randomise(getattr(hf, cls)(hf.DeiTConfig(**SIZES["square"])))
    theirs.save_pretrained(tmp_path / "folder")
    torch.save(theirs.state_dict(), tmp_path / "memory.pth")
    found, wanted = open_checkpoint(tmp_path / "memory.pth", heads=3), open_checkpoint(tmp_path / "folder")
    assert found.state.keys() == wanted.state.keys()
    assert all(torch.equal(found.state[name], wanted.state[name]) for name in wanted.state)


REFUSED: dict[str, tuple[ViTConfig, str]] = {
    "no classes": (replace(BOTH, classes=0), "a distilled model without classes"),
    "a register": (replace(BOTH, special=(*BOTH.special, "register")), "no place for .*register_token"),
    "no rows": (replace(BOTH, position=Learned1D(over="patches")), "a position for every token"),
    "a mean": (replace(PLAIN, pool=Mean()), "their pool"),
    "a hidden layer": (replace(PLAIN, head=TanhMLP()), "a hidden layer before the classifier"),
}


@pytest.mark.parametrize(("config", "said"), REFUSED.values(), ids=REFUSED)
def test_what_transformers_deit_cannot_compute_is_refused(config: ViTConfig, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=said):
        written(build(config), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_config_json_of_another_kind_of_model_is_refused(hf: ModuleType, tmp_path: Path) -> None:
    hf.DeiTForImageClassification(hf.DeiTConfig(**SIZES["square"])).save_pretrained(tmp_path)
    text = (tmp_path / "config.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text(text.replace('"deit"', '"vit"'), encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json says model_type = 'vit', the weights are of 'deit'"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("kind", ["DeiT", "ViT"])
def test_a_model_of_masked_pictures_is_its_encoder_here_and_the_rest_is_said(
    kind: str, hf: ModuleType, tmp_path: Path
) -> None:
    config = getattr(hf, f"{kind}Config")(**SIZES["square"], encoder_stride=4)
    theirs = getattr(hf, f"{kind}ForMaskedImageModeling")(config)
    theirs.save_pretrained(tmp_path / "theirs")
    found = open_checkpoint(tmp_path / "theirs")
    assert found.card.model.classes == 0
    assert [note for note in found.notes if "decoder.0.weight" in note and "embeddings.mask_token" in note]
    ours, images = patchwords.load(tmp_path / "theirs").eval(), pictures(SIZES["square"])
    states = theirs.eval()(images, output_hidden_states=True).hidden_states
    theirs_last = states[-1][:, -16:].mT.unflatten(2, (4, 4))
    torch.testing.assert_close(ours.features(images, [2])[0], theirs_last, atol=CLOSE, rtol=0)
