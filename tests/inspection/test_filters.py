"""Figure 7 (left): components are what a principal component analysis says, and tiles are shown in their own range."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.inspection.filters import principal, visible


def mixture(filters: int = 40) -> tuple[Tensor, Tensor]:
    """Filters made of three orthogonal patterns, the first of them strongest, around a mean; and the patterns."""
    patterns, _ = torch.linalg.qr(torch.randn(3 * 4 * 4, 3, dtype=torch.float64))
    amounts = torch.randn(filters, 3, dtype=torch.float64) * torch.tensor([9.0, 3.0, 1.0])
    return (5 + amounts @ patterns.T).reshape(filters, 3, 4, 4).float(), patterns.T.reshape(3, 3, 4, 4)


def test_components_and_shares_are_those_of_scikit_learn() -> None:
    filters = torch.randn(50, 3, 4, 2)
    found = principal(filters, 7)
    expected = PCA(7, svd_solver="full").fit(filters.flatten(1).double().numpy())
    assert found.tiles.shape == (7, 3, 4, 2)
    for tile, component in zip(found.tiles.flatten(1), torch.from_numpy(expected.components_), strict=True):
        torch.testing.assert_close(tile, component * component[component.abs().argmax()].sign())
    torch.testing.assert_close(found.shares, torch.from_numpy(expected.explained_variance_ratio_))


def test_the_span_of_the_components_is_what_the_filters_were_made_of() -> None:
    filters, patterns = mixture()
    tiles, shares = principal(filters)
    assert len(tiles) >= 3
    assert shares[:3].sum() > 0.999
    alike = tiles[:3].flatten(1) @ patterns.flatten(1).T
    torch.testing.assert_close(alike @ alike.T, torch.eye(3, dtype=torch.float64), atol=1e-5, rtol=0)


def test_there_are_28_components_or_as_many_as_exist() -> None:
    assert len(principal(torch.randn(64, 3, 7, 7)).tiles) == 28
    assert len(principal(torch.randn(64, 1, 2, 2)).tiles) == 4
    assert len(principal(torch.randn(5, 3, 8, 8)).tiles) == 4  # around their mean
    assert len(principal(torch.randn(64, 3, 7, 7), 5).shares) == 5
    rank_two = torch.randn(30, 2, dtype=torch.float64) @ torch.randn(2, 48, dtype=torch.float64)
    assert len(principal(rank_two.reshape(30, 3, 4, 4)).tiles) == 2


def test_the_sign_does_not_depend_on_the_sign_of_the_filters() -> None:
    filters = torch.randn(30, 3, 4, 4)
    there, back = principal(filters), principal(-filters)
    torch.testing.assert_close(there.tiles, back.tiles)
    flat = there.tiles.flatten(1)
    assert (flat.amax(1) == flat.abs().amax(1)).all()


def test_filters_that_are_all_the_same_are_refused() -> None:
    for filters in (torch.zeros(8, 3, 4, 4), torch.ones(8, 1, 2, 2), torch.randn(1, 3, 4, 4)):
        with pytest.raises(UsageError, match="all the same have no principal components"):
            principal(filters)


def test_filters_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ModelError, match="not finite"):
        principal(torch.full((8, 3, 4, 4), torch.nan))


def test_every_tile_has_black_and_white_of_its_own_and_keeps_its_colours() -> None:
    tiles = torch.tensor([[[0.0, 1.0]], [[2.0, 4.0]], [[3.0, 0.0]]])[None]  # (1, channels, 1, 2)
    shown = visible(torch.cat([tiles, 100 * tiles - 7]))
    assert shown.shape == (2, 1, 2, 3)
    assert shown.dtype == np.uint8
    assert shown[0, 0].tolist() == [[0, 128, 191], [64, 255, 0]]
    assert (shown[0] == shown[1]).all()


@pytest.mark.parametrize(("channels", "first"), [(1, [0, 0, 0]), (2, [0, 0, 0]), (4, [0, 1, 2]), (13, [0, 1, 2])])
def test_other_numbers_of_channels_are_shown_in_grey_or_by_the_first_three(channels: int, first: list[int]) -> None:
    tiles = torch.randn(5, channels, 4, 3)
    assert (visible(tiles) == visible(tiles[:, first])).all()


def test_a_tile_without_contrast_is_grey() -> None:
    assert (visible(torch.full((2, 3, 4, 4), 0.3)) == 128).all()
    assert (visible(torch.zeros(2, 1, 4, 4)) == 128).all()
