"""Swin in four hands. Here a stage begins by merging the map before; others end the stage before with that merging."""

import math

from torch import Tensor

from patchwords.ops.offsets import offsets
from patchwords.weights.maps.huggingface import joined
from patchwords.weights.rules import SAME, Change, Rule, pair

OURS = "stages.{s}.blocks.{b}"
HUGGING = ("swin.", "")  # with a classifier, and the bare SwinModel

# Buffers that follow from the sizes.
MASKS = ("layers.{s}.blocks.{b}.attn_mask", "layers.{s}.blocks.{b}.attn.relative_position_index")
HUB_ONLY = (
    *(f"{prefix}encoder.layers.{{s}}.blocks.{{b}}.attention.self.relative_position_index" for prefix in HUGGING),
    *(f"{prefix}embeddings.mask_token" for prefix in HUGGING),  # these of SimMIM's pre-training
    *("decoder.0.weight", "decoder.0.bias"),
)


def window_of(entries: int) -> int:
    """The side of the square window that has so many offsets, or 0."""
    side = math.isqrt(entries)
    return (side + 1) // 2 if side**2 == entries and side % 2 else 0


def _take(table: Tensor, index: Tensor) -> Tensor:
    if index.numel() != window_of(table.shape[0]) ** 4:
        raise ValueError("the index is for other windows")
    return table


def _give(table: Tensor) -> tuple[Tensor, Tensor]:
    side = window_of(table.shape[0])
    return table, offsets((side, side)).flatten()


INDEXED = Change(_take, _give)  # torchvision also keeps which entry each pair of tokens looks up


def timm(heads: int) -> list[Rule]:
    return [
        *pair("patch_embed.proj", "embed.patch"),
        *pair("patch_embed.norm", "embed.norm"),
        *block("layers.{s}.blocks.{b}", ("mlp.fc1", "mlp.fc2")),
        *merge("layers.{s}.downsample", "stages.{s}.merge"),
        *pair("norm", "norm"),
        *pair("head.fc", "head.classifier"),
    ]


def microsoft(heads: int) -> list[Rule]:
    """The authors' own files, and timm's until 2023."""
    return [
        *pair("patch_embed.proj", "embed.patch"),
        *pair("patch_embed.norm", "embed.norm"),
        *block("layers.{s}.blocks.{b}", ("mlp.fc1", "mlp.fc2")),
        *merge("layers.{s}.downsample", "stages.{s+1}.merge"),
        *pair("norm", "norm"),
        *pair("head", "head.classifier"),
    ]


def torchvision(heads: int) -> list[Rule]:
    return [
        *pair("features.0.0", "embed.patch"),
        *pair("features.0.2", "embed.norm"),
        *block("features.{2s+1}.{b}", ("mlp.0", "mlp.3"), ("relative_position_index",), INDEXED),
        *merge("features.{2s+2}", "stages.{s+1}.merge"),
        *pair("norm", "norm"),
        *pair("head", "head.classifier"),
    ]


def huggingface(heads: int) -> list[Rule]:
    return [*(rule for prefix in HUGGING for rule in body(prefix)), *pair("classifier", "head.classifier")]


def body(prefix: str) -> list[Rule]:
    """The names of files on the Hub, then version 5's in memory."""
    theirs = f"{prefix}encoder.layers.{{s}}.blocks.{{b}}"
    hub, table = f"{theirs}.attention.self", "relative_position_bias_table"
    return [
        *pair(f"{prefix}embeddings.patch_embeddings.projection", "embed.patch"),
        *pair(f"{prefix}embeddings.norm", "embed.norm"),
        *pair(f"{theirs}.layernorm_before", f"{OURS}.norm1"),
        *joined(hub, ("query", "key", "value"), f"{OURS}.attention.qkv"),
        Rule(f"{hub}.{table}", f"{OURS}.attention.offsets.table"),
        *pair(f"{theirs}.attention.output.dense", f"{OURS}.attention.out"),
        *pair(f"{theirs}.intermediate.dense", f"{OURS}.mlp.fc1"),
        *pair(f"{theirs}.output.dense", f"{OURS}.mlp.fc2"),
        *joined(f"{theirs}.attention", ("q_proj", "k_proj", "v_proj"), f"{OURS}.attention.qkv"),
        Rule(f"{theirs}.attention.relative_position_bias.{table}", f"{OURS}.attention.offsets.table"),
        *pair(f"{theirs}.attention.o_proj", f"{OURS}.attention.out"),
        *pair(f"{theirs}.mlp.fc1", f"{OURS}.mlp.fc1"),
        *pair(f"{theirs}.mlp.fc2", f"{OURS}.mlp.fc2"),
        *pair(f"{theirs}.layernorm_after", f"{OURS}.norm2"),
        *merge(f"{prefix}encoder.layers.{{s}}.downsample", "stages.{s+1}.merge"),
        *pair(f"{prefix}layernorm", "norm"),
    ]


def block(theirs: str, mlp: tuple[str, str], beside: tuple[str, ...] = (), change: Change = SAME) -> list[Rule]:
    """One block; `beside` is what they keep with the table, which `change` takes and gives."""
    tables = tuple(f"{theirs}.attn.{name}" for name in ("relative_position_bias_table", *beside))
    return [
        *pair(f"{theirs}.norm1", f"{OURS}.norm1"),
        *pair(f"{theirs}.attn.qkv", f"{OURS}.attention.qkv"),
        Rule(tables, f"{OURS}.attention.offsets.table", change),
        *pair(f"{theirs}.attn.proj", f"{OURS}.attention.out"),
        *pair(f"{theirs}.norm2", f"{OURS}.norm2"),
        *pair(f"{theirs}.{mlp[0]}", f"{OURS}.mlp.fc1"),
        *pair(f"{theirs}.{mlp[1]}", f"{OURS}.mlp.fc2"),
    ]


def merge(theirs: str, ours: str) -> list[Rule]:
    return [*pair(f"{theirs}.norm", f"{ours}.norm"), Rule(f"{theirs}.reduction.weight", f"{ours}.reduction.weight")]
