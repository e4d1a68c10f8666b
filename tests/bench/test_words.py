"""Lists of words."""

import pytest

from patchwords.bench.words import expect_words
from patchwords.errors import UsageError


def test_a_word_that_is_not_known_hears_the_nearest() -> None:
    expect_words("how", ("eager",), ("eager", "compiled"))
    with pytest.raises(UsageError, match=r"how 'compile' is not known; did you mean compiled"):
        expect_words("how", ("eager", "compile"), ("eager", "compiled"))
