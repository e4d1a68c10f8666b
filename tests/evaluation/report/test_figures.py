"""Figures hold what their captions say."""

import numpy as np

from patchwords.evaluation.report.figures import MOST_BLOCKS, blocks


def test_rows_of_a_matrix_are_true_classes() -> None:
    shares, step = blocks(np.array([0, 0, 2]), np.array([1, 0, 1]), 3)
    assert step == 1
    assert shares.tolist() == [[0.5, 0.5, 0], [0, 0, 0], [0, 1, 0]]


def test_many_classes_are_counted_together() -> None:
    classes = 2 * MOST_BLOCKS + 1
    shares, step = blocks(np.array([0, 2, classes - 1]), np.array([2, 0, classes - 1]), classes)
    assert (step, len(shares)) == (3, -(-classes // 3))
    assert shares[0, 0] == shares[-1, -1] == 1
    assert shares.sum() == 2
