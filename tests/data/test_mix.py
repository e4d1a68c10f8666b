"""Mixup and CutMix: pairs, one draw a step, targets in the share of the pixels."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from patchwords.data.mix import Mix, mix, symmetric_beta
from patchwords.errors import UsageError
from patchwords.ops import draws
from patchwords.settings import read, write

MIXUP, CUTMIX = Mix(mixup=0.8), Mix(cutmix=1.0)
DEIT = Mix(mixup=0.8, cutmix=1.0)


def run(settings: Mix, images: Tensor, *, step: int = 0, seed: int = 0, progress: float = 0.0) -> tuple[Tensor, Tensor]:
    return mix(images, torch.eye(len(images)), settings, seed=seed, step=step, progress=progress)


def own_share(settings: Mix, step: int, **others: float) -> float:
    """The share of its own label that a sample keeps."""
    _, targets = run(settings, torch.zeros(2, 1, 64, 64), step=step, **others)
    return float(targets[0, 0])


def numbered(count: int, size: tuple[int, int] = (12, 10)) -> Tensor:
    """Pictures that are filled with their number."""
    return torch.arange(count)[:, None, None, None].float().expand(count, 3, *size).clone()


@pytest.mark.parametrize("alpha", [0.2, 0.5, 0.8, 1.0, 3.0, 50.0])
def test_the_share_has_a_beta_distribution(alpha: float) -> None:
    uniform = draws.uniform("test", 0, np.arange(20_000), count=2)
    drawn = symmetric_beta(alpha, *uniform.T)
    assert stats.kstest(drawn, stats.beta(alpha, alpha).cdf).pvalue > 0.001
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)
    assert drawn.var() == pytest.approx(0.25 / (2 * alpha + 1), rel=0.05)


@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.2, 1.0, 1e6])
@pytest.mark.parametrize("uniform", [(0.0, 0.0), (1 - 2**-53, 0.0), (1 - 2**-53, 0.5), (0.5, 0.25), (0.0, 0.25)])
def test_the_share_is_a_number_at_the_ends_of_the_range(alpha: float, uniform: tuple[float, float]) -> None:
    assert 0 <= symmetric_beta(alpha, *map(np.float64, uniform)) <= 1


@pytest.mark.parametrize("alpha", [0.2, 0.8])
def test_steps_draw_their_shares_from_the_beta_distribution(alpha: float) -> None:
    shares = [own_share(Mix(mixup=alpha), step) for step in range(1000)]
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 0.001


def test_mixup_is_a_weighted_sum_of_neighbours() -> None:
    images = torch.rand(6, 3, 9, 7)
    mixed, targets = run(MIXUP, images)
    ours = float(targets[0, 0])
    partner = images[[1, 0, 3, 2, 5, 4]]
    assert 0 < ours < 1
    torch.testing.assert_close(mixed, ours * images + (1 - ours) * partner)
    torch.testing.assert_close(targets, ours * torch.eye(6) + (1 - ours) * torch.eye(6)[[1, 0, 3, 2, 5, 4]])


def test_mixup_keeps_its_bits() -> None:
    """Recorded runs go on with them: however it is reckoned, it is x + share · (neighbour - x)."""
    images = torch.randn(7, 3, 9, 7)
    for step in range(20):
        mixed, _ = run(MIXUP, images, step=step)
        theirs = 1 - float(symmetric_beta(MIXUP.mixup, *draws.uniform("mix", 0, step, count=6)[2:4]))
        assert torch.equal(mixed, images + theirs * (images[[1, 0, 3, 2, 5, 4, 6]] - images))


def test_cutmix_puts_a_box_of_the_neighbour_into_a_picture_and_its_share_into_the_target() -> None:
    for step in range(50):
        mixed, targets = run(CUTMIX, numbered(4), step=step)
        is_theirs = mixed[0, 0] == 1
        assert torch.equal(is_theirs, is_theirs.any(1, keepdim=True) & is_theirs.any(0, keepdim=True))
        for i, partner in enumerate([1, 0, 3, 2]):
            assert torch.equal(mixed[i, 0], torch.where(is_theirs, float(partner), float(i)))
            assert float(targets[i, partner]) == pytest.approx(float(is_theirs.float().mean()), abs=1e-6)


def test_cutmix_keeps_about_the_drawn_share() -> None:
    shares = [own_share(CUTMIX, step) for step in range(1500)]
    # Beta(1, 1) says one half; a box of side s that is cut off at the edges has (s - s²/4)² of the area left: 0.321
    assert np.mean(shares) == pytest.approx(1 - 0.321, abs=0.02)
    assert min(shares) < 0.15
    assert max(shares) == 1


@pytest.mark.parametrize("settings", [MIXUP, CUTMIX])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_targets_sum_to_one_and_a_last_odd_sample_stays(settings: Mix, count: int) -> None:
    images = torch.rand(count, 3, 8, 8)
    for step in range(10):
        mixed, targets = run(settings, images, step=step)
        torch.testing.assert_close(targets.sum(1), torch.ones(count))
        if count % 2:
            assert torch.equal(mixed[-1], images[-1])
            assert targets[-1, -1] == 1


@pytest.mark.parametrize("settings", [MIXUP, CUTMIX, DEIT])
def test_even_micro_batches_are_mixed_as_the_whole_batch(settings: Mix) -> None:
    images, targets = torch.rand(10, 3, 8, 6), torch.rand(10, 4)
    for step in range(6):
        whole = mix(images, targets, settings, seed=1, step=step, progress=0.2)
        parts = [
            mix(images[a:b], targets[a:b], settings, seed=1, step=step, progress=0.2)
            for a, b in ((0, 4), (4, 6), (6, 10))
        ]
        assert torch.equal(torch.cat([part[0] for part in parts]), whole[0])
        assert torch.equal(torch.cat([part[1] for part in parts]), whole[1])


def test_what_is_given_is_not_changed() -> None:
    images = torch.rand(4, 3, 8, 8)
    kept = images.clone()
    for settings in (MIXUP, CUTMIX):
        run(settings, images)
        assert torch.equal(images, kept)


def test_steps_and_seeds_are_drawn_apart() -> None:
    shares = {own_share(MIXUP, step, seed=seed) for step in range(20) for seed in range(3)}
    assert len(shares) == 60


def test_without_mixing_everything_is_returned_as_it_is() -> None:
    images, targets = torch.rand(4, 3, 8, 8), torch.eye(4)
    for settings, progress in ((Mix(), 0.0), (Mix(mixup=0.8, probability=0.0), 0.0), (Mix(mixup=0.8, until=0.5), 0.5)):
        mixed, mixed_targets = mix(images, targets, settings, seed=0, step=0, progress=progress)
        assert mixed is images
        assert mixed_targets is targets


def test_mixing_stops_at_its_share_of_the_training() -> None:
    settings = Mix(mixup=0.8, until=175 / 310)
    assert own_share(settings, 0, progress=174 / 310) < 1
    assert own_share(settings, 0, progress=175 / 310) == 1


def test_so_many_steps_mix_as_asked() -> None:
    settings = Mix(mixup=1.0, probability=0.3)
    assert np.mean([own_share(settings, step) < 1 for step in range(2000)]) == pytest.approx(0.3, abs=0.04)


@pytest.mark.parametrize("switch", [0.0, 0.3, 0.5, 1.0])
def test_of_both_cutmix_is_taken_as_often_as_asked(switch: float) -> None:
    settings = Mix(mixup=0.8, cutmix=1.0, switch=switch)
    images = numbered(2)
    is_cut = [set(run(settings, images, step=step)[0].unique().tolist()) <= {0.0, 1.0} for step in range(800)]
    assert np.mean(is_cut) == pytest.approx(switch, abs=0.05)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"mixup": -0.1}, r"mixup -0.1 is no a of a Beta\(a, a\): choose one above 0, or 0 for never"),
        ({"cutmix": float("inf")}, "cutmix inf is no a"),
        ({"mixup": float("nan")}, "mixup nan is no a"),
        ({"probability": 1.1}, "probability 1.1 is not between 0 and 1"),
        ({"switch": -1.0}, "switch -1.0 is not between 0 and 1"),
        ({"until": 2.0}, "until 2.0 is not between 0 and 1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Mix(**settings)


def test_settings_are_read_as_they_are_written() -> None:
    assert read(write(DEIT), Mix) == DEIT


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_gpu_is_never_waited_for() -> None:
    images, targets = torch.rand(8, 3, 32, 32, device="cuda"), torch.eye(8, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(8):
            mix(images, targets, DEIT, seed=0, step=step, progress=0.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
