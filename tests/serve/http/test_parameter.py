"""Parameters: read strictly, described in the same place."""

import pytest

from patchwords.errors import UsageError
from patchwords.serve.http.parameter import Parameter, read

KNOWN = (
    Parameter(name="model", kind="string", says="Which."),
    Parameter(name="top", says="How many.", otherwise=5),
    Parameter(name="head", says="The head.", least=0, needed=True),
)


def test_values_are_read_and_what_is_left_out_is_the_default() -> None:
    assert read(b"head=0&model=a%20b%C3%A9", KNOWN) == {"model": "a bé", "top": 5, "head": 0}


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (b"", "head is missing: The head"),
        (b"head=1&tpo=3", "'tpo' is no parameter here; did you mean top"),
        (b"head=1&head=2", "head is given twice"),
        (b"head=-1", "no whole number from 0 to 1,000,000"),
        (b"head=1&top=0", "no whole number from 1"),
        (b"head=1.5", "no whole number"),
        (b"head=%D9%A1", "no whole number"),  # an Arabic one
        (b"head=99999999999999999999", "no whole number"),
        (b"head=", "no whole number"),
        (b"head=1&url=http://evil.example", "'url' is no parameter"),
        (b"head=1&model=%ff", "cannot be read"),
        (b"\xff=1", "cannot be read"),
        (b"&".join(b"a%d=1" % number for number in range(99)), "cannot be read"),
    ],
)
def test_anything_else_is_refused(query: bytes, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read(query, KNOWN)


def test_the_schema_says_what_is_read() -> None:
    assert KNOWN[1].schema == {"type": "integer", "minimum": 1, "maximum": 1_000_000, "default": 5}
    assert KNOWN[0].schema == {"type": "string"}
