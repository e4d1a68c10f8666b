"""google-research/vision_transformer (names before Flax linen), big_vision (linen), and BiT's files of TensorFlow."""

from dataclasses import dataclass

import torch
from torch import Tensor

from patchwords.weights.rules import SAME, Change, Rule

CONV = Change(
    lambda x: x.permute(3, 2, 0, 1), lambda x: (x.permute(2, 3, 1, 0),)
)  # (h, w, in, out) and (out, in, h, w)
DENSE = Change(lambda x: x.transpose(0, 1), lambda x: (x.transpose(0, 1),))  # (in, out) and (out, in)
GROUP = Change(
    lambda x: x.flatten(), lambda x: (x[None, None, None],)
)  # (1, 1, 1, channels); read also without the ones
CHANNELS = Change(lambda x: x.flatten(), lambda x: (x,))
ONE_BY_ONE = Change(lambda x: x.flatten(0, 2).mT, lambda x: (x.mT[None, None],))  # a head written as a 1x1 convolution


@dataclass(frozen=True)
class Names:
    """Flax numbered the modules of a block one after another, then (linen) each type by itself."""

    attention: str
    norm2: str
    mlp: str
    positions: tuple[str, ...]


POSITIONS = ("Transformer/posembed_input/pos_embedding", "Transformer/pos_embedding", "pos_embedding")
PRE_LINEN = Names("MultiHeadDotProductAttention_1", "LayerNorm_2", "MlpBlock_3", POSITIONS)
LINEN = Names("MultiHeadDotProductAttention_0", "LayerNorm_1", "MlpBlock_0", POSITIONS[::-1])


def fused(heads: int, parts: int) -> Change:
    """`parts` kernels (width, heads, head width) and one matrix (parts · width, width)."""

    def take(*kernels: Tensor) -> Tensor:
        return torch.cat([kernel.flatten(1).mT for kernel in kernels])

    return Change(take, lambda x: tuple(part.mT.unflatten(1, (heads, -1)) for part in x.chunk(parts)))


def fused_bias(heads: int, parts: int) -> Change:
    def take(*biases: Tensor) -> Tensor:
        return torch.cat([bias.flatten() for bias in biases])

    return Change(take, lambda x: tuple(part.unflatten(0, (heads, -1)) for part in x.chunk(parts)))


def out(heads: int) -> Change:
    """The kernel (heads, head width, width) and the matrix (width, width)."""
    return Change(lambda x: x.flatten(0, 1).mT, lambda x: (x.mT.unflatten(0, (heads, -1)),))


def triple(path: str, leaf: str) -> tuple[str, ...]:
    return tuple(f"{path}/{name}/{leaf}" for name in ("query", "key", "value"))


def norm(theirs: str, ours: str, change: Change = SAME) -> list[Rule]:
    return [Rule(f"{theirs}/scale", f"{ours}.weight", change), Rule(f"{theirs}/bias", f"{ours}.bias", change)]


def dense(theirs: str, ours: str) -> list[Rule]:
    return [Rule(f"{theirs}/kernel", f"{ours}.weight", DENSE), Rule(f"{theirs}/bias", f"{ours}.bias")]


def transformer(heads: int, names: Names) -> list[Rule]:
    block, ours = "Transformer/encoderblock_{i}", "encoder.blocks.{i}"
    attention = f"{block}/{names.attention}"
    return [
        Rule("embedding/kernel", "embed.patch.weight", CONV),
        Rule("embedding/bias", "embed.patch.bias"),
        Rule("cls", "embed.special.class_token"),
        *(Rule(place, "embed.position.table") for place in names.positions),
        *norm(f"{block}/LayerNorm_0", f"{ours}.norm1"),
        Rule(triple(attention, "kernel"), f"{ours}.attention.qkv.weight", fused(heads, 3)),
        Rule(triple(attention, "bias"), f"{ours}.attention.qkv.bias", fused_bias(heads, 3)),
        Rule(f"{attention}/out/kernel", f"{ours}.attention.out.weight", out(heads)),
        Rule(f"{attention}/out/bias", f"{ours}.attention.out.bias"),
        *norm(f"{block}/{names.norm2}", f"{ours}.norm2"),
        *dense(f"{block}/{names.mlp}/Dense_0", f"{ours}.mlp.fc1"),
        *dense(f"{block}/{names.mlp}/Dense_1", f"{ours}.mlp.fc2"),
        *norm("Transformer/encoder_norm", "encoder.norm"),
        *dense("pre_logits", "head.pre_logits"),
        *dense("head", "head.classifier"),
    ]


