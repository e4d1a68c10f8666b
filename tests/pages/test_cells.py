"""Words from strangers go into cells as words."""

import pytest

from patchwords.pages.cells import cell, is_formula


@pytest.mark.parametrize("word", ["=1+1", "+1", "-1", "@cmd", "\uff1d1"])
def test_what_a_spreadsheet_would_calculate_is_marked(word: str) -> None:
    assert is_formula(word)
    assert cell(word) == f"'{word}"


@pytest.mark.parametrize("word", ["tulip", "1=1", "", "'=1"])
def test_other_words_stay_as_they_are(word: str) -> None:
    assert not is_formula(word)
    assert cell(word) == word
