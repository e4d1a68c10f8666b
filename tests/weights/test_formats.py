"""Every model in every format that can hold it, there and back to the bit; every layout is known by its keys."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import patchwords
from patchwords.data.preprocess import IMAGENET
from patchwords.errors import ModelError, PatchwordsError, UsageError
from patchwords.layers.bottleneck import POST, PRE
from patchwords.layers.head import Linear, TanhMLP
from patchwords.layers.pool import Attend, ClassToken, Mean
from patchwords.layers.position import Fixed1D, Learned1D, Learned2D, NoPosition, Relative, RelativeBias, SinCos2D
from patchwords.models.deit import distilled
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import ViTConfig
from patchwords.weights import files
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert, structure
from patchwords.weights.recognise import choose, recognise

State = dict[str, Tensor]
Sizes = dict[str, tuple[int, ...]]
Open = Callable[..., Checkpoint]

TINY = ViTConfig(depth=2, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16), classes=7)
PATCHES = replace(TINY, special=(), pool=Mean())
REGISTERS = replace(TINY, special=("class", "register", "register", "register"))
BEIT = replace(TINY, position=RelativeBias(), biases="qv", layer_scale=0.1, pool=Mean(norm="after"))
HYBRID = replace(TINY, patch=(1, 1), image=(32, 32), stem=ResNetStem(units=(2, 1), width=32))
BIT = ResNetConfig(units=(2, 1), width=32, classes=7)

KINDS: dict[str, Config] = {
    "class token": TINY,
    "pre-logits": replace(TINY, head=TanhMLP()),
    "narrow pre-logits": replace(TINY, head=TanhMLP(hidden=20)),
    "pooler": replace(TINY, classes=0, head=TanhMLP()),
    "no classes": replace(TINY, classes=0),
    "grey": replace(TINY, channels=1),
    "oblong": replace(TINY, image=(16, 24), patch=(8, 4)),
    "gap": PATCHES,
    "gap, norm after": replace(PATCHES, pool=Mean(norm="after")),
    "gap beside a class token": replace(TINY, pool=Mean(norm="after")),
    "map": replace(PATCHES, pool=Attend()),
    "map over all tokens": replace(TINY, pool=Attend()),
    "map over patches": replace(TINY, pool=Attend(over="patches")),
    "map with pre-logits": replace(PATCHES, pool=Attend(), head=TanhMLP()),
    "registers": REGISTERS,
    "registers without rows": replace(REGISTERS, position=Learned1D(over="patches")),
    "registers, a row for the class": replace(REGISTERS, position=Learned1D(over="class")),
    "no class row": replace(TINY, position=Learned1D(over="patches")),
    "layer scale": replace(TINY, layer_scale=0.1),
    "no qkv bias": replace(TINY, biases="none"),
    "sincos": replace(TINY, position=SinCos2D()),
    "fixed table": replace(TINY, position=Fixed1D()),
    "mae encoder": replace(TINY, position=Fixed1D(), classes=0),
    "mae": replace(TINY, position=Fixed1D(), pool=Mean(norm="after")),
    "distilled": distilled(TINY),
    "distilled, no classes": distilled(replace(TINY, classes=0)),
    "distillation token unasked": replace(distilled(TINY), pool=ClassToken(), head=Linear()),
    "beit": BEIT,
    "beit, one table": replace(BEIT, position=RelativeBias(at="shared"), pool=ClassToken(), classes=0),
    "beit, positions": replace(BEIT, position=Learned1D(), layer_scale=None),
    "beit, no positions": replace(BEIT, position=NoPosition()),
    "beit, oblong": replace(BEIT, image=(16, 24), patch=(4, 8), channels=1),
    "beit, no biases": replace(BEIT, biases="none"),
    "hybrid": HYBRID,
    "root hybrid": replace(TINY, patch=(2, 2), image=(32, 32), stem=ResNetStem(units=(), width=32)),
    "bit": BIT,
    "resnet": replace(BIT, form=POST),
}
OFFICIAL = ["class token", "pre-logits", "narrow pre-logits", "pooler", "no classes", "grey", "oblong", "gap", "map"]
OFFICIAL += ["map over all tokens", "map with pre-logits", "no class row", "hybrid", "root hybrid"]
OFFICIAL += ["fixed table", "mae encoder"]
HOLDS = {
    "official": [*OFFICIAL, "bit", "resnet"],
    "big_vision": [*OFFICIAL, "sincos"],
    "timm": [k for k in KINDS if k not in ("sincos", "map over all tokens", "distillation token unasked")],
    "huggingface": [
        *("class token", "pooler", "no classes", "grey", "oblong", "no qkv bias", "bit"),
        *("beit", "beit, one table", "beit, positions", "beit, no positions"),
        *("fixed table", "mae encoder", "distilled", "distillation token unasked"),
    ],
    "torchvision": ["class token", "pre-logits", "narrow pre-logits", "grey", "fixed table"],
    "native": list(KINDS),
}
HOME = {"official": "f.npz", "big_vision": "f.npz", "huggingface": "folder", "torchvision": "f.pth"}
PAIRS = [(kind, format) for format, kinds in HOLDS.items() for kind in kinds]
NATIVE_ONLY: dict[str, Config] = {
    "stream-norm block": replace(TINY, block="stream-norm"),
    "axial": replace(PATCHES, encoder="axial"),
    "relative positions": replace(TINY, position=Relative()),
    "2-d positions": replace(TINY, position=Learned2D()),
    "positions in every layer": replace(TINY, position=Learned1D(at="every")),
    "no positions": replace(TINY, position=NoPosition()),
    "another law of sines": replace(TINY, position=SinCos2D(law="mae")),
    "mean beside a class token, norm before": replace(TINY, pool=Mean()),
    "pre-activation stem": replace(HYBRID, stem=ResNetStem(units=(2, 1), width=32, form=PRE)),
}
BEYOND_FLAX = ["gap, norm after", "gap beside a class token", "map over patches", "registers", "layer scale"]
BEYOND_FLAX += ["no qkv bias", *(kind for kind in KINDS if kind.startswith(("beit", "distil")) or kind == "mae")]
CANNOT: dict[str, list[str]] = {
    "official": [*BEYOND_FLAX, "sincos"],
    "big_vision": [*BEYOND_FLAX, "bit", "resnet"],
    "timm": ["sincos", "map over all tokens", "distillation token unasked"],
    "huggingface": [k for k in KINDS if k not in HOLDS["huggingface"]],
    "torchvision": [k for k in KINDS if k not in [*HOLDS["torchvision"], "pooler", "no classes", "mae encoder"]],
}
REFUSED = [(KINDS[kind], format) for format, kinds in CANNOT.items() for kind in kinds]
REFUSED += [(config, format) for format in CANNOT for config in NATIVE_ONLY.values()]
REFUSED_IDS = [f"{kind} in {format}" for format, kinds in CANNOT.items() for kind in kinds]
REFUSED_IDS += [f"{kind} in {format}" for format in CANNOT for kind in NATIVE_ONLY]


def spoken(config: Config, format: str) -> Config:
    """The configuration with the small numbers that the format's library computes with."""
    if format == "native":
        return config
    found = choose(format, config)
    if isinstance(config, ResNetConfig):
        return replace(config, form=found.forms[config.form.activation])
    stem = config.stem and replace(config.stem, form=found.forms["post"])
    return replace(config, stem=stem, **found.computes)


