"""What a command says: bars on stderr that take any name, whatever is in it."""

import io
import sys

from patchwords.cli.output import Output


def test_a_download_of_any_name_has_its_bar_on_stderr() -> None:
    output = Output(False, False)
    output.talk._force_terminal = True
    output.talk.file = io.StringIO()
    with output.download("{x} [/red] %s") as advance:
        assert output.talk.file.getvalue() == ""  # until the first bytes come
        before = sys.stdout
        advance(1, 2)
        assert sys.stdout is before  # what is printed meanwhile is no talk
        advance(2, 2)
    assert "{x} [/red] %s" in output.talk.file.getvalue()


def test_a_quiet_download_says_nothing() -> None:
    output = Output(False, True)
    output.talk._force_terminal = True
    output.talk.file = io.StringIO()
    with output.download("x") as advance:
        advance(1, 0)
    assert output.talk.file.getvalue() == ""
