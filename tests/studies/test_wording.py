"""Findings are sentences in two languages."""

import re
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.results import Measure, Results
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR, beside, same, seeds, sentence, verdict

ONE, OTHER_ONE = Both("the first", "第一"), Both("the second", "第二")
PAPER = Both("it is so", "是这样")


def measure(value: float) -> Measure:
    return Measure(values=(value,), judged=1000)


@pytest.mark.parametrize(
    ("first", "second", "english", "chinese"),
    [(0.9, 0.5, "higher than", "高于"), (0.5, 0.9, "lower than", "低于"), (0.5, 0.5, "apart", "无法区分")],
)
def test_two_scores_and_which_is_higher(first: float, second: float, english: str, chinese: str) -> None:
    words = beside(ONE, measure(first), OTHER_ONE, measure(second))
    assert english in words.english
    assert chinese in words.chinese
    for text in words:
        assert f"{100 * first:.1f}" in text
        assert f"{100 * second:.1f}" in text
    others = {"higher", "lower", "apart"} - {english.split()[0]}
    assert not any(other in words.english for other in others)


def test_clauses_are_one_sentence() -> None:
    words = sentence(Both("it has two", "有二"), Both("and more", "更多"))
    assert words == Both("It has two; and more.", "有二\uff1b更多。")


def test_a_sentence_keeps_the_names_within_it() -> None:
    assert sentence(same("mean and ViT")).english == "Mean and ViT."
    assert sentence(same("ViT-B/16")).english == "ViT-B/16."


@pytest.mark.parametrize(("agrees", "word"), [(True, SAME), (False, OTHER), (None, UNCLEAR)])
def test_a_verdict_says_what_the_paper_found(agrees: bool | None, word: Both) -> None:
    words = verdict(agrees, PAPER)
    assert words.english == f"{word.english}: it is so."
    assert words.chinese == f"{word.chinese}\uff1a是这样。"


def test_all_that_is_said_is_said_in_both_languages_and_otherwise_each_time() -> None:
    every = (NOTHING, SAME, OTHER, UNCLEAR)
    for words in every:
        assert re.search("[\u4e00-\u9fff]", words.chinese)
        assert words.english.isascii()
    assert len({words.english for words in every}) == len({words.chinese for words in every}) == len(every)


def test_one_seed_is_said_to_be_one(made_up_results: Any) -> None:
    _, once = made_up_results("transfer", lambda _: {"accuracy": 0.5})
    assert "one seed" in seeds(once).english
    _, thrice = made_up_results("transfer", lambda _: {"accuracy": 0.5}, (0, 1, 2))
    assert "3 seeds" in seeds(thrice).english
    assert "3" in seeds(thrice).chinese
    assert "0 seeds" in seeds(Results(rows=[])).english
