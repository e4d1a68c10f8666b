"""torchvision's VisionTransformer; its published files still have the MLP's first names, linear_1 and linear_2."""

from patchwords.weights.rules import Rule, pair


def vit(heads: int) -> list[Rule]:
    block, ours = "encoder.layers.encoder_layer_{i}", "encoder.blocks.{i}"
    return [
        Rule("class_token", "embed.special.class_token"),
        Rule("encoder.pos_embedding", "embed.position.table"),
        *pair("conv_proj", "embed.patch"),
        *pair(f"{block}.ln_1", f"{ours}.norm1"),
        Rule(f"{block}.self_attention.in_proj_weight", f"{ours}.attention.qkv.weight"),
        Rule(f"{block}.self_attention.in_proj_bias", f"{ours}.attention.qkv.bias"),
        *pair(f"{block}.self_attention.out_proj", f"{ours}.attention.out"),
        *pair(f"{block}.ln_2", f"{ours}.norm2"),
        *pair(f"{block}.mlp.0", f"{ours}.mlp.fc1"),
        *pair(f"{block}.mlp.3", f"{ours}.mlp.fc2"),
        *pair(f"{block}.mlp.linear_1", f"{ours}.mlp.fc1"),
        *pair(f"{block}.mlp.linear_2", f"{ours}.mlp.fc2"),
        *pair("encoder.ln", "encoder.norm"),
        *pair("heads.pre_logits", "head.pre_logits"),
        *pair("heads.head", "head.classifier"),
    ]
