"""The noise of random erasing: normal, and a number for each address."""

import numpy as np
import torch
from scipy import stats

from patchwords.data.augment import noise
from patchwords.ops import draws


def words(count: int) -> torch.Tensor:
    return torch.from_numpy(draws.words("test", 0, np.arange(count)).view(np.int64))


def test_the_bits_are_those_of_the_draws() -> None:
    state = draws.words("test", 3)
    spread = noise._spread(torch.tensor(int(state.astype(np.int64))), 5)
    uniform = (spread.numpy().view(np.uint64) >> np.uint64(11)) * 2.0**-53
    assert (uniform == draws.uniform("test", 3, count=5)).all()


def test_the_noise_is_normal() -> None:
    made = noise.normal(words(4), (3, 64, 64)).double().numpy()
    assert stats.kstest(made.ravel(), "norm").pvalue > 0.001
    assert abs(made.mean()) < 0.02
    assert abs(made.std() - 1) < 0.02


def test_pixels_rows_channels_and_pictures_are_not_alike() -> None:
    made = noise.normal(words(2), (3, 128, 128)).double()
    for one, other in [
        (made[..., 1:], made[..., :-1]),
        (made[:, :, 1:], made[:, :, :-1]),
        (made[:, 0], made[:, 1]),
        (made[0], made[1]),
        (made[..., 1:] ** 2, made[..., :-1] ** 2),
    ]:
        correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 0.02


def test_a_picture_has_its_noise_in_any_batch() -> None:
    together = noise.normal(words(5), (3, 9, 7))
    assert together.shape == (5, 3, 9, 7)
    for i in range(5):
        assert torch.equal(noise.normal(words(5)[i : i + 1], (3, 9, 7))[0], together[i])
