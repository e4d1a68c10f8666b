"""timm, and with the same names DeiT's and MAE's `.pth` files."""

from patchwords.weights.rules import Change, Rule, pair

ONE_BY_ONE = Change(lambda x: x.flatten(1), lambda x: (x[:, :, None, None],))  # a head written as a 1x1 convolution

# Held by these files beside the encoder: MAE's decoder and mask token serve its pre-training only.
IGNORE = (
    "mask_token",
    "decoder_pos_embed",
    *(f"{layer}.{leaf}" for layer in ("decoder_embed", "decoder_norm", "decoder_pred") for leaf in ("weight", "bias")),
    *(
        f"decoder_blocks.{{i}}.{layer}.{leaf}"
        for layer in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        for leaf in ("weight", "bias")
    ),
)


def hybrid_root(heads: int) -> list[Rule]:
    """R+ViT-Ti/16, where the backbone is the root itself."""
    theirs, ours = "patch_embed.backbone", "embed.stem.root"
    return [Rule(f"{theirs}.conv.weight", f"{ours}.conv.weight"), *pair(f"{theirs}.norm", f"{ours}.norm"), *vit(heads)]


def vit(heads: int) -> list[Rule]:
    block, ours = "blocks.{i}", "encoder.blocks.{i}"
    return [
        Rule("cls_token", "embed.special.class_token"),
        Rule("dist_token", "embed.special.distillation_token"),
        Rule("reg_token", "embed.special.register_token"),
        Rule("pos_embed", "embed.position.table"),
        *pair("patch_embed.proj", "embed.patch"),
        *pair(f"{block}.norm1", f"{ours}.norm1"),
        *pair(f"{block}.attn.qkv", f"{ours}.attention.qkv"),
        *pair(f"{block}.attn.proj", f"{ours}.attention.out"),
        *pair(f"{block}.norm2", f"{ours}.norm2"),
        *pair(f"{block}.mlp.fc1", f"{ours}.mlp.fc1"),
        *pair(f"{block}.mlp.fc2", f"{ours}.mlp.fc2"),
        Rule(f"{block}.ls1.gamma", f"{ours}.scale1.weight"),
        Rule(f"{block}.ls2.gamma", f"{ours}.scale2.weight"),
        Rule(f"{block}.gamma_1", f"{ours}.scale1.weight"),  # DeiT-III
        Rule(f"{block}.gamma_2", f"{ours}.scale2.weight"),
        *pair("norm", "encoder.norm"),
        *pair("fc_norm", "pool.norm"),
        *attention_pool(),
        *pair("pre_logits.fc", "head.pre_logits"),  # until 2022
        *pair("head", "head.classifier"),
        *pair("head_dist", "head.teacher"),
        *stem(),
    ]


def attention_pool() -> list[Rule]:
    return [
        Rule("attn_pool.latent", "pool.probe"),
        *pair("attn_pool.q", "pool.q"),
        *pair("attn_pool.kv", "pool.kv"),
        *pair("attn_pool.proj", "pool.out"),
        *pair("attn_pool.norm", "pool.norm2"),
        *pair("attn_pool.mlp.fc1", "pool.mlp.fc1"),
        *pair("attn_pool.mlp.fc2", "pool.mlp.fc2"),
    ]


def units(theirs: str, ours: str) -> list[Rule]:
    unit, our_unit = f"{theirs}stages.{{b}}.blocks.{{u}}", f"{ours}stages.{{b}}.units.{{u}}"
    return [
        Rule(f"{theirs}stem.conv.weight", f"{ours}root.conv.weight"),
        *(Rule(f"{unit}.conv{n}.weight", f"{our_unit}.conv{n}.weight") for n in (1, 2, 3)),
        *(rule for n in (1, 2, 3) for rule in pair(f"{unit}.norm{n}", f"{our_unit}.norm{n}")),
        Rule(f"{unit}.downsample.conv.weight", f"{our_unit}.shortcut.conv.weight"),
    ]


def post_norms(theirs: str, ours: str) -> list[Rule]:
    """The norms that only the post-activation form has."""
    unit, our_unit = f"{theirs}stages.{{b}}.blocks.{{u}}", f"{ours}stages.{{b}}.units.{{u}}"
    return [
        *pair(f"{theirs}stem.norm", f"{ours}root.norm"),
        *pair(f"{unit}.downsample.norm", f"{our_unit}.shortcut.norm"),
    ]


def stem() -> list[Rule]:
    theirs, ours = "patch_embed.backbone.", "embed.stem."
    return [*units(theirs, ours), *post_norms(theirs, ours)]


def resnetv2(heads: int) -> list[Rule]:
    return [
        *units("", ""),
        *post_norms("", ""),
        *pair("norm", "norm"),
        Rule("head.fc.weight", "head.classifier.weight", ONE_BY_ONE),
        Rule("head.fc.bias", "head.classifier.bias"),
    ]