def attention_pool(heads: int, path: str) -> list[Rule]:
    attention = f"{path}MultiHeadDotProductAttention_0"
    _, *key_value_kernels = triple(attention, "kernel")
    _, *key_value_biases = triple(attention, "bias")
    return [
        Rule(f"{path}probe", "pool.probe"),
        Rule(f"{attention}/query/kernel", "pool.q.weight", fused(heads, 1)),
        Rule(f"{attention}/query/bias", "pool.q.bias", fused_bias(heads, 1)),
        Rule(tuple(key_value_kernels), "pool.kv.weight", fused(heads, 2)),
        Rule(tuple(key_value_biases), "pool.kv.bias", fused_bias(heads, 2)),
        Rule(f"{attention}/out/kernel", "pool.out.weight", out(heads)),
        Rule(f"{attention}/out/bias", "pool.out.bias"),
        *norm(f"{path}LayerNorm_0", "pool.norm2"),
        *dense(f"{path}MlpBlock_0/Dense_0", "pool.mlp.fc1"),
        *dense(f"{path}MlpBlock_0/Dense_1", "pool.mlp.fc2"),
    ]


def resnet(ours: str) -> list[Rule]:
    """The stem of a hybrid; alone, the post-activation ResNet."""
    theirs, unit = "block{b+1}/unit{u+1}", f"{ours}stages.{{b}}.units.{{u}}"
    return [
        Rule("conv_root/kernel", f"{ours}root.conv.weight", CONV),
        *norm("gn_root", f"{ours}root.norm", GROUP),
        *(Rule(f"{theirs}/conv{n}/kernel", f"{unit}.conv{n}.weight", CONV) for n in (1, 2, 3)),
        *(rule for n in (1, 2, 3) for rule in norm(f"{theirs}/gn{n}", f"{unit}.norm{n}", GROUP)),
        Rule(f"{theirs}/conv_proj/kernel", f"{unit}.shortcut.conv.weight", CONV),
        *norm(f"{theirs}/gn_proj", f"{unit}.shortcut.norm", GROUP),
    ]


def official(heads: int) -> list[Rule]:
    return [*transformer(heads, PRE_LINEN), *attention_pool(heads, "MAPHead_0/"), *resnet("embed.stem.")]


def big_vision(heads: int) -> list[Rule]:
    pools = [*attention_pool(heads, "MAPHead_0/"), *attention_pool(heads, "")]
    return [*transformer(heads, LINEN), *pools, *resnet("embed.stem.")]


def official_resnet(heads: int) -> list[Rule]:
    return [*resnet(""), *dense("head", "head.classifier")]


def bit(heads: int) -> list[Rule]:
    """BiT's published files; in some the convolutions carry a number, which is read and not written."""
    theirs, unit = "resnet/block{b+1}/unit{u+1:02}", "stages.{b}.units.{u}"
    rules = []
    for conv in ("standardized_conv2d", "standardized_conv2d_{n}"):
        rules += [
            Rule(f"resnet/root_block/{conv}/kernel", "root.conv.weight", CONV),
            *(Rule(f"{theirs}/{a}/{conv}/kernel", f"{unit}.conv{n}.weight", CONV) for n, a in enumerate("abc", 1)),
            Rule(f"{theirs}/a/proj/{conv}/kernel", f"{unit}.shortcut.conv.weight", CONV),
        ]
    for n, a in enumerate("abc", 1):
        rules += gamma_beta(f"{theirs}/{a}/group_norm", f"{unit}.norm{n}")
    return [
        *rules,
        *gamma_beta("resnet/group_norm", "norm"),
        Rule("resnet/head/conv2d/kernel", "head.classifier.weight", ONE_BY_ONE),
        Rule("resnet/head/conv2d/bias", "head.classifier.bias"),
    ]


def gamma_beta(theirs: str, ours: str) -> list[Rule]:
    return [Rule(f"{theirs}/gamma", f"{ours}.weight", CHANNELS), Rule(f"{theirs}/beta", f"{ours}.bias", CHANNELS)]
