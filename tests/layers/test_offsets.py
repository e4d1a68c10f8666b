"""App. D.4, relative positions: the query asks the embedding of each offset."""

import math
from dataclasses import replace

import pytest
import torch

from patchwords.errors import UsageError
from patchwords.layers.offsets import Offsets
from patchwords.layers.position import Relative
from patchwords.models.vit import ViTConfig

CONFIG = ViTConfig(depth=3, width=8, mlp=12, heads=2, patch=(4, 4), image=(12, 8), classes=5)
IMAGES = torch.linspace(-1, 1, 2 * 3 * 12 * 8).reshape(2, 3, 12, 8)


def test_relative_logits_are_the_query_times_the_embedding_of_the_offset() -> None:
    tokens, width = 4, 6
    offsets = Offsets(tokens, width, std=1.0).double()
    q = torch.randn(2, 3, tokens, width, dtype=torch.float64)
    logits = offsets(q)
    assert logits.shape == (2, 3, tokens, tokens)
    for i in range(tokens):
        for j in range(tokens):
            embedding = offsets.table[i - j + tokens - 1]  # offsets run from -(tokens - 1)
            expected = (q[:, :, i] * embedding).sum(-1) / math.sqrt(width)
            torch.testing.assert_close(logits[:, :, i, j], expected)


def test_there_is_one_relative_table_a_layer_and_every_offset_learns() -> None:
    model = replace(CONFIG, position=Relative()).build()
    torch.nn.init.normal_(model.head.classifier.weight)
    torch.nn.init.normal_(model.embed.special.class_token)
    model(IMAGES).square().sum().backward()
    tables = [block.attention.offsets.table for block in model.encoder.blocks]
    assert [tuple(table.shape) for table in tables] == [(13, 4)] * 3
    assert all((table.grad.abs().sum(1) > 0).all() for table in tables[:2])
    assert (tables[2].grad.abs().sum(1) > 0).tolist() == [True] * 7 + [False] * 6  # where the class token alone asks


def test_the_offsets_refuse_another_number_of_tokens() -> None:
    with pytest.raises(UsageError, match="5 tokens came, the offsets know 4: adapt the model to this size"):
        Offsets(4, 6, 0.02)(torch.zeros(1, 1, 5, 6))