def home(folder: Path, format: str) -> Path:
    return folder / HOME.get(format, "f.safetensors")


def same(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    assert sorted(found) == sorted(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize(("kind", "format"), PAIRS)
def test_a_model_comes_back_as_it_was_written(kind: str, format: str, checkpoint: Open, tmp_path: Path) -> None:
    config = spoken(KINDS[kind], format)
    wanted = checkpoint(config)
    notes = convert(wanted, home(tmp_path, format), format)
    assert [note for note in notes if "computes with" in note] == []
    options = {"heads": 3 if isinstance(config, ViTConfig) else None, "image": config.image}
    found = open_checkpoint(home(tmp_path, format), **options)
    assert found.format == format
    assert structure(found.card.model) == structure(config)
    same(found.state, wanted.state)


def test_every_kind_of_model_comes_back_from_a_native_file_whole(
    small_config: Config, checkpoint: Open, tmp_path: Path
) -> None:
    wanted = checkpoint(small_config)
    assert convert(wanted, tmp_path / "f.safetensors", "native") == []
    found = open_checkpoint(tmp_path / "f.safetensors")
    assert found.card == wanted.card  # what only training needs, too
    same(found.state, wanted.state)


@pytest.mark.parametrize(("config", "format"), REFUSED, ids=REFUSED_IDS)
def test_what_a_format_cannot_say_is_refused_and_nothing_is_written(
    config: Config, format: str, checkpoint: Open, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=rf"{format} (format|checkpoint).*native holds everything"):
        convert(checkpoint(config), home(tmp_path, format), format)
    assert list(tmp_path.iterdir()) == []


# ---- Foreign files, named and shaped as their libraries do, by hand.


def official(
    *,
    attention: str = "MultiHeadDotProductAttention_1",
    norm: str = "LayerNorm_2",
    mlp: str = "MlpBlock_3",
    positions: str = "Transformer/posembed_input/pos_embedding",
    rows: int = 17,
) -> Sizes:
    sizes: Sizes = {
        "cls": (1, 1, 48),
        "embedding/kernel": (4, 4, 3, 48),
        "embedding/bias": (48,),
        positions: (1, rows, 48),
        "Transformer/encoder_norm/scale": (48,),
        "Transformer/encoder_norm/bias": (48,),
        "head/kernel": (48, 7),
        "head/bias": (7,),
    }
    for i in range(2):
        block = f"Transformer/encoderblock_{i}"
        sizes |= {f"{block}/{n}/{leaf}": (48,) for n in ("LayerNorm_0", norm) for leaf in ("scale", "bias")}
        sizes |= {f"{block}/{attention}/{n}/kernel": (48, 3, 16) for n in ("query", "key", "value")}
        sizes |= {f"{block}/{attention}/{n}/bias": (3, 16) for n in ("query", "key", "value")}
        sizes |= {f"{block}/{attention}/out/kernel": (3, 16, 48), f"{block}/{attention}/out/bias": (48,)}
        sizes |= {f"{block}/{mlp}/Dense_0/kernel": (48, 96), f"{block}/{mlp}/Dense_0/bias": (96,)}
        sizes |= {f"{block}/{mlp}/Dense_1/kernel": (96, 48), f"{block}/{mlp}/Dense_1/bias": (48,)}
    return sizes


LINEN = {"attention": "MultiHeadDotProductAttention_0", "norm": "LayerNorm_1", "mlp": "MlpBlock_0"}


def linen(positions: str = "pos_embedding", rows: int = 17) -> Sizes:
    return official(**LINEN, positions=positions, rows=rows)


def map_head(path: str = "MAPHead_0/") -> Sizes:
    """big_vision's models with an attention pool have no class token."""
    sizes = {name: size for name, size in linen(rows=16).items() if name != "cls"}
    attention = f"{path}MultiHeadDotProductAttention_0"
    sizes |= {f"{path}probe": (1, 1, 48), f"{path}LayerNorm_0/scale": (48,), f"{path}LayerNorm_0/bias": (48,)}
    sizes |= {f"{attention}/{n}/kernel": (48, 3, 16) for n in ("query", "key", "value")}
    sizes |= {f"{attention}/{n}/bias": (3, 16) for n in ("query", "key", "value")}
    sizes |= {f"{attention}/out/kernel": (3, 16, 48), f"{attention}/out/bias": (48,)}
    sizes |= {f"{path}MlpBlock_0/Dense_0/kernel": (48, 96), f"{path}MlpBlock_0/Dense_0/bias": (96,)}
    return sizes | {f"{path}MlpBlock_0/Dense_1/kernel": (96, 48), f"{path}MlpBlock_0/Dense_1/bias": (48,)}


def resnet() -> Sizes:
    """The stem of a hybrid, two stages of one unit."""
    sizes: Sizes = {"conv_root/kernel": (7, 7, 3, 32), "gn_root/scale": (1, 1, 1, 32), "gn_root/bias": (1, 1, 1, 32)}
    for b, (inputs, middle) in enumerate([(32, 32), (128, 64)], 1):
        unit, outputs = f"block{b}/unit1", 4 * middle
        kernels = {"conv1": (1, 1, inputs, middle), "conv2": (3, 3, middle, middle), "conv3": (1, 1, middle, outputs)}
        sizes |= {f"{unit}/{n}/kernel": size for n, size in kernels.items()}
        sizes |= {f"{unit}/conv_proj/kernel": (1, 1, inputs, outputs)}
        norms = {"gn1": middle, "gn2": middle, "gn3": outputs, "gn_proj": outputs}
        sizes |= {f"{unit}/{n}/{leaf}": (1, 1, 1, size) for n, size in norms.items() for leaf in ("scale", "bias")}
    return sizes


def hybrid() -> Sizes:
    return official() | {"embedding/kernel": (1, 1, 256, 48)} | resnet()


def tensorflow_bit() -> Sizes:
    conv = "standardized_conv2d/kernel"
    sizes: Sizes = {f"resnet/root_block/{conv}": (7, 7, 3, 32)}
    for b, (inputs, middle) in enumerate([(32, 32), (128, 64)], 1):
        unit, outputs = f"resnet/block{b}/unit01", 4 * middle
        kernels = {"a": (1, 1, inputs, middle), "b": (3, 3, middle, middle), "c": (1, 1, middle, outputs)}
        sizes |= {f"{unit}/{n}/{conv}": size for n, size in kernels.items()}
        sizes |= {f"{unit}/a/proj/{conv}": (1, 1, inputs, outputs)}
        norms = {"a": inputs, "b": middle, "c": middle}
        sizes |= {f"{unit}/{n}/group_norm/{x}": (size,) for n, size in norms.items() for x in ("gamma", "beta")}
    sizes |= {"resnet/group_norm/gamma": (256,), "resnet/group_norm/beta": (256,)}
    return sizes | {"resnet/head/conv2d/kernel": (1, 1, 256, 7), "resnet/head/conv2d/bias": (7,)}


def pairs(sizes: Mapping[str, tuple[int, ...]]) -> Sizes:
    """torch's layers: a weight, and a bias as long as its first axis."""
    both = {f"{name}.weight": size for name, size in sizes.items()}
    return both | {f"{name}.bias": size[:1] for name, size in sizes.items()}


def timm(rows: int = 17) -> Sizes:
    sizes: Sizes = {"cls_token": (1, 1, 48), "pos_embed": (1, rows, 48)}
    sizes |= pairs({"patch_embed.proj": (48, 3, 4, 4), "norm": (48,), "head": (7, 48)})
    for i in range(2):
        layers = {"norm1": (48,), "attn.qkv": (144, 48), "attn.proj": (48, 48), "norm2": (48,)}
        layers |= {"mlp.fc1": (96, 48), "mlp.fc2": (48, 96)}
        sizes |= pairs({f"blocks.{i}.{name}": size for name, size in layers.items()})
    return sizes


def timm_map() -> Sizes:
    sizes = {name: size for name, size in timm(rows=16).items() if name != "cls_token"}
    layers = {"q": (48, 48), "kv": (96, 48), "proj": (48, 48), "norm": (48,), "mlp.fc1": (96, 48), "mlp.fc2": (48, 96)}
    return sizes | {"attn_pool.latent": (1, 1, 48)} | pairs({f"attn_pool.{n}": size for n, size in layers.items()})


def timm_average() -> Sizes:
    return {name.replace("norm.", "fc_norm.") if name.startswith("norm.") else name: s for name, s in timm().items()}


def timm_distilled() -> Sizes:
    return timm(rows=18) | {"dist_token": (1, 1, 48)} | pairs({"head_dist": (7, 48)})


def timm_units(path: str) -> Sizes:
    sizes: Sizes = {f"{path}stem.conv.weight": (32, 3, 7, 7)} | pairs({f"{path}stem.norm": (32,)})
    for b, (inputs, middle) in enumerate([(32, 32), (128, 64)]):
        unit, outputs = f"{path}stages.{b}.blocks.0", 4 * middle
        kernels = {"conv1": (middle, inputs, 1, 1), "conv2": (middle, middle, 3, 3), "conv3": (outputs, middle, 1, 1)}
        kernels |= {"downsample.conv": (outputs, inputs, 1, 1)}
        sizes |= {f"{unit}.{n}.weight": size for n, size in kernels.items()}
        norms = {"norm1": (middle,), "norm2": (middle,), "norm3": (outputs,), "downsample.norm": (outputs,)}
        sizes |= pairs({f"{unit}.{n}": size for n, size in norms.items()})
    return sizes


def timm_hybrid() -> Sizes:
    return timm() | {"patch_embed.proj.weight": (48, 256, 1, 1)} | timm_units("patch_embed.backbone.")


def timm_root_hybrid() -> Sizes:
    stem: Sizes = {"patch_embed.backbone.conv.weight": (32, 3, 7, 7)} | pairs({"patch_embed.backbone.norm": (32,)})
    return timm() | {"patch_embed.proj.weight": (48, 32, 2, 2)} | stem


def huggingface(prefix: str = "vit.", memory: bool = False) -> Sizes:
    embeddings = f"{prefix}embeddings"
    sizes: Sizes = {f"{embeddings}.cls_token": (1, 1, 48), f"{embeddings}.position_embeddings": (1, 17, 48)}
    sizes |= pairs({f"{embeddings}.patch_embeddings.projection": (48, 3, 4, 4), f"{prefix}layernorm": (48,)})
    if prefix:
        sizes |= pairs({"classifier": (7, 48)})
    else:
        sizes |= pairs({"pooler.dense": (48, 48)})
    for i in range(2):
        layers = {"layernorm_before": (48,), "layernorm_after": (48,)}
        if memory:
            layers |= {f"attention.{n}_proj": (48, 48) for n in "qkvo"} | {"mlp.fc1": (96, 48), "mlp.fc2": (48, 96)}
        else:
            layers |= {f"attention.attention.{n}": (48, 48) for n in ("query", "key", "value")}
            layers |= {"attention.output.dense": (48, 48), "intermediate.dense": (96, 48), "output.dense": (48, 96)}
        block = f"{prefix}layers.{i}" if memory else f"{prefix}encoder.layer.{i}"
        sizes |= pairs({f"{block}.{name}": size for name, size in layers.items()})
    return sizes


def huggingface_distilled() -> Sizes:
    sizes = {name.replace("classifier", "cls_classifier"): size for name, size in huggingface("deit.").items()}
    sizes["deit.embeddings.position_embeddings"] = (1, 18, 48)
    return sizes | {"deit.embeddings.distillation_token": (1, 1, 48)} | pairs({"distillation_classifier": (7, 48)})


def torchvision(first: str = "0", second: str = "3") -> Sizes:
    sizes: Sizes = {"class_token": (1, 1, 48), "encoder.pos_embedding": (1, 17, 48)}
    sizes |= pairs({"conv_proj": (48, 3, 4, 4), "encoder.ln": (48,), "heads.head": (7, 48)})
    for i in range(2):
        block = f"encoder.layers.encoder_layer_{i}"
        layers = {"ln_1": (48,), "self_attention.out_proj": (48, 48), "ln_2": (48,)}
        layers |= {f"mlp.{first}": (96, 48), f"mlp.{second}": (48, 96)}
        sizes |= pairs({f"{block}.{name}": size for name, size in layers.items()})
        sizes |= {f"{block}.self_attention.in_proj_weight": (144, 48), f"{block}.self_attention.in_proj_bias": (144,)}
    return sizes


FOREIGN: dict[str, tuple[str, Sizes]] = {
    "official": ("official", official()),
    "official with pre-logits": ("official", official() | {"pre_logits/kernel": (48, 48), "pre_logits/bias": (48,)}),
    "official hybrid": ("official", hybrid()),
    "official resnet": ("official", resnet() | {"head/kernel": (256, 7), "head/bias": (7,)}),
    "tensorflow bit": ("official", tensorflow_bit()),
    "big_vision": ("big_vision", {f"params/{name}": size for name, size in linen().items()}),
    "big_vision, no class row": ("big_vision", {f"params/{name}": size for name, size in linen(rows=16).items()}),
    "big_vision map": ("big_vision", {f"params/{name}": size for name, size in map_head().items()}),
    "timm": ("timm", timm()),
    "timm average": ("timm", timm_average()),
    "timm map": ("timm", timm_map()),
    "timm registers": ("timm", timm(rows=16) | {"reg_token": (1, 4, 48)}),
    "timm layer scale": ("timm", timm() | {f"blocks.{i}.ls{n}.gamma": (48,) for i in range(2) for n in (1, 2)}),
    "timm pre-logits": ("timm", timm() | pairs({"pre_logits.fc": (48, 48)})),
    "timm distilled": ("timm", timm_distilled()),
    "timm hybrid": ("timm", timm_hybrid()),
    "timm root hybrid": ("timm", timm_root_hybrid()),
    "transformers": ("huggingface", huggingface()),
    "transformers distilled": ("huggingface", huggingface_distilled()),
    "torchvision": ("torchvision", torchvision()),
    "torchvision with pre-logits": ("torchvision", torchvision() | pairs({"heads.pre_logits": (48, 48)})),
}
foreign = pytest.mark.parametrize(("format", "sizes"), FOREIGN.values(), ids=FOREIGN)
PLAIN = ["official", "official hybrid", "official resnet", "tensorflow bit", "big_vision", "timm", "timm hybrid"]
PLAIN += ["transformers", "torchvision", "timm distilled", "transformers distilled"]
plain = pytest.mark.parametrize(("format", "sizes"), [FOREIGN[name] for name in PLAIN], ids=PLAIN)


def drawn(sizes: Sizes) -> State:
    generator = torch.Generator().manual_seed(5)
    return {name: torch.randn(size, generator=generator) for name, size in sizes.items()}


def single(folder: Path, format: str, name: str = "theirs") -> Path:
    """A file, not a folder, that may hold the format."""
    return folder / f"{name}{'.npz' if format in ('official', 'big_vision') else '.safetensors'}"


def opened(tensors: Mapping[str, Tensor], folder: Path, format: str, **told: object) -> Checkpoint:
    files.write(single(folder, format), tensors)
    return open_checkpoint(single(folder, format), heads=3, **told)  # type: ignore[arg-type]


@foreign
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_foreign_file_written_again_is_the_same_file(
    format: str, sizes: Sizes, dtype: torch.dtype, tmp_path: Path
) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in drawn(sizes).items()}
    checkpoint = opened(tensors, tmp_path, format)
    assert checkpoint.format == format
    convert(checkpoint, single(tmp_path, format, "ours"), format)
    same(files.read(single(tmp_path, format, "ours")).tensors, tensors)


@foreign
def test_a_foreign_file_keeps_its_weights_in_any_other_format_that_can_hold_it(
    format: str, sizes: Sizes, tmp_path: Path
) -> None:
    wanted = opened(drawn(sizes), tmp_path, format)
    for other in HOLDS:
        try:
            convert(wanted, home(tmp_path, other), other)
        except ModelError:
            continue
        found = open_checkpoint(home(tmp_path, other), heads=3, image=wanted.card.model.image)
        assert found.format == other
        same(found.state, wanted.state)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_files_of_another_precision_keep_it_when_converted_and_load_as_single(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    tensors = {name: tensor.to(dtype) for name, tensor in drawn(timm()).items()}
    checkpoint = opened(tensors, tmp_path, "timm")
    for other in ("native", "official", "huggingface", "torchvision"):
        convert(checkpoint, home(tmp_path, other), other)
        assert {x.dtype for x in files.read(home(tmp_path, other)).tensors.values()} == {dtype}
        model = patchwords.load(home(tmp_path, other), heads=3)
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
        assert torch.equal(model.head.classifier.weight, tensors["head.weight"].float())


# ---- The layouts of the same weights.


def reference(tmp_path: Path) -> Checkpoint:
    """The plain official file that the other layouts say again."""
    return opened(drawn(official()), tmp_path, "official")


def renamed(names: Sizes) -> State:
    """The reference's tensors under the names of another layout, which has the same order."""
    tensors = drawn(official())
    assert len(names) == len(tensors)
    return dict(zip(names, tensors.values(), strict=True))


def stacked(tensors: State) -> State:
    """The blocks of a model as Flax scans them: one array with the depth as its first axis."""
    leaves = [name.split("encoderblock_0/")[1] for name in tensors if "encoderblock_0/" in name]
    rest = {name: tensor for name, tensor in tensors.items() if "encoderblock_" not in name}
    blocks = "Transformer/encoderblock_{}/{}"
    stacks = {leaf: torch.stack([tensors[blocks.format(i, leaf)] for i in range(2)]) for leaf in leaves}
    return rest | {f"Transformer/encoderblock/{leaf}": stack for leaf, stack in stacks.items()}


def prefixed(prefix: str, tensors: State) -> State:
    return {prefix + name: tensor for name, tensor in tensors.items()}


LAYOUTS: dict[str, tuple[str, State]] = {
    "training checkpoint": ("official", prefixed("opt/target/", renamed(official()))),
    "linen, no prefix": ("big_vision", renamed(linen())),
    "params/": ("big_vision", prefixed("params/", renamed(linen()))),
    "params/img/": ("big_vision", prefixed("params/img/", renamed(linen()))),
    "scanned": ("big_vision", stacked(renamed(linen()))),
    "params/ scanned": ("big_vision", prefixed("params/", stacked(renamed(linen())))),
    **{
        f"positions at {place}": ("official", renamed(official(positions=place)))
        for place in ("Transformer/pos_embedding", "pos_embedding")
    },
    **{
        f"linen, positions at {place}": ("big_vision", renamed(linen(positions=place)))
        for place in ("Transformer/pos_embedding", "Transformer/posembed_input/pos_embedding")
    },
}


@pytest.mark.parametrize(("format", "tensors"), LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_of_flax_is_read_alike(format: str, tensors: State, tmp_path: Path) -> None:
    wanted = reference(tmp_path)
    found = opened(tensors, tmp_path, format)
    assert found.format == format
    assert structure(found.card.model) == structure(wanted.card.model)
    same(found.state, wanted.state)


@pytest.mark.parametrize(
    ("prefix", "other"),
    [
        ("opt/target/", "opt/state/param_states/cls/grad_ema"),
        ("params/", "opt/0/cls"),
        ("params/img/", "params/txt/head/bias"),
        ("params/img/", "params/t"),
    ],
)
def test_what_stands_beside_the_weights_of_a_training_checkpoint_is_said(
    prefix: str, other: str, tmp_path: Path
) -> None:
    tensors = prefixed(prefix, renamed(official() if prefix == "opt/target/" else linen()))
    found = opened(tensors | {other: torch.zeros(1, 1, 48)}, tmp_path, "big_vision")
    same(found.state, reference(tmp_path).state)
    assert any(other in note for note in found.notes)


def test_bfloat16_in_an_npz_is_read_from_its_bits(tmp_path: Path) -> None:
    tensors = {name: tensor.bfloat16() for name, tensor in drawn(linen()).items()}
    bits = {name: tensor.view(torch.int16).numpy() for name, tensor in tensors.items()}
    np.savez(tmp_path / "theirs.npz", **{name: array.view("V2") for name, array in bits.items()})  # type: ignore[arg-type]
    with np.load(tmp_path / "theirs.npz") as stored:
        assert stored["cls"].dtype == np.dtype("V2")
    found = open_checkpoint(tmp_path / "theirs.npz")
    assert torch.equal(found.state["embed.special.class_token"], tensors["cls"])
    assert found.state["embed.special.class_token"].dtype == torch.bfloat16
    assert torch.equal(patchwords.load(tmp_path / "theirs.npz").head.classifier.bias, tensors["head/bias"].float())


@pytest.mark.parametrize("sizes", [hybrid(), FOREIGN["official resnet"][1]], ids=["hybrid", "resnet"])
def test_group_norms_are_read_with_and_without_the_ones(sizes: Sizes, tmp_path: Path) -> None:
    tensors = drawn(sizes)
    flat = {name: x.flatten() if x.shape[:3] == (1, 1, 1) else x for name, x in tensors.items()}
    assert any(flat[name].shape != tensors[name].shape for name in flat)
    wanted = opened(tensors, tmp_path, "official")
    same(opened(flat, tmp_path, "official").state, wanted.state)


def test_bits_numbered_convolutions_are_read_and_a_second_copy_is_refused(tmp_path: Path) -> None:
    tensors = drawn(tensorflow_bit())
    wanted = opened(tensors, tmp_path, "official")
    convs = [name for name in tensors if "standardized_conv2d/" in name]
    names = {name: name.replace("conv2d/", f"conv2d_{n}/") for n, name in enumerate(convs)}
    same(
        opened({names.get(name, name): x for name, x in tensors.items()}, tmp_path, "official").state,
        wanted.state,
    )
    with pytest.raises(ModelError, match=r"both hold root\.conv\.weight"):
        opened(tensors | {names[convs[0]]: tensors[convs[0]]}, tmp_path, "official")


def test_the_attention_pool_is_read_at_its_old_place_and_its_new_one(tmp_path: Path) -> None:
    new = drawn(map_head())
    old = {name.replace("MAPHead_0/", ""): tensor for name, tensor in new.items()}
    wanted = opened(new, tmp_path, "big_vision")
    assert wanted.card.model.pool == Attend()  # type: ignore[union-attr]
    same(opened(old, tmp_path, "big_vision").state, wanted.state)


def test_torchvisions_old_names_are_read_alike(tmp_path: Path) -> None:
    new = drawn(torchvision())
    old = dict(zip(torchvision("linear_1", "linear_2"), new.values(), strict=True))
    assert old.keys() != new.keys()
    same(opened(old, tmp_path, "torchvision").state, opened(new, tmp_path, "torchvision").state)


def test_deit_iiis_names_of_layer_scale_are_read_alike(tmp_path: Path) -> None:
    new = drawn(FOREIGN["timm layer scale"][1])
    old = {re.sub(r"ls(\d)\.gamma", r"gamma_\1", name): tensor for name, tensor in new.items()}
    assert old.keys() != new.keys()
    same(opened(old, tmp_path, "timm").state, opened(new, tmp_path, "timm").state)


def test_a_fixed_table_is_a_table_in_every_format_and_loses_nothing(checkpoint: Open, tmp_path: Path) -> None:
    encoder = checkpoint(spoken(KINDS["mae encoder"], "timm"))
    assert not any("loses" in note or "cannot" in note for note in convert(encoder, tmp_path / "f.pth", "timm"))
    found = open_checkpoint(tmp_path / "f.pth", heads=3)
    assert found.card.model.position == Learned1D()  # type: ignore[union-attr]
    same(found.state, encoder.state)


def test_timms_config_json_calls_the_pool_of_a_distilled_model_token(checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(spoken(KINDS["distilled"], "timm")), tmp_path / "model.safetensors", "timm")
    (tmp_path / "config.json").write_text(json.dumps({"global_pool": "token"}), encoding="utf-8")
    assert open_checkpoint(tmp_path, heads=3).card.model.pool.kind == "distilled"  # type: ignore[union-attr]
    (tmp_path / "config.json").write_text(json.dumps({"global_pool": "avg"}), encoding="utf-8")
    with pytest.raises(ModelError, match="global_pool = 'avg', the weights have a 'distilled' pool"):
        open_checkpoint(tmp_path, heads=3)


def test_transformers_names_in_memory_are_read_like_those_of_its_files(tmp_path: Path) -> None:
    memory = drawn(huggingface(memory=True))
    wanted = opened(drawn(huggingface()), tmp_path, "huggingface")
    found = opened(memory, tmp_path, "huggingface")
    assert found.state.keys() == wanted.state.keys()
    assert torch.equal(
        found.state["encoder.blocks.1.attention.qkv.weight"],
        torch.cat([memory[f"vit.layers.1.attention.{n}_proj.weight"] for n in "qkv"]),
    )
    assert torch.equal(found.state["encoder.blocks.0.mlp.fc2.bias"], memory["vit.layers.0.mlp.fc2.bias"])


@pytest.mark.parametrize("memory", [False, True], ids=["file", "memory"])
def test_a_bare_model_of_transformers_is_read_without_its_prefix(memory: bool, tmp_path: Path) -> None:
    tensors = drawn(huggingface(prefix="", memory=memory))
    found = opened(tensors, tmp_path, "huggingface")
    assert found.card.model.classes == 0
    assert torch.equal(found.state["head.pre_logits.weight"], tensors["pooler.dense.weight"])
    assert torch.equal(found.state["encoder.norm.bias"], tensors["layernorm.bias"])


WRAPPERS: dict[str, Callable[[State], object]] = {
    "bare": dict,
    "DeiT's model": lambda state: {"model": state},
    "a trainer's": lambda state: {"state_dict": state, "epoch": 3, "optimizer": {"lr": 0.1}},
    "model_state_dict": lambda state: {"model_state_dict": state},
    "DataParallel": lambda state: prefixed("module.", state),
    "DataParallel in a wrapper": lambda state: {"model": prefixed("module.", state)},
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("suffix", [".pth", ".pt", ".bin"])
def test_torch_files_are_read_in_every_wrapper(wrap: Callable[[State], object], suffix: str, tmp_path: Path) -> None:
    tensors = drawn(timm())
    torch.save(wrap(tensors), tmp_path / f"theirs{suffix}")
    found = open_checkpoint(tmp_path / f"theirs{suffix}", heads=3)
    same(found.state, opened(tensors, tmp_path, "timm").state)


def decoder() -> Sizes:
    """What MAE's pre-training adds."""
    sizes: Sizes = {"mask_token": (1, 1, 32), "decoder_pos_embed": (1, 17, 32)}
    sizes |= pairs({"decoder_embed": (32, 48), "decoder_norm": (32,), "decoder_pred": (48, 32)})
    layers = {"norm1": (32,), "attn.qkv": (96, 32), "attn.proj": (32, 32), "norm2": (32,)}
    return (
        sizes
        | pairs({f"decoder_blocks.0.{n}": s for n, s in layers.items()})
        | pairs({"decoder_blocks.0.mlp.fc1": (64, 32), "decoder_blocks.0.mlp.fc2": (32, 64)})
    )


def test_maes_decoder_is_left_out_by_name_and_said(tmp_path: Path) -> None:
    tensors = {name: tensor for name, tensor in drawn(timm()).items() if not name.startswith("head.")}
    torch.save({"model": tensors | drawn(decoder())}, tmp_path / "mae.pth")
    found = open_checkpoint(tmp_path / "mae.pth", heads=3)
    assert found.card.model.classes == 0
    assert len(found.state) == len(tensors)
    assert any(f"{len(decoder())} tensors are left out" in note for note in found.notes)
    torch.save({"model": tensors | drawn(decoder()) | {"decoder_extra": torch.zeros(1)}}, tmp_path / "mae.pth")
    with pytest.raises(ModelError, match="no rule knows decoder_extra"):
        open_checkpoint(tmp_path / "mae.pth", heads=3)


def test_shards_with_an_index_are_read_as_one(tmp_path: Path) -> None:
    tensors = drawn(huggingface())
    wanted = opened(tensors, tmp_path, "huggingface")
    folder = tmp_path / "folder"
    convert(wanted, folder, "huggingface")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, held in shards.items():
        save_file({name: tensors[name] for name in held}, folder / shard)
    index = {"metadata": {}, "weight_map": {name: shard for shard, held in shards.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    same(open_checkpoint(folder).state, wanted.state)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError):
        open_checkpoint(folder)


def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    save_file(drawn(huggingface()), tmp_path / "outside.safetensors")
    index = {"weight_map": dict.fromkeys(huggingface(), "../outside.safetensors")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ModelError, match="not a file of the folder"):
        open_checkpoint(folder, heads=3)


def test_an_old_folder_with_a_torch_file_is_read(tmp_path: Path) -> None:
    wanted = opened(drawn(huggingface()), tmp_path, "huggingface")
    convert(wanted, tmp_path / "folder", "huggingface")
    (tmp_path / "folder" / "model.safetensors").unlink()
    torch.save(drawn(huggingface()), tmp_path / "folder" / "pytorch_model.bin")
    same(open_checkpoint(tmp_path / "folder").state, wanted.state)


# ---- What is not known, or does not fit.


def test_keys_of_no_format_are_refused_with_what_was_seen(tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.zeros(2), "fc.bias": torch.zeros(3)}, tmp_path / "odd.safetensors")
    with pytest.raises(ModelError, match=r"no known format .*timm.* has such keys. .*2 tensors: conv1.weight, fc.bias"):
        open_checkpoint(tmp_path / "odd.safetensors")


def test_keys_of_two_formats_are_refused_with_both_names() -> None:
    with pytest.raises(ModelError, match=r"fit timm and torchvision alike.*\d+ tensors: blocks\.0"):
        recognise(drawn(timm()) | drawn(torchvision()))


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    save_file({}, tmp_path / "empty.safetensors")
    with pytest.raises(ModelError, match="no known format"):
        open_checkpoint(tmp_path / "empty.safetensors")


@foreign
def test_a_foreign_file_is_known_by_its_keys_alone(format: str, sizes: Sizes) -> None:
    tensors = {name.removeprefix("params/"): torch.empty(size, device="meta") for name, size in sizes.items()}
    assert recognise(tensors).name == format


def not_refused(
    changed: Callable[[State, str], State], format: str, sizes: Sizes, folder: Path, names: list[str]
) -> dict[str, str]:
    """The names whose change was not answered by a ModelError that says them or what they are for."""
    tensors, wrong = drawn(sizes), {}
    for name in names:
        try:
            opened(changed(tensors, name), folder, format)
        except ModelError:
            continue
        except Exception as error:
            wrong[name] = repr(error)
        else:
            wrong[name] = "loaded"
    return wrong


@plain
def test_any_one_tensor_missing_is_refused(format: str, sizes: Sizes, tmp_path: Path) -> None:
    def without(tensors: State, name: str) -> State:
        return {key: tensor for key, tensor in tensors.items() if key != name}

    fixed = format == "big_vision"  # there no table means sines and cosines
    names = [name for name in sizes if not (fixed and name.endswith("pos_embedding"))]
    assert not_refused(without, format, sizes, tmp_path, names) == {}


@plain
def test_any_one_tensor_of_another_length_is_refused(format: str, sizes: Sizes, tmp_path: Path) -> None:
    axis = -1 if format in ("official", "big_vision") else 0  # the outputs, not the sides of a patch

    def longer(tensors: State, name: str) -> State:
        return tensors | {name: torch.cat([tensors[name]] * 2, axis)}

    assert not_refused(longer, format, sizes, tmp_path, list(sizes)) == {}


@plain
@pytest.mark.parametrize("dimensions", [0, 2])
def test_any_one_tensor_of_other_dimensions_is_refused(
    dimensions: int, format: str, sizes: Sizes, tmp_path: Path
) -> None:
    def reshaped(tensors: State, name: str) -> State:
        tensor = tensors[name]
        other = torch.zeros([2] * dimensions) if tensor.dim() != dimensions else torch.zeros([2] * (dimensions + 1))
        return tensors | {name: other}

    assert not_refused(reshaped, format, sizes, tmp_path, list(sizes)) == {}


@plain
@pytest.mark.parametrize("extra", ["optimizer.step", "head.classifier.weight", "encoder.norm.weight"])
def test_any_one_tensor_too_many_is_refused_by_name(extra: str, format: str, sizes: Sizes, tmp_path: Path) -> None:
    prefix = "params/" if format == "big_vision" else ""
    with pytest.raises(ModelError, match=re.escape(extra)):
        opened(drawn(sizes) | {prefix + extra: torch.zeros(3)}, tmp_path, format)


@plain
def test_a_missing_and_a_misshapen_tensor_are_both_listed(format: str, sizes: Sizes, tmp_path: Path) -> None:
    tensors = drawn(sizes)
    head = next(name for name in sizes if sizes[name] == (7,))
    last = [name for name in sizes if sizes[name][-1:] in [(48,), (256,)] and re.search(r"bias|beta", name)]
    del tensors[last[-1]]
    tensors[head] = torch.zeros(8)
    with pytest.raises(ModelError) as caught:
        opened(tensors, tmp_path, format)
    assert "missing in the file" in str(caught.value)
    assert re.search(r"head\.classifier\.bias is 8 in the file and 7 in the model", str(caught.value))


def test_an_unknown_format_is_answered_with_the_nearest(checkpoint: Open, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'tim' is no format; did you mean timm"):
        convert(checkpoint(TINY), tmp_path / "f.safetensors", "tim")


@pytest.mark.parametrize(
    ("format", "name"),
    [("official", "f.safetensors"), ("big_vision", "f.pth"), ("timm", "f.npz"), ("native", "f.pth"), ("timm", "f")],
)
def test_a_wrong_ending_is_refused_and_nothing_is_written(
    format: str, name: str, checkpoint: Open, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=re.escape(name)):
        convert(checkpoint(TINY), tmp_path / name, format)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["timm", "torchvision"])
def test_what_the_other_library_computes_otherwise_is_said(format: str, checkpoint: Open, tmp_path: Path) -> None:
    notes = convert(checkpoint(replace(TINY, epsilon=1e-5)), home(tmp_path, format), format)
    assert sum(note.startswith(f"{format} computes with") for note in notes) == 2
    assert any("activation = gelu, this model with gelu-tanh" in note for note in notes)
    assert any("epsilon = 1e-06, this model with 1e-05" in note for note in notes)


def test_the_reader_is_told_what_the_file_does_not_say(checkpoint: Open, tmp_path: Path) -> None:
    oblong = checkpoint(replace(TINY, image=(8, 32)))  # 2x8 patches, as many as 4x4
    (said,) = [note for note in convert(oblong, tmp_path / "f.safetensors", "timm") if "read with" in note]
    assert said == "it must be read with heads=3, trained_at=(8, 32)"
    assert patchwords.load(tmp_path / "f.safetensors", heads=3, trained_at=(8, 32)).config.image == (8, 32)
    (said,) = convert(oblong, tmp_path / "f.npz", "official")
    assert said == "it must be read with trained_at=(8, 32)"  # the kernels carry the heads


def test_what_a_card_says_and_the_format_cannot_is_said(checkpoint: Open, tmp_path: Path) -> None:
    wanted = checkpoint(TINY)
    card = replace(wanted.card, classes=tuple("abcdefg"), licence="MIT", preprocess=IMAGENET)
    notes = convert(replace(wanted, card=card), tmp_path / "f.npz", "official")
    assert any("no place for class names, how pictures are prepared, the licence" in note for note in notes)
    notes = convert(replace(wanted, card=card), tmp_path / "folder", "huggingface")
    assert notes == ["the huggingface format has no place for the licence"]


@pytest.mark.parametrize("format", ["official", "big_vision"])
def test_heads_that_contradict_the_kernels_are_refused(format: str, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(TINY), tmp_path / "f.npz", format)
    with pytest.raises(ModelError, match=r"you say 4, .* say 3"):
        open_checkpoint(tmp_path / "f.npz", heads=4)


def test_heads_and_sizes_that_contradict_a_card_are_refused(checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(TINY), tmp_path / "f.safetensors", "native")
    with pytest.raises(ModelError, match="you say 4, the file's card say 3"):
        open_checkpoint(tmp_path / "f.safetensors", heads=4)
    with pytest.raises(ModelError, match="image"):
        open_checkpoint(tmp_path / "f.safetensors", image=(32, 32))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 64),
        ("num_hidden_layers", 5),
        ("intermediate_size", 7),
        ("patch_size", 8),
        ("num_channels", 1),
        ("qkv_bias", False),
        ("id2label", {"0": "a", "1": "b"}),
    ],
)
def test_a_config_of_another_model_is_refused(key: str, value: object, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(TINY), tmp_path / "folder", "huggingface")
    file = tmp_path / "folder" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    with pytest.raises(ModelError, match=r"config\.json says"):
        open_checkpoint(tmp_path / "folder")


def timm_folder(checkpoint: Checkpoint, folder: Path, pool: str) -> Path:
    """As on the Hub: config.json beside the weights."""
    folder.mkdir()
    convert(checkpoint, folder / "model.safetensors", "timm")
    statistics = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "crop_pct": 0.9, "interpolation": "bicubic"}
    (folder / "config.json").write_text(json.dumps({"global_pool": pool, "pretrained_cfg": statistics}))
    return folder


