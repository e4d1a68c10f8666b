"""transformers: the names of files on the Hub, then version 5's in memory; a bare ViTModel has them without `vit.`."""

from patchwords.weights.rules import JOIN, Rule, pair

MASK_TOKEN = "decoder.mask_token"

# Of the classes for masked pictures (SimMIM): they serve pre-training only.
SIMMIM = (
    *(f"{prefix}embeddings.mask_token" for prefix in ("vit.", "deit.", "")),
    *("decoder.0.weight", "decoder.0.bias"),
)


def vit(heads: int) -> list[Rule]:
    return [*body("vit."), *body(""), *pair("classifier", "head.classifier")]


def deit(heads: int) -> list[Rule]:
    """Without a teacher's classifier, where the class token alone is asked."""
    return [*both_tokens("deit."), *both_tokens(""), *pair("classifier", "head.classifier")]


def distilled(heads: int) -> list[Rule]:
    """DeiTForImageClassificationWithTeacher."""
    classifiers = [*pair("cls_classifier", "head.classifier"), *pair("distillation_classifier", "head.teacher")]
    return [*both_tokens("deit."), *classifiers]


def both_tokens(prefix: str) -> list[Rule]:
    token = Rule(f"{prefix}embeddings.distillation_token", "embed.special.distillation_token")
    return [token, *body(prefix)]


def mae(heads: int) -> list[Rule]:
    """A bare ViTMAEModel, then the encoder in ViTMAEForPreTraining."""
    return [*encoder(""), *mae_encoder()]


def mae_encoder() -> list[Rule]:
    return encoder("vit.")


def body(prefix: str) -> list[Rule]:
    return [*encoder(prefix), *pair(f"{prefix}pooler.dense", "head.pre_logits")]


def encoder(prefix: str) -> list[Rule]:
    embeddings = f"{prefix}embeddings"
    return [
        Rule(f"{embeddings}.cls_token", "embed.special.class_token"),
        Rule(f"{embeddings}.position_embeddings", "embed.position.table"),
        *pair(f"{embeddings}.patch_embeddings.projection", "embed.patch"),
        *hub_block(f"{prefix}encoder.layer.{{i}}", "encoder.blocks.{i}"),
        *memory_block(f"{prefix}layers.{{i}}", "encoder.blocks.{i}"),
        *pair(f"{prefix}layernorm", "encoder.norm"),
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


# MAE's decoder and mask token, which serve its pre-training only, by the names of three versions.
DECODER = (
    MASK_TOKEN,
    "decoder.decoder_pos_embed",
    *(
        name
        for rule in (
            *(rule for part in ("embed", "norm", "pred") for rule in pair(f"decoder.decoder_{part}", "")),
            *hub_block("decoder.decoder_layers.{i}", ""),
            *hub_block("decoder.decoder_encoder.layer.{i}", ""),
            *memory_block("decoder.decoder_layers.{i}", ""),
        )
        for name in rule.names
    ),
)


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
