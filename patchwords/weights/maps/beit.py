"""BEiT in timm, with the same names in its authors' `.pth` files; in transformers by its files, then in memory."""

from patchwords.weights.rules import JOIN, Rule, pair

OURS = "encoder.blocks.{i}"
TABLE, INDEX = "relative_position_bias_table", "relative_position_index"

# In timm's names: what follows from the sizes, a bias of keys (which could not change any weight of attention), and
# what serves BEiT's pre-training only.
BESIDE = (
    *(f"blocks.{{i}}.attn.{buffer}" for buffer in (INDEX, "k_bias")),
    f"rel_pos_bias.{INDEX}",
    *("mask_token", "lm_head.weight", "lm_head.bias"),
)
SIGNS = (f"blocks.{{i}}.attn.{TABLE}", "blocks.{i}.attn.q_bias", f"rel_pos_bias.{TABLE}")
FIRST = tuple(sign.format(i=0) for sign in SIGNS)  # which a ViT of the same names has not

# The same in transformers, with its class for masked pictures or the bare BeitModel.
HUB = ("beit.", "")
HUB_BESIDE = (
    *(f"{prefix}encoder.layer.{{i}}.attention.attention.relative_position_bias.{INDEX}" for prefix in HUB),
    *(f"{prefix}encoder.relative_position_bias.{INDEX}" for prefix in HUB),
    *(f"{prefix}embeddings.mask_token" for prefix in HUB),
    *("lm_head.weight", "lm_head.bias"),
)
BARE = (  # of a bare BeitModel, which a bare ViTModel has not
    *("encoder.layer.0.lambda_1", "layers.0.lambda_1"),
    f"encoder.layer.0.attention.attention.relative_position_bias.{TABLE}",
    f"layers.0.relative_position_bias.{TABLE}",
    f"encoder.relative_position_bias.{TABLE}",
    f"shared_position_bias.{TABLE}",
)
WHOLE = "embeddings.patch_embeddings.projection.weight"


def timm(heads: int) -> list[Rule]:
    block = "blocks.{i}"
    return [
        Rule("cls_token", "embed.special.class_token"),
        Rule("pos_embed", "embed.position.table"),
        *pair("patch_embed.proj", "embed.patch"),
        *pair(f"{block}.norm1", f"{OURS}.norm1"),
        Rule(f"{block}.attn.qkv.weight", f"{OURS}.attention.qkv.weight"),
        Rule(f"{block}.attn.q_bias", f"{OURS}.attention.qkv.q_bias"),
        Rule(f"{block}.attn.v_bias", f"{OURS}.attention.qkv.v_bias"),
        Rule(f"{block}.attn.{TABLE}", f"{OURS}.attention.offsets.table"),
        *pair(f"{block}.attn.proj", f"{OURS}.attention.out"),
        *pair(f"{block}.norm2", f"{OURS}.norm2"),
        *pair(f"{block}.mlp.fc1", f"{OURS}.mlp.fc1"),
        *pair(f"{block}.mlp.fc2", f"{OURS}.mlp.fc2"),
        Rule(f"{block}.gamma_1", f"{OURS}.scale1.weight"),
        Rule(f"{block}.gamma_2", f"{OURS}.scale2.weight"),
        Rule(f"rel_pos_bias.{TABLE}", "encoder.position.bias.table"),
        *pair("norm", "encoder.norm"),
        *pair("fc_norm", "pool.norm"),
        *pair("head", "head.classifier"),
    ]


def huggingface(heads: int) -> list[Rule]:
    return [*(rule for prefix in HUB for rule in body(prefix)), *pair("classifier", "head.classifier")]


def body(prefix: str) -> list[Rule]:
    return [
        Rule(f"{prefix}embeddings.cls_token", "embed.special.class_token"),
        Rule(f"{prefix}embeddings.position_embeddings", "embed.position.table"),
        *pair(f"{prefix}embeddings.patch_embeddings.projection", "embed.patch"),
        *hub_block(f"{prefix}encoder.layer.{{i}}"),
        *memory_block(f"{prefix}layers.{{i}}"),
        Rule(f"{prefix}encoder.relative_position_bias.{TABLE}", "encoder.position.bias.table"),
        Rule(f"{prefix}shared_position_bias.{TABLE}", "encoder.position.bias.table"),
        *pair(f"{prefix}layernorm", "encoder.norm"),
        *pair(f"{prefix}pooler.layernorm", "pool.norm"),
    ]


def hub_block(block: str) -> list[Rule]:
    attention = f"{block}.attention.attention"
    return [
        *around(block),
        *keyless(attention, ("query", "key", "value")),
        Rule(f"{attention}.relative_position_bias.{TABLE}", f"{OURS}.attention.offsets.table"),
        *pair(f"{block}.attention.output.dense", f"{OURS}.attention.out"),
        *pair(f"{block}.intermediate.dense", f"{OURS}.mlp.fc1"),
        *pair(f"{block}.output.dense", f"{OURS}.mlp.fc2"),
    ]


def memory_block(block: str) -> list[Rule]:
    return [
        *around(block),
        *keyless(f"{block}.attention", ("q_proj", "k_proj", "v_proj")),
        Rule(f"{block}.relative_position_bias.{TABLE}", f"{OURS}.attention.offsets.table"),
        *pair(f"{block}.attention.o_proj", f"{OURS}.attention.out"),
        *pair(f"{block}.mlp.fc1", f"{OURS}.mlp.fc1"),
        *pair(f"{block}.mlp.fc2", f"{OURS}.mlp.fc2"),
    ]


def around(block: str) -> list[Rule]:
    """Norms and layer scales, which have the same names in both."""
    return [
        *pair(f"{block}.layernorm_before", f"{OURS}.norm1"),
        *pair(f"{block}.layernorm_after", f"{OURS}.norm2"),
        Rule(f"{block}.lambda_1", f"{OURS}.scale1.weight"),
        Rule(f"{block}.lambda_2", f"{OURS}.scale2.weight"),
    ]


def keyless(path: str, names: tuple[str, str, str]) -> list[Rule]:
    """Three matrices, and biases for the first and the third."""
    query, _, value = names
    return [
        Rule(tuple(f"{path}.{name}.weight" for name in names), f"{OURS}.attention.qkv.weight", JOIN),
        Rule(f"{path}.{query}.bias", f"{OURS}.attention.qkv.q_bias"),
        Rule(f"{path}.{value}.bias", f"{OURS}.attention.qkv.v_bias"),
    ]
