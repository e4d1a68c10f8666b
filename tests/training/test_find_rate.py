"""The learning-rate finder: a growing rate, a falling and rising loss, a suggestion and its picture."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.errors import UsageError
from patchwords.training import find_rate as module
from patchwords.training.distributed import World
from patchwords.training.find_rate import (
    ENDINGS,
    HIGHEST,
    LOWEST,
    STEPS,
    Rate,
    _draw,
    _expect_a_fall,
    _highest_useful,
    _smoothed,
    _tried,
    find_rate,
)
from patchwords.training.watch import Log

ALONE = World(0, 1, torch.device("cpu"))


class Told(Log):
    def __init__(self) -> None:
        self.working_on: list[tuple[int, int]] = []

    def working(self, what: str, done: int, total: int) -> None:
        if what == "looking for a learning rate":
            self.working_on.append((done, total))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two classes that can be told apart: dark and bright."""
    chance = np.random.default_rng(0)
    labels = np.arange(60) % 2
    images = chance.integers(0, 60, (60, 8, 8, 1)) + 150 * labels[:, None, None, None]
    path = tmp_path_factory.mktemp("data") / "shades.npz"
    np.savez(path, images=images.astype(np.uint8), labels=labels)
    return path


CHANGES = {"batch": 16, "parts.depth": 1, "parts.width": 16, "parts.mlp": 16, "parts.heads": 2, "data.workers": 0}


@pytest.fixture(scope="module")
def found(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Rate, Told]:
    told = Told()
    out = tmp_path_factory.mktemp("out") / "new" / "rate.png"
    return find_rate(data, recipe="digits", change=CHANGES, device="cpu", out=out, watcher=told), told


def test_rates_grow_by_the_same_factor_from_the_lowest_up(found: tuple[Rate, Told]) -> None:
    rate, _ = found
    assert rate.rates[0] == LOWEST
    factors = rate.rates[1:] / rate.rates[:-1]
    np.testing.assert_allclose(factors, (HIGHEST / LOWEST) ** (1 / (STEPS - 1)))
    assert rate.rates[-1] <= HIGHEST * (1 + 1e-9)
    assert len(rate.losses) == len(rate.rates) > STEPS // 4


def test_the_suggestion_lies_where_the_loss_falls(found: tuple[Rate, Told]) -> None:
    rate, _ = found
    lowest = rate.rates[rate.losses.argmin()]
    assert 1e-5 < rate.suggestion <= lowest * 1.1
    assert rate.losses.min() < 0.9 * rate.losses[0]
    assert rate.suggestion == float(f"{rate.suggestion:.1e}")


def test_the_picture_is_there_and_can_be_opened(found: tuple[Rate, Told]) -> None:
    rate, _ = found
    with Image.open(rate.picture) as picture:
        assert picture.format == "PNG"
        assert picture.width > 500


def test_progress_is_told(found: tuple[Rate, Told]) -> None:
    rate, told = found
    assert told.working_on == [(step + 1, STEPS) for step in range(len(rate.rates))]


def test_nothing_else_is_left_behind(found: tuple[Rate, Told], data: Path) -> None:
    rate, _ = found
    assert [path.name for path in rate.picture.parent.iterdir()] == ["rate.png"]
    assert [path.name for path in data.parent.iterdir()] == ["shades.npz"]


@pytest.mark.parametrize("name", ["rate", "rate.txt", "rate.1", ".png"])
def test_a_name_that_does_not_say_what_to_write_is_refused_before_the_search(
    name: str, data: Path, tmp_path: Path
) -> None:
    """Matplotlib writes what has no ending beside it, over whatever is there."""
    (tmp_path / f"{name}.png").write_bytes(b"mine")
    told = Told()
    with pytest.raises(UsageError, match=rf"^{name} is no name for the picture: choose one that ends in \.png, \.jpg"):
        find_rate(data, recipe="digits", change=CHANGES, device="cpu", out=tmp_path / name, watcher=told)
    assert told.working_on == []
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"mine"]


@pytest.mark.parametrize("ending", [*ENDINGS, ".PNG"])
def test_what_was_asked_for_is_written(ending: str, tmp_path: Path) -> None:
    _draw(tmp_path / f"rate{ending}", *(np.linspace(2, 1, 9) for _ in range(3)), 1.5)
    assert [path.name for path in tmp_path.iterdir()] == [f"rate{ending}"]