def test_a_timm_folder_says_its_pool_and_how_pictures_are_prepared(checkpoint: Open, tmp_path: Path) -> None:
    wanted = checkpoint(spoken(TINY, "timm"))
    found = open_checkpoint(timm_folder(wanted, tmp_path / "token", "token"), heads=3)
    assert found.card.model.pool.kind == "class"
    assert (found.card.preprocess.mean, found.card.preprocess.crop) == ((0.1, 0.2, 0.3), 0.9)
    assert found.notes == []
    found = open_checkpoint(timm_folder(wanted, tmp_path / "avg", "avg"), heads=3)
    assert found.card.model.pool == Mean()
    with pytest.raises(ModelError, match="global_pool = 'map'"):
        open_checkpoint(timm_folder(wanted, tmp_path / "map", "map"), heads=3)


def test_a_missing_partner_is_named(tmp_path: Path) -> None:
    tensors = drawn(official())
    del tensors["Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"]
    with pytest.raises(ModelError, match="query/kernel is not"):
        opened(tensors, tmp_path, "official")


def test_what_a_folder_writes_down_needs_no_note(checkpoint: Open, tmp_path: Path) -> None:
    assert convert(checkpoint(replace(TINY, epsilon=1e-5)), tmp_path / "folder", "huggingface") == []
    found = open_checkpoint(tmp_path / "folder").card.model
    assert isinstance(found, ViTConfig)
    assert (found.activation, found.epsilon) == ("gelu-tanh", 1e-5)


def test_nothing_is_left_half_written_where_the_disk_refuses(
    checkpoint: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(PatchwordsError, match="No space left"):
        convert(checkpoint(TINY), tmp_path / "f.safetensors", "timm")
    assert list(tmp_path.iterdir()) == []
