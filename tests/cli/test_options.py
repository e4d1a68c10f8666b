"""Options that several commands share."""

import pytest

from patchwords.cli.options import numbers
from patchwords.errors import UsageError


def test_a_list_of_numbers_is_read_in_its_kind() -> None:
    assert numbers("--knn", "1,5,10", int) == (1, 5, 10)
    assert numbers("--rates", "0.01, 3e-4", float) == (0.01, 3e-4)
    assert numbers("--rates", None, float) is None


@pytest.mark.parametrize(("text", "kind", "example"), [("1,,5", int, "1,5,10"), ("", float, "0.01,0.03")])
def test_what_is_no_list_of_numbers_is_refused_with_an_example(text: str, kind: type, example: str) -> None:
    with pytest.raises(
        UsageError, match=f"--rates '{text}' is no list of numbers: write them with commas, as {example}"
    ):
        numbers("--rates", text, kind)
