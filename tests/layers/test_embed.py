"""Eq. 1 by hand: [x_class; x₁E; …; x_N E] + E_pos."""

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.embed import Embed, PatchProjection
from patchwords.layers.position import Learned1D
from patchwords.layers.tokens import Special
from patchwords.ops.patches import patchify

WIDTH, PATCH, GRID = 8, (4, 2), (2, 3)


@pytest.fixture
def embed() -> Embed:
    position = Learned1D(std=1.0).build(WIDTH, GRID, ("class",))
    embed = Embed(nn.Identity(), PatchProjection(3, WIDTH, PATCH), Special(("class",), WIDTH), position, 0.0)
    nn.init.normal_(embed.special.class_token)
    nn.init.normal_(embed.patch.bias)
    return embed.double()


def test_the_sequence_is_eq_1(embed: Embed) -> None:
    images = torch.randn(2, 3, 8, 6, dtype=torch.float64)
    matrix = embed.patch.weight.permute(2, 3, 1, 0).flatten(0, 2)  # E: (patch height · patch width · channels, width)
    patches = patchify(images, PATCH) @ matrix + embed.patch.bias
    z0 = torch.cat([embed.special.class_token.expand(2, -1, -1), patches], 1) + embed.position.table
    tokens = embed(images)
    torch.testing.assert_close(tokens.x, z0)
    assert (tokens.prefix, tokens.grid) == (1, GRID)


def test_project_and_assemble_are_the_two_halves(embed: Embed) -> None:
    images = torch.randn(2, 3, 8, 6, dtype=torch.float64)
    patches, grid = embed.project(images)
    assert patches.shape == (2, 6, WIDTH)
    assert grid == GRID
    assert torch.equal(embed.assemble(patches, grid).x, embed(images).x)


def test_a_patch_changes_its_own_token_alone(embed: Embed) -> None:
    images = torch.randn(1, 3, 8, 6, dtype=torch.float64)
    other = images.clone()
    other[:, :, 4:8, 2:4] += 1  # row 1, column 1 of the grid
    changed = (embed(images).x != embed(other).x).any(-1)[0]
    assert changed.tolist() == [False] * 5 + [True] + [False]


def test_a_picture_with_a_remainder_is_refused(embed: Embed) -> None:
    with pytest.raises(UsageError, match="image 8x7 is not a multiple of patch 4x2"):
        embed(torch.zeros(1, 3, 8, 7, dtype=torch.float64))
