"""MAE's decoder in transformers' and in the original files, whose encoders the tables of their formats name."""

from patchwords.weights.maps.huggingface import hub_block, memory_block
from patchwords.weights.rules import Rule, pair

OURS = "decoder.blocks.{i}"


def transformers() -> list[Rule]:
    """The names of files on the Hub, of those that version 5 saves, and of its memory, which share some."""
    rules = [
        *ends("decoder.", "decoder.decoder_"),
        *hub_block("decoder.decoder_layers.{i}", OURS),
        *hub_block("decoder.decoder_encoder.layer.{i}", OURS),
        *memory_block("decoder.decoder_layers.{i}", OURS),
    ]
    return list(dict.fromkeys(rules))


def original() -> list[Rule]:
    """The `.pth` files that hold the whole autoencoder."""
    block = "decoder_blocks.{i}"
    return [
        *ends("", "decoder_"),
        *pair(f"{block}.norm1", f"{OURS}.norm1"),
        *pair(f"{block}.attn.qkv", f"{OURS}.attention.qkv"),
        *pair(f"{block}.attn.proj", f"{OURS}.attention.out"),
        *pair(f"{block}.norm2", f"{OURS}.norm2"),
        *pair(f"{block}.mlp.fc1", f"{OURS}.mlp.fc1"),
        *pair(f"{block}.mlp.fc2", f"{OURS}.mlp.fc2"),
    ]


def ends(token: str, theirs: str) -> list[Rule]:
    """What stands before and after the blocks."""
    return [
        Rule(f"{token}mask_token", "decoder.mask_token"),
        Rule(f"{theirs}pos_embed", "decoder.position.table"),
        *pair(f"{theirs}embed", "decoder.embed"),
        *pair(f"{theirs}norm", "decoder.norm"),
        *pair(f"{theirs}pred", "decoder.pixels"),
    ]
