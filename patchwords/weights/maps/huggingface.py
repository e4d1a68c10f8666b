"""transformers: the names of files on the Hub, then version 5's in memory; a bare ViTModel has them without `vit.`."""

from patchwords.weights.rules import JOIN, Rule, pair


def vit(heads: int) -> list[Rule]:
    return [*body("vit."), *body(""), *pair("classifier", "head.classifier")]


def body(prefix: str) -> list[Rule]:
    embeddings = f"{prefix}embeddings"
    return [
        Rule(f"{embeddings}.cls_token", "embed.special.class_token"),
        Rule(f"{embeddings}.position_embeddings", "embed.position.table"),
        *pair(f"{embeddings}.patch_embeddings.projection", "embed.patch"),
        *hub_block(f"{prefix}encoder.layer.{{i}}", "encoder.blocks.{i}"),
        *memory_block(f"{prefix}layers.{{i}}", "encoder.blocks.{i}"),
        *pair(f"{prefix}layernorm", "encoder.norm"),
        *pair(f"{prefix}pooler.dense", "head.pre_logits"),
    ]


def hub_block(block: str, ours: str) -> list[Rule]:
    return [
        *pair(f"{block}.layernorm_before", f"{ours}.norm1"),
        *joined(f"{block}.attention.attention", ("query", "key", "value"), f"{ours}.attention.qkv"),
        *pair(f"{block}.attention.output.dense", f"{ours}.attention.out"),
        *pair(f"{block}.layernorm_after", f"{ours}.norm2"),
        *pair(f"{block}.intermediate.dense", f"{ours}.mlp.fc1"),
        *pair(f"{block}.output.dense", f"{ours}.mlp.fc2"),
    ]


def memory_block(block: str, ours: str) -> list[Rule]:
    return [
        *pair(f"{block}.layernorm_before", f"{ours}.norm1"),
        *joined(f"{block}.attention", ("q_proj", "k_proj", "v_proj"), f"{ours}.attention.qkv"),
        *pair(f"{block}.attention.o_proj", f"{ours}.attention.out"),
        *pair(f"{block}.layernorm_after", f"{ours}.norm2"),
        *pair(f"{block}.mlp.fc1", f"{ours}.mlp.fc1"),
        *pair(f"{block}.mlp.fc2", f"{ours}.mlp.fc2"),
    ]


def joined(path: str, names: tuple[str, str, str], ours: str) -> list[Rule]:
    return [
        Rule(tuple(f"{path}.{name}.{leaf}" for name in names), f"{ours}.{leaf}", JOIN) for leaf in ("weight", "bias")
    ]


def bit(heads: int) -> list[Rule]:
    unit, ours = "bit.encoder.stages.{b}.layers.{u}", "stages.{b}.units.{u}"
    return [
        Rule("bit.embedder.convolution.weight", "root.conv.weight"),
        *(Rule(f"{unit}.conv{n}.weight", f"{ours}.conv{n}.weight") for n in (1, 2, 3)),
        *(rule for n in (1, 2, 3) for rule in pair(f"{unit}.norm{n}", f"{ours}.norm{n}")),
        Rule(f"{unit}.downsample.conv.weight", f"{ours}.shortcut.conv.weight"),
        *pair("bit.norm", "norm"),
        *pair("classifier.1", "head.classifier"),
    ]