def test_a_picture_that_is_there_is_not_overwritten(tmp_path: Path, data: Path) -> None:
    (tmp_path / "rate.png").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"rate\.png exists"):
        find_rate(data, recipe="digits", change=CHANGES, device="cpu", out=tmp_path / "rate.png")
    assert (tmp_path / "rate.png").read_bytes() == b"mine"


# The parts


def made(losses: list[float]) -> Any:
    """Parts whose losses are known beforehand."""
    rest = iter(losses)
    update = SimpleNamespace(optimizer=SimpleNamespace(param_groups=[{"lr": 0.0, "scale": 1.0}]))
    parts = SimpleNamespace(
        objective=SimpleNamespace(train=lambda: None),
        feed=SimpleNamespace(batches=lambda start, stop: iter(range(start, stop))),
    )

    class Update:
        optimizer = update.optimizer

        def __call__(self, loaded: object, step: int, progress: float) -> tuple[dict[str, torch.Tensor], None]:
            return {"loss": torch.tensor(next(rest), dtype=torch.float64)}, None

    parts.update = Update()
    return parts


def test_a_place_that_cannot_be_written_is_refused_before_the_search(data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = Told()
    with pytest.raises(UsageError, match=r"rate\.png cannot be written, since .*/file is a file"):
        find_rate(data, recipe="digits", out=tmp_path / "file" / "rate.png", device="cpu", watcher=told)
    assert told.working_on == []


def test_the_search_ends_where_the_loss_explodes() -> None:
    losses = [2.0] * 40 + [1.0] + [1.5, 3.9, 4.1, 100.0] + [0.0] * 60
    tried, found = _tried(made(losses), ALONE, Log())
    assert found.tolist() == losses[:43]
    assert len(tried) == 43


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_the_search_ends_where_the_loss_is_no_number(wrong: float) -> None:
    tried, found = _tried(made([2.0] * 10 + [wrong] + [1.0] * 100), ALONE, Log())
    assert len(tried) == len(found) == 10


def test_a_noisy_start_does_not_end_it() -> None:
    losses = [1.0, 9.0] + [1.0] * (STEPS - 2)
    assert len(_tried(made(losses), ALONE, Log())[0]) == STEPS


def test_smoothing_is_a_mean_that_starts_fair_and_comes_no_later() -> None:
    np.testing.assert_allclose(_smoothed(np.full(20, 3.0)), 3.0)
    near, far = np.exp(-1 / 50), np.exp(-4 / 50)
    found = _smoothed(np.array([4.0, 2.0, 1.0]))
    np.testing.assert_allclose(found[1], (near * 4 + 2 + near * 1) / (1 + 2 * near))
    np.testing.assert_allclose(found[0], (4 + near * 2 + far * 1) / (1 + near + far))
    line = 60 - np.arange(60.0)
    np.testing.assert_allclose(_smoothed(line)[20:40], line[20:40], rtol=1e-3)


def test_a_jump_above_the_first_losses_counts_no_higher_than_these() -> None:
    falling, jump = np.linspace(2, 1, 50), np.where(np.arange(50) == 40, 50.0, 0.0)
    assert _smoothed(falling + jump).max() <= 2
    assert _smoothed(falling + jump).argmin() == 49


def curve(*falls: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Rates, and a loss that falls by so much around each power of ten, so steeply; from 0.1 on it explodes."""
    rates = np.logspace(-6, 0, 121)
    powers = np.log10(rates)
    fallen = [much / (1 + np.exp(-(powers - power) * steep)) for much, power, steep in falls]
    return rates, 2 - np.sum(fallen, 0) + 10 * np.clip(powers + 1, 0, None)


def test_the_highest_rate_is_suggested_at_which_the_loss_still_falls() -> None:
    rates, losses = curve((1.0, -3.0, 4.0))
    assert 1e-3 < _highest_useful(rates, losses) < 10**-2
    slopes = np.gradient(losses, np.log(rates))
    last = int(np.flatnonzero(np.isclose(rates, _highest_useful(rates, losses), rtol=0.1))[0])
    assert slopes[last] / slopes.min() == pytest.approx(0.1, abs=0.03)


def test_what_is_learned_at_once_does_not_lower_the_suggestion() -> None:
    suggested = _highest_useful(*curve((0.3, -3.0, 4.0)))
    assert _highest_useful(*curve((1.0, -5.0, 3.0), (0.6, -4.0, 3.0), (0.3, -3.0, 4.0))) == pytest.approx(
        suggested, rel=0.5
    )


def test_a_dip_far_behind_the_fall_is_no_part_of_it() -> None:
    rates, losses = curve((1.0, -4.0, 4.0))
    dipped = losses - 0.1 * np.exp(-(((np.log10(rates) + 1.5) / 0.2) ** 2))
    assert np.log10(rates[dipped.argmin()]) == pytest.approx(-1.5, abs=0.1)
    assert _highest_useful(rates, dipped) == _highest_useful(rates, losses)


@pytest.mark.parametrize(
    ("recipe", "least", "most"),
    [("digits", 1e-3, 1e-2), ("digits-mae", 3e-4, 1e-2), ("digits-masked-patch", 5e-4, 1e-2)],
)
def test_the_suggestion_for_the_digits_is_near_the_rate_of_the_recipe(
    recipe: str, least: float, most: float, tmp_path: Path
) -> None:
    change = {"data.workers": 0, "data.cache": "memory"}
    found = find_rate("digits", recipe=recipe, change=change, device="cpu", out=tmp_path / "rate.png")
    assert least < found.suggestion < most


@pytest.mark.parametrize("losses", [[], [1.0], [1.0, 0.9], [1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 3.0, 4.0]])
def test_a_loss_that_never_falls_is_said(losses: list[float]) -> None:
    rates = np.logspace(-6, 0, max(len(losses), 1))[: len(losses)]
    with pytest.raises(UsageError, match="the loss never fell"):
        _highest_useful(rates, np.array(losses))


EVEN, GROWING = np.ones(STEPS), np.logspace(-3, 0, STEPS)
LATE = np.maximum(0, np.arange(STEPS) - 70) / 10


def falls(losses: np.ndarray) -> bool:
    try:
        _expect_a_fall(losses)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize("rise", [0 * LATE, LATE])
@pytest.mark.parametrize("scatter", [EVEN, GROWING])
def test_noise_is_no_fall(scatter: np.ndarray, rise: np.ndarray) -> None:
    """At the same height, or growing with the rate as behind a zero head; until the loss explodes, or to the end."""
    chance = np.random.default_rng(0)
    found = [falls(2.3 + 0.1 * scatter * chance.normal(size=STEPS) + rise) for _ in range(500)]
    assert sum(found) <= 2


@pytest.mark.parametrize(("fall", "scatter"), [(0.03, 0.01 * EVEN), (0.1, 0.2 * GROWING), (1.0, 0 * EVEN)])
def test_a_fall_is_one_however_small_where_the_noise_is_smaller(fall: float, scatter: np.ndarray) -> None:
    chance = np.random.default_rng(0)
    gone = np.clip((np.arange(STEPS) - 30) / 20, 0, 1)
    assert all(falls(2.3 - fall * gone + scatter * chance.normal(size=STEPS) + LATE) for _ in range(200))


def test_of_pictures_that_nothing_can_be_learned_from_no_rate_is_suggested(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    noise, labels = chance.integers(0, 256, (2000, 8, 8, 1)), chance.integers(0, 10, 2000)
    np.savez(tmp_path / "noise.npz", images=noise.astype(np.uint8), labels=labels)
    for seed in range(3):
        with pytest.raises(UsageError, match=r"no rate can be suggested: choose a larger batch, .* with --lr"):
            find_rate(
                tmp_path / "noise.npz",
                recipe="digits",
                change=CHANGES | {"seed": seed},
                device="cpu",
                out=tmp_path / "rate.png",
            )
    assert [path.name for path in tmp_path.iterdir()] == ["noise.npz"]


def test_a_search_that_fails_leaves_no_picture(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_tried", lambda made, here, watcher: (np.array([]), np.array([])))
    with pytest.raises(UsageError, match="the loss never fell"):
        find_rate(data, recipe="digits", change=CHANGES, device="cpu", out=tmp_path / "rate.png")
    assert list(tmp_path.iterdir()) == []
