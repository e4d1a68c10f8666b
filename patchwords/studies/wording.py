"""Words of findings, in English and in Chinese: scores side by side, and whether they can be told apart."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

import re

from patchwords.pages.both import Both
from patchwords.studies.results import UNKNOWN, Measure, Results, apart

NOTHING = Both("Not all of the trainings that this takes came to a result.", "得出结论所需的训练没有全部得到结果。")
ALONE = Both("There is nothing to set beside it.", "没有可以与之比较的。")
SAME = Both("That is as in the paper", "这与论文一致")
OTHER = Both("The paper found otherwise", "论文的结论与此不同")
UNCLEAR = Both("Whether that is as in the paper cannot be told here", "是否与论文一致，这里还无法判断")
SEAM = re.compile(r"(?<=[\u4e00-\u9fff])(?=[0-9A-Za-z])|(?<=[0-9A-Za-z%])(?=[\u4e00-\u9fff])")


def beside(first: Both, one: Measure, second: Both, other: Measure) -> Both:
    """Two scores, and which is the higher, where that is more than chance."""
    order = apart(one, other)
    english = {1: "higher than", -1: "lower than", 0: "not to be told apart from"}[order]
    chinese = {1: f"高于{second.chinese}的 {other}", -1: f"低于{second.chinese}的 {other}"}.get(
        order, f"与{second.chinese}的 {other} 无法区分"
    )
    return Both(
        f"{first.english} has {one}, {english} {second.english} ({other})",
        f"{first.chinese}为 {one}，{chinese}",
    )


def sentence(*parts: Both) -> Both:
    """Clauses as one sentence."""
    text = "; ".join(part.english for part in parts)
    return Both(f"{text[:1].upper()}{text[1:]}.", f"{_set('；'.join(part.chinese for part in parts))}。")


def same(word: str) -> Both:
    """A name that is the same in both languages."""
    return Both(word, word)


def verdict(agrees: bool | None, paper: Both) -> Both:
    """Whether the paper found the same, and what it found; None where here nobody can tell."""
    word = UNCLEAR if agrees is None else SAME if agrees else OTHER
    return Both(f"{word.english}: {paper.english}.", f"{word.chinese}：{_set(paper.chinese)}。")


def seeds(results: Results) -> Both:
    """How sure the numbers are."""
    count = len(results.seeds())
    if count == 1:
        return Both(
            f"one seed, of which nobody knows how much others differ: {100 * UNKNOWN:g} points are assumed",
            f"只用了一个随机种子，不知道其他种子会相差多少：这里按 {100 * UNKNOWN:g} 个百分点估计",
        )
    return Both(
        f"mean and deviation over {count} seeds; two are told apart if more than two standard errors lie between them",
        f"{count} 个随机种子的均值与标准差；两个均值相差超过两个标准误才视为有区别",
    )


def _set(chinese: str) -> str:
    """With a space wherever Chinese and Latin letters or numbers meet, as it is set in print."""
    return SEAM.sub(" ", chinese)
