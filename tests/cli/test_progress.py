"""Work on the terminal, and where there is none."""

import io

import pytest

from patchwords.cli.output import Output
from patchwords.cli.progress import PAUSE, Bars


@pytest.fixture
def bars() -> Bars:
    """In a file, where nothing can be written over."""
    output = Output(False, False)
    output.talk.file = io.StringIO()
    return Bars(output)


def said(bars: Bars) -> list[str]:
    return bars.output.talk.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_in_a_file_work_is_told_when_it_is_done(bars: Bars) -> None:
    for done in range(1, 101):
        bars.working("decoding", done, 100)
    assert said(bars) == ["decoding: 100 of 100"]


def test_in_a_file_work_without_a_known_end_is_told_now_and_then(bars: Bars) -> None:
    for done in range(1, 101):
        bars.working("downloading", done, 0)
    assert said(bars) == []
    bars.told -= 2 * PAUSE
    bars.working("downloading", 101, 0)
    bars.working("downloading", 102, 0)
    assert said(bars) == ["downloading: 101 of many"]


def test_of_an_evaluation_the_scores_are_told_and_not_where_the_run_stands(bars: Bars) -> None:
    place = {"kind": "val", "step": 7, "epoch": 2.0, "seconds": 61.5}
    bars.scored(place | {"loss": 0.5, "code_usage": 0.25}, False)
    bars.scored(place | {"accuracy": 0.9, "top5": 1.0, "loss": 0.5}, True)
    assert said(bars) == [
        "epoch 2.0: validation loss 0.5000  code_usage 0.2500",
        "epoch 2.0: validation accuracy 90.00 %  loss 0.5000  (best)",
    ]
