"""Who may see which pictures: shares that lie within each other, halves without a class in common."""

import dataclasses
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources.source import Data, Subset
from patchwords.data.sources.split import Split
from patchwords.errors import DataError, UsageError
from patchwords.studies.shares import development, divided, drawn, final, halves, portion

SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.9, 1.0)


def pictures(data: Data, part: str = "train") -> list[str]:
    source = data.splits[part]
    return [source.name(index) for index in range(len(source))]


def test_smaller_shares_lie_within_larger_ones(shades) -> None:
    data = shades(4, train=90, val=8)
    found = [set(pictures(portion(data, share, 0))) for share in SHARES]
    assert all(small <= large for small, large in pairwise(found))
    assert found[-1] == set(pictures(data))


@pytest.mark.parametrize("share", SHARES)
def test_a_share_is_of_each_class_and_one_picture_at_least(share: float, shades) -> None:
    data = shades(4, train=90, val=8)
    counts = np.bincount(data.train.labels)
    assert np.bincount(portion(data, share, 0).train.labels).tolist() == [math.ceil(share * count) for count in counts]


def test_what_judges_is_the_same_for_every_share(shades) -> None:
    data = shades(4, train=90, val=8)
    assert portion(data, 0.1, 0).val is data.val
    assert portion(data, 0.1, 0).classes == data.classes
    assert portion(data, 1.0, 0) is data


def test_a_class_gives_the_same_pictures_whatever_others_there_are(shades) -> None:
    data = shades(4, train=80, val=8)
    first, _ = halves(data)
    alone, among = set(pictures(portion(first, 0.2, 0))), set(pictures(portion(data, 0.2, 0)))
    assert alone == {name for name in among if name in set(pictures(first))}


def test_pictures_keep_their_order_and_their_labels(shades) -> None:
    data = shades(4, train=40, val=8)
    kept = portion(data, 0.5, 0)
    places = [pictures(data).index(name) for name in pictures(kept)]
    assert places == sorted(places)
    assert kept.train.labels.tolist() == data.train.labels[places].tolist()
    assert (kept.train.picture(3) == data.train.picture(places[3])).all()


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, math.nan, math.inf])
def test_what_is_no_share_is_refused(share: float, shades) -> None:
    with pytest.raises(UsageError, match="is not above 0 and at most 1"):
        portion(shades(4, train=40, val=8), share, 0)


@pytest.mark.parametrize(("classes", "first", "others"), [(4, 2, 2), (5, 3, 2), (10, 5, 5)])
def test_halves_have_no_class_and_no_picture_in_common(classes: int, first: int, others: int, shades) -> None:
    data = shades(classes, train=60, val=20)
    one, other = halves(data)
    assert (len(one.classes), len(other.classes)) == (first, others)
    assert one.classes + other.classes == data.classes
    for part in ("train", "val"):
        assert sorted(pictures(one, part) + pictures(other, part)) == sorted(pictures(data, part))


def test_labels_of_a_half_count_from_0_and_mean_the_same_classes(shades) -> None:
    data = shades(5, train=60, val=20)
    for half in halves(data):
        for part in ("train", "val"):
            source, whole = half.splits[part], data.splits[part]
            names = {whole.name(index): data.classes[whole.labels[index]] for index in range(len(whole))}
            assert [half.classes[label] for label in source.labels] == [names[name] for name in pictures(half, part)]
        assert set(half.train.labels) == set(range(len(half.classes)))


def test_the_labels_of_the_whole_are_left_alone(shades) -> None:
    data = shades(4, train=40, val=8)
    before = data.train.labels.copy()
    halves(data)
    assert (data.train.labels == before).all()


def test_halves_are_called_by_their_first_class(shades) -> None:
    one, other = halves(shades(4, train=40, val=8))
    assert one.name == "shades, 2 classes from shade 0 on"
    assert other.name == "shades, 2 classes from shade 2 on"


@pytest.mark.parametrize("classes", [2, 3])
def test_too_few_classes_have_no_halves(classes: int, shades) -> None:
    with pytest.raises(DataError, match=rf"shades has {classes} classes, too few .* at least 4 classes, .*--target"):
        halves(shades(classes, train=30, val=6))


def test_the_test_part_judges_and_all_else_is_learned_from(shades) -> None:
    data = shades(4, train=40, val=8, test=12)
    found = final(data)
    assert pictures(found) == pictures(data) + pictures(data, "val")
    assert pictures(found, "val") == pictures(data, "test")
    assert found.test is None
    assert found.notes == ("shades is judged by its test part",)


def test_without_a_test_part_what_is_next_to_one_judges(shades) -> None:
    data = shades(4, train=40, val=8)
    assert pictures(final(data), "val") == pictures(data, "val")
    whole = dataclasses.replace(data, val=data.train)
    found = final(whole)
    assert np.bincount(found.val.labels).tolist() == [2] * 4
    assert sorted(pictures(found) + pictures(found, "val")) == sorted(pictures(data))
    assert "a fifth of each class is put aside" in found.notes[0]


def test_what_chooses_is_a_share_of_what_may_be_learned_from(shades) -> None:
    data = final(shades(4, train=40, val=8, test=12))
    found = development(data, Split(share=0.25))
    assert sorted(pictures(found) + pictures(found, "val")) == sorted(pictures(data))
    assert not set(pictures(found, "val")) & set(pictures(data, "val"))
    assert pictures(divided(data, np.array([3, 1]), np.array([0]))) == [pictures(data)[3], pictures(data)[1]]


def test_a_draw_that_lacks_classes_says_so(shades) -> None:
    data = shades(4, train=40, val=8)
    found: Any = drawn(data, np.flatnonzero(data.train.labels < 3))
    assert "none of the 30 pictures shows 1 of the classes (shade 3)" in found.notes[0]
    assert drawn(data, np.arange(8)).notes == ()


def test_another_seed_keeps_other_pictures(shades) -> None:
    data = shades(4, train=80, val=8)
    first, again, other = (set(pictures(portion(data, 0.5, seed))) for seed in (0, 0, 1))
    assert first == again != other


def test_a_half_without_pictures_to_judge_it_is_refused(shades) -> None:
    data = shades(4, train=40, val=8)
    seen = dataclasses.replace(data, val=Subset(data.val, np.flatnonzero(data.val.labels < 3)))
    with pytest.raises(DataError, match=r"no pictures that judge of .*--target"):
        halves(seen)
