"""What is said of pictures that cannot be read."""

import pytest

from patchwords.data.broken import why
from patchwords.data.picture import BrokenPictureError

CONVERT = "such files are not read: convert them to JPEG or PNG"


@pytest.mark.parametrize("name", ["a.heic", "phone/B.HEIC", "a.avif", "a.svg", "a.cr2", "a.NEF"])
def test_a_kind_that_nothing_decodes_is_told_with_what_to_do(name: str) -> None:
    assert why(name, BrokenPictureError("it is none of these")) == CONVERT


def test_others_are_told_with_what_is_wrong() -> None:
    assert why("a.png", BrokenPictureError("it is none of these")) == "it is none of these"
    assert why("a.heic", OSError(5, "Input/output error")) == "[Errno 5] Input/output error"
