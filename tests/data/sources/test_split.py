"""A share of every class is held out, the same for a seed, and each class by itself."""

import numpy as np
import pytest

from patchwords import settings
from patchwords.data.sources.split import Split, split
from patchwords.errors import DataError, UsageError

FLOWERS = {"daisy": 633, "dandelion": 898, "roses": 641, "sunflowers": 699, "tulips": 799}


def labels(counts: list[int]) -> np.ndarray:
    return np.repeat(np.arange(len(counts)), counts)


def test_the_five_flowers_split_into_2939_and_731() -> None:
    train, val = split(labels(list(FLOWERS.values())), list(FLOWERS), Split())
    assert (len(train), len(val)) == (2939, 731)
    assert sorted([*train, *val]) == list(range(3670))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.25, 0.5, 0.9])
def test_the_share_of_each_class_is_rounded_down(share: float) -> None:
    counts = [20, 33, 7, 100]
    given = labels(counts)
    _, val = split(given, list("abcd"), Split(share=share))
    assert np.bincount(given[val], minlength=4).tolist() == [int(share * count) for count in counts]


def test_labels_may_come_in_any_order() -> None:
    given = np.tile([2, 0, 1], 10)
    train, val = split(given, list("abc"), Split())
    assert np.bincount(given[val]).tolist() == [2, 2, 2]
    assert train.tolist() == sorted(train)
    assert val.tolist() == sorted(val)


def test_a_seed_chooses_always_the_same_and_another_one_others() -> None:
    given = labels([50, 50])
    first, again, other = (split(given, ["a", "b"], Split(seed=seed))[1].tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_later_versions_choose_the_same() -> None:
    assert split(labels([10, 10]), ["a", "b"], Split())[1].tolist() == [3, 6, 14, 18]


def test_another_class_does_not_change_what_is_held_out_of_the_others() -> None:
    _, alone = split(labels([30, 40]), ["cat", "dog"], Split())
    _, more = split(labels([20, 30, 40]), ["ant", "cat", "dog"], Split())
    assert [index - 20 for index in more if index >= 20] == alone.tolist()


def test_a_class_that_is_too_small_has_none_in_validation() -> None:
    given = labels([3, 10])
    _, val = split(given, ["few", "many"], Split())
    assert given[val].tolist() == [1, 1]


def test_a_class_without_pictures_is_no_obstacle() -> None:
    _, val = split(labels([5, 0, 5]), list("abc"), Split())
    assert len(val) == 2


def test_a_thousand_classes_of_one_picture_cannot_be_split() -> None:
    with pytest.raises(DataError, match=r"largest of the 1000 classes has 1; add pictures \(at least 5 of one class\)"):
        split(labels([1] * 1000), [str(number) for number in range(1000)], Split())


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, 20.0, float("nan")])
def test_a_share_is_between_0_and_1(share: float) -> None:
    with pytest.raises(UsageError, match="is not between 0 and 1"):
        Split(share=share)


def test_settings_come_from_a_table() -> None:
    assert settings.read({"share": 0.1, "seed": 3}, Split) == Split(share=0.1, seed=3)
    with pytest.raises(UsageError, match="shar is not a setting; did you mean share"):
        settings.read({"shar": 0.1}, Split)
    with pytest.raises(UsageError, match="seed -1 is below 0"):
        Split(seed=-1)


def test_odd_bytes_in_the_name_of_a_class_do_no_harm() -> None:
    assert len(split(labels([10, 10]), ["caf\udce9", "b"], Split())[1]) == 4
