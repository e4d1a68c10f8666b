"""Figure 7 (centre): cosines between the places of a grid, and what they show of rows, columns and neighbours."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.inspection.positions import Structure, similarity, steps, structure
from patchwords.ops.sinusoids import sincos_2d


def sincos(rows: int, cols: int) -> Tensor:
    return sincos_2d((rows, cols), 16, 15).reshape(rows, cols, 64)


def test_the_similarity_is_the_cosine() -> None:
    table = torch.randn(3, 2, 8)
    found = similarity(table)
    assert found.shape == (3, 2, 3, 2)
    assert found.dtype == torch.float64
    for row, col, other_row, other_col in [(0, 0, 2, 1), (1, 1, 0, 1), (2, 0, 1, 0)]:
        cosine = F.cosine_similarity(table[row, col].double(), table[other_row, other_col].double(), dim=0)
        torch.testing.assert_close(found[row, col, other_row, other_col], cosine)


def test_the_similarity_of_sines_and_cosines_is_symmetric_with_a_diagonal_of_ones() -> None:
    flat = similarity(sincos(5, 7)).flatten(2).flatten(0, 1)
    torch.testing.assert_close(flat, flat.T)
    torch.testing.assert_close(flat.diagonal(), torch.ones(35, dtype=torch.float64))
    assert flat.abs().max() <= 1


def test_the_similarity_of_sines_and_cosines_depends_on_the_steps_between_two_places_alone() -> None:
    found = similarity(sincos(6, 6))
    down, right = steps(6, 6)
    from_corner = found[0, 0][down, right].reshape(6, 6, 6, 6)
    torch.testing.assert_close(found, from_corner, atol=1e-6, rtol=0)
    torch.testing.assert_close(from_corner[0, 0], from_corner[0, 0].T, atol=1e-6, rtol=0)  # rows and columns alike


def test_sines_and_cosines_are_alike_along_rows_and_columns_and_near_by() -> None:
    found = structure(similarity(sincos(7, 7)))
    assert found.near > found.far + 0.1
    assert found.same_row_or_column > found.elsewhere + 0.05
    corner = similarity(sincos(7, 7))[0, 0]
    assert corner[0, 1] > corner[0, 2] > corner[0, 3]


def test_the_similarity_of_sines_and_cosines_is_the_mean_of_that_of_the_rows_and_of_the_columns() -> None:
    corner = similarity(sincos(5, 7))[0, 0]
    omega = 10000.0 ** -(torch.arange(16, dtype=torch.float64) / 15)
    along = [torch.cos(torch.arange(side)[:, None] * omega).mean(1) for side in (5, 7)]
    torch.testing.assert_close(corner, (along[0][:, None] + along[1]) / 2, atol=1e-6, rtol=0)


def test_the_structure_is_the_mean_over_the_pairs_it_names() -> None:
    alike = torch.rand(4, 3, 4, 3, dtype=torch.float64)
    sums: dict[str, list[float]] = {name: [] for name in Structure.__dataclass_fields__}
    places = [(row, col) for row in range(4) for col in range(3)]
    for row, col in places:
        for other_row, other_col in places:
            down, right = abs(row - other_row), abs(col - other_col)
            value = float(alike[row, col, other_row, other_col])
            if down + right == 1:
                sums["near"].append(value)
            if down >= 2 or right >= 2:
                sums["far"].append(value)
            if down + right > 0:
                sums["elsewhere" if down and right else "same_row_or_column"].append(value)
    found = structure(alike)
    for name, values in sums.items():
        assert getattr(found, name) == pytest.approx(sum(values) / len(values)), name


def test_near_and_far_share_no_pair_however_small_the_grid() -> None:
    alike = torch.eye(4, dtype=torch.float64).reshape(2, 2, 2, 2)
    alike[0, 0, 1, 1] = alike[1, 1, 0, 0] = alike[0, 1, 1, 0] = alike[1, 0, 0, 1] = 0.5
    assert structure(alike) == Structure(near=0, far=0.5, same_row_or_column=0, elsewhere=0.5)


def test_what_a_grid_does_not_have_is_none() -> None:
    one = structure(similarity(torch.randn(1, 1, 4)))
    assert one == Structure(near=None, far=None, same_row_or_column=None, elsewhere=None)
    line = structure(similarity(torch.randn(1, 5, 4)))
    assert line.elsewhere is None
    assert line.near is not None
    assert line.far is not None


def test_a_place_that_adds_nothing_is_like_none() -> None:
    table = torch.randn(2, 2, 4)
    table[1, 0] = 0
    found = similarity(table)
    assert found.isfinite().all()
    assert not found[1, 0].any()
    assert not found[:, :, 1, 0].any()


@pytest.mark.slow
def test_a_trained_model_of_the_digits_finds_neighbours_more_alike_than_far_places(tmp_path: Path) -> None:
    from patchwords.training.train import train

    run = train(model="ViT-Digits/1", epochs=10, out=tmp_path / "run", device="cpu")
    found = structure(similarity(run.model.positions()))
    assert found.near > found.far + 0.1
    assert found.same_row_or_column > found.elsewhere + 0.05
