"""The digits that are built in."""

import numpy as np

from patchwords.data.sources.door import open_data


def test_the_digits_are_there_and_split() -> None:
    data = open_data("digits")
    assert (data.name, data.classes, data.channels) == ("digits", tuple("0123456789"), 1)
    assert [len(source) for source in data.splits.values()] == [1442, 355]
    pixels = np.stack([data.train.picture(index) for index in range(len(data.train))])
    assert pixels.shape == (1442, 8, 8, 1)
    assert pixels.dtype == np.uint8
    assert sorted(set(pixels.flatten().tolist())) == [round(shade * 255 / 16) for shade in range(17)]
    assert np.bincount(data.val.labels).min() >= 34


def test_the_split_of_the_digits_is_always_the_same() -> None:
    assert open_data("digits").digest() == open_data("digits").digest()
