"""Figure 7 (right): attention distances equal their closed forms, whatever the pieces, the tokens and the stem."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import DataError, UsageError
from patchwords.inspection import distance
from patchwords.inspection.distance import attention_distance, between, mean_distance
from patchwords.layers import look
from patchwords.layers.position import Relative
from patchwords.models.hybrid import ResNetStem
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.models.vit import ViT, ViTConfig

Randomise = Callable[[nn.Module], nn.Module]
Grid = tuple[int, int]

PLAIN = ViTConfig(depth=2, width=16, mlp=24, heads=2, patch=(8, 4), image=(32, 24), classes=5)


def by_hand(grid: Grid, cell: Grid) -> Tensor:
    """All distances, one after another."""
    places = [(row * cell[0], col * cell[1]) for row in range(grid[0]) for col in range(grid[1])]
    return torch.tensor([[math.dist(here, there) for there in places] for here in places], dtype=torch.float64)


def weights_of(among_patches: Tensor, prefix: int, to_special: float) -> Tensor:
    """Weights (1, 1, tokens, tokens) whose patches look at special tokens so much, and at patches as given."""
    patches = len(among_patches)
    weights = torch.rand(prefix + patches, prefix + patches, dtype=torch.float64)
    weights[prefix:, :prefix] = to_special / max(prefix, 1)
    weights[prefix:, prefix:] = (1 - to_special) * among_patches
    return weights[None, None]


def test_distances_between_patches_are_euclidean_and_in_pixels() -> None:
    assert between((1, 3), (16, 16))[0].tolist() == [0, 16, 32]
    assert between((2, 2), (3, 4))[0].tolist() == [0, 4, 3, 5]
    torch.testing.assert_close(between((3, 4), (8, 6)), by_hand((3, 4), (8, 6)))


@pytest.mark.parametrize(("prefix", "to_special"), [(0, 0.0), (1, 0.0), (1, 0.9), (3, 0.5)])
@pytest.mark.parametrize("grid", [(3, 4), (1, 5), (6, 2)])
class TestClosedForms:
    cell = (8, 6)

    def mean(self, among_patches: Tensor, prefix: int, to_special: float, grid: Grid) -> float:
        weights = weights_of(among_patches, prefix, to_special)
        rows = slice(0, weights.shape[2])
        found = mean_distance(weights, prefix, between(grid, self.cell), rows)
        assert found.shape == (1, 1, grid[0] * grid[1])
        return float(found.mean())

    def test_uniform_attention_has_the_mean_of_all_distances(self, prefix: int, to_special: float, grid: Grid) -> None:
        patches = grid[0] * grid[1]
        uniform = torch.full((patches, patches), 1 / patches, dtype=torch.float64)
        expected = float(by_hand(grid, self.cell).mean())
        assert self.mean(uniform, prefix, to_special, grid) == pytest.approx(expected, rel=1e-12)

    def test_a_patch_that_looks_at_itself_looks_no_distance(self, prefix: int, to_special: float, grid: Grid) -> None:
        assert self.mean(torch.eye(grid[0] * grid[1]).double(), prefix, to_special, grid) == 0

    def test_attention_to_the_right_neighbour_has_the_width_of_a_patch(
        self, prefix: int, to_special: float, grid: Grid
    ) -> None:
        rows, cols = grid
        right = torch.zeros(rows, cols, rows, cols, dtype=torch.float64)
        for row in range(rows):
            for col in range(cols):
                right[row, col, row, min(col + 1, cols - 1)] = 1  # the last column looks at itself
        expected = self.cell[1] * (cols - 1) / cols
        assert self.mean(right.reshape(rows * cols, -1), prefix, to_special, grid) == pytest.approx(expected)


@pytest.mark.parametrize("step", [1, 2, 3, 5, 14])
def test_rows_may_come_in_pieces_of_any_size(step: int) -> None:
    prefix, grid = 2, (3, 4)
    weights = torch.rand(2, 3, 14, 14, dtype=torch.float64).softmax(-1)
    distances = between(grid, (4, 4))
    whole = mean_distance(weights, prefix, distances, slice(0, 14))
    pieces = [slice(row, min(row + step, 14)) for row in range(0, 14, step)]
    parts = [mean_distance(weights[:, :, rows], prefix, distances, rows) for rows in pieces]
    torch.testing.assert_close(torch.cat(parts, 2), whole)


def test_a_patch_that_sees_special_tokens_alone_gives_no_nan() -> None:
    weights = torch.zeros(1, 1, 5, 5)
    weights[..., 0] = 1
    assert mean_distance(weights, 1, between((2, 2), (4, 4)).float(), slice(0, 5)).tolist() == [[[0, 0, 0, 0]]]


# The same through models.


@torch.no_grad()
def same_everywhere(model: Model) -> Model:
    """No query asks for anything, so every token looks at all others alike."""
    for name, parameter in model.named_parameters():
        if "qkv" in name:
            parameter.zero_()
    return model.eval()


@torch.no_grad()
def looking_at(offset: int, config: ViTConfig) -> ViT:
    """Every token looks at the one so many places further in the sequence, and at nothing else."""
    model = replace(config, position=Relative()).build().eval()
    for block in model.encoder.blocks:
        attention = block.attention
        attention.qkv.weight.zero_()
        attention.qkv.bias.zero_()
        attention.qkv.bias[: config.width] = 1
        attention.offsets.table.zero_()
        attention.offsets.table[config.tokens - 1 - offset] = 1000  # the offset is that of the query from the key
    return model


def images(config: Config, batch: int = 2) -> Tensor:
    return torch.randn(batch, config.channels, *config.image)


def test_a_model_that_looks_everywhere_alike_has_the_uniform_distance_in_all_heads(small_config: Config) -> None:
    model = same_everywhere(small_config.build())
    if model.shows != "gaze":
        with pytest.raises(UsageError, match=r"a ResNet has no attention weights|attention has no weights between"):
            attention_distance(model, [images(small_config)])
        return
    found = attention_distance(model, [images(small_config)])
    expected = float(by_hand(small_config.grid, small_config.cell).mean())
    assert found.pixels.shape == (small_config.depth, small_config.heads)
    assert found.uniform == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(found.pixels, expected, rtol=1e-5)


def test_a_model_whose_tokens_look_at_themselves_has_no_distance() -> None:
    found = attention_distance(looking_at(0, PLAIN), [images(PLAIN)])
    assert (found.pixels == 0).all()


def test_a_model_whose_tokens_look_at_the_next_one_has_the_distance_to_it() -> None:
    found = attention_distance(looking_at(1, PLAIN), [images(PLAIN)])
    assert (found.grid, found.cell) == ((4, 6), (8, 4))
    steps = 4 * 5 * 4.0  # in each of four rows five steps to the right
    steps += 3 * math.hypot(8, 20)  # three from the end of a row to the start of the next
    steps += float(by_hand((4, 6), (8, 4))[-1].mean())  # the last patch has none behind it, and looks everywhere
    np.testing.assert_allclose(found.pixels, steps / 24, rtol=1e-5)


def explicit(model: ViT, pictures: Tensor) -> np.ndarray:
    """The definition over all weights at once."""
    config, rows = model.config, []
    for weights in model.attention(pictures, at=range(1, config.depth + 1)):
        among = weights.double()[:, :, len(config.special) :, len(config.special) :]
        among = among / among.sum(-1, keepdim=True)
        rows.append((among * by_hand(config.grid, config.cell)).sum(-1).mean((0, 2)))
    return torch.stack(rows).detach().numpy()


@pytest.mark.parametrize(
    "small_config",
    ["plain", "grey", "lite", "mean", "map", "1d over class", "relative", "hybrid", "hybrid root"],
    indirect=True,
)
def test_distances_are_those_of_the_weights_over_all_pictures_whatever_the_batches(
    small_config: ViTConfig, randomised: Randomise
) -> None:
    model = randomised(small_config.build()).eval()
    pictures, heard = images(small_config, 5), []
    found = attention_distance(model, pictures.split(2), progress=heard.append)
    np.testing.assert_allclose(found.pixels, explicit(model, pictures), rtol=1e-5)
    assert found.pictures == 5
    assert heard == [2, 4, 5]


@pytest.mark.parametrize("most", [1, 40, 700])
def test_distances_do_not_depend_on_the_size_of_the_pieces(
    most: int, randomised: Randomise, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = randomised(replace(PLAIN, special=("class", "register")).build()).eval()
    pictures = images(PLAIN)
    whole = attention_distance(model, [pictures]).pixels
    monkeypatch.setattr(look.Look.pieces, "__defaults__", (most,))
    np.testing.assert_allclose(attention_distance(model, [pictures]).pixels, whole, rtol=1e-5)


def test_the_places_are_measured_once_and_every_block_runs_once_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """For 4,096 patches the one takes seconds and the other is the time of all of it."""
    model, measured, ran = PLAIN.build().eval(), [], []
    monkeypatch.setattr(distance, "between", lambda *given: measured.append(1) or between(*given))
    for block in model.encoder.blocks:
        block.register_forward_hook(lambda *_: ran.append(1))
    attention_distance(model, images(PLAIN, 6).split(2))
    assert len(measured) == 1
    assert len(ran) == 3 * PLAIN.depth


@pytest.mark.parametrize(("image", "grid"), [((32, 24), (4, 3)), ((37, 50), (5, 7))])
def test_a_patch_of_a_hybrid_is_as_large_as_the_stem_makes_it(image: Grid, grid: Grid) -> None:
    stem = ResNetStem(units=(1, 1), width=32)  # a place of its map stands for 8 pixels, at the border for fewer
    config = replace(PLAIN, stem=stem, patch=(1, 1), image=image)
    found = attention_distance(same_everywhere(config.build()), [images(config, 1)])
    assert (found.grid, found.cell) == (grid, (8, 8))
    np.testing.assert_allclose(found.pixels, float(by_hand(grid, (8, 8)).mean()), rtol=1e-5)


def test_without_pictures_there_is_no_distance() -> None:
    with pytest.raises(DataError, match="no pictures came"):
        attention_distance(PLAIN.build(), [])
