"""Tables and galleries: what is true is always shown, and what is nothing is no number."""

import re

import numpy as np

from patchwords.evaluation.report import panels
from patchwords.evaluation.report.panels import Judged


def judged(logits: list[list[float]], labels: list[int]) -> Judged:
    names = tuple("abcdefgh"[: len(logits[0])])
    return Judged(
        logits=np.array(logits),
        labels=np.array(labels),
        loss="softmax",
        classes=names,
        names=["0.png"] * len(labels),
        thumbnails=lambda place: b"\x89PNG\r\n\x1a\n",
    )


def test_the_true_class_is_among_those_beneath_a_picture() -> None:
    found = panels.gallery(judged([[5, 4, 3, 2, 1]], [4]), [0])
    assert re.findall(r"<li[^>]*><span><bdi>(\w)", found) == ["a", "b", "e"]
    found = panels.gallery(judged([[5, 4, 3, 2, 1]], [2]), [0])
    assert re.findall(r"<li[^>]*><span><bdi>(\w)", found) == ["a", "b", "c"]


def test_the_weakest_class_comes_first_and_one_without_pictures_last() -> None:
    found = panels.classes(judged([[9, 0, 0], [9, 0, 0], [0, 9, 0], [9, 0, 0]], [0, 0, 1, 1]))
    assert re.findall(r"<tr><td><bdi>(\w)", found) == ["b", "a", "c"]
    last = found.rpartition("<tr>")[2]
    assert last.count("\N{EN DASH}") == 3  # precision, recall and F1 of nothing
    assert "%" not in last


def test_a_number_on_a_strong_colour_changes_its_own() -> None:
    logits = [[9, 0]] * 3 + [[0, 9]]
    found = panels.confusion(judged(logits, [0, 0, 0, 0]))
    assert re.findall(r'class="(right|wrong)( clear)?"', found) == [("right", " clear"), ("wrong", "")]
