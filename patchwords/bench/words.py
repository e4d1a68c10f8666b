"""Lists of words that a person gave."""

from collections.abc import Iterable

from patchwords.errors import UsageError
from patchwords.settings import nearest


def expect_words(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuses one that is not known."""
    every = list(known)
    for word in given:
        if word not in every:
            raise UsageError(f"{what} {word!r} is not known; {nearest(word, every)}")
