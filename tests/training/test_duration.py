"""Durations in the words of a recipe."""

import pytest

from patchwords.errors import UsageError
from patchwords.training import duration


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("0 steps", 0),
        ("1 step", 1),
        ("20k steps", 20_000),
        ("2.5k steps", 2_500),
        ("20ksteps", 20_000),
        (" 7 steps ", 7),
        ("1 epoch", 6),  # 5.74 steps, and a step that is begun is made
        ("1.5 epochs", 9),
        ("300 epochs", 1723),
        ("0 epochs", 0),
        ("5%", 50),
        ("0.1%", 1),
        ("33.3 %", 333),
        ("100%", 1000),
    ],
)
def test_a_duration_is_so_many_steps(text: str, steps: int) -> None:
    assert duration.steps(text, per_epoch=2939 / 512, total=1000) == steps


@pytest.mark.parametrize("batch", range(1, 60))
def test_whole_epochs_are_exact_whatever_the_batch(batch: int) -> None:
    for samples in (7, 33, 1437, 2939, 1_281_167):
        for epochs in (1, 3, 7, 90, 300):
            wanted = -(-epochs * samples // batch)
            assert duration.steps(f"{epochs} epochs", per_epoch=samples / batch, total=None) == wanted


@pytest.mark.parametrize("text", ["", "5", "5 foo", "steps", "-1 steps", "1e4 steps", "5 %%", "k steps", "1. epochs"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match="is no duration: write 300 epochs, 20k steps or 5%"):
        duration.steps(text, per_epoch=10.0, total=100)


def test_a_part_of_a_step_is_refused() -> None:
    with pytest.raises(UsageError, match="no part of a step"):
        duration.parse("2.5 steps")


def test_the_whole_training_is_no_share_of_itself() -> None:
    with pytest.raises(UsageError, match="'5%' is a share of the whole training"):
        duration.steps("5%", per_epoch=10.0, total=None)
