"""The command line: one word for each thing a person wants to do, one short file a word."""

import re
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from types import FrameType
from typing import Annotated, NoReturn

import typer

from patchwords import __version__
from patchwords.errors import UsageError, in_words

VERBS = (
    "train",
    "evaluate",
    "predict",
    "inspect",
    "check",
    "show",
    "convert",
    "export",
    "hub",
    "serve",
    "study",
    "bench",
)  # each the name of a module here, whose function of that name is the command

PIPE_BROKE = 128 + 13  # SIGPIPE: whoever read the output has enough: `patchwords show zoo | head`

app = typer.Typer(
    help="Vision Transformers: from a folder of pictures to a trained, examined, exported and served model.",
    epilog="--debug with any command shows the traceback of an error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in VERBS:
    app.command(verb)(getattr(import_module(f"patchwords.cli.{verb}"), verb))


@app.callback(invoke_without_command=True)
def common(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(__version__)


def main() -> None:
    """Runs a command; what a user can mend is one sentence and an exit code, the rest is a bug and says so."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as it is under nohup
        signal.signal(signal.SIGHUP, _stop)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to fail
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        _refuse_empty(arguments)
        app(arguments, prog_name="patchwords")
    except SystemExit as ended:
        sys.exit(PIPE_BROKE if ended.code == 1 else ended.code)  # 1, with which typer ends then, is a bug here
    except Exception as error:
        _leave(*in_words(error), debug)


def _refuse_empty(words: Sequence[str]) -> None:
    """Nothing is not the same as not given: a shell variable that was never set would train on the built-in digits."""
    for before, word in pairwise(("patchwords", *words)):
        if not word.strip():
            raise UsageError(f"the word after {before} is empty: give one, or leave it out")
        if re.fullmatch(r"--[a-z-]+=\s*", word):
            raise UsageError(f"{word} says nothing: give a value, or leave it out")


def _leave(sentence: str, code: int, debug: bool) -> NoReturn:
    with suppress(OSError):  # the terminal may be gone, and the code is told all the same
        if debug:
            traceback.print_exc()
        print(f"patchwords: {sentence}", file=sys.stderr)
    sys.exit(code)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """Ctrl-C leaves with 130, SIGTERM with 143, a closed terminal with 129, after whatever was open is closed."""
    sys.exit(128 + number)
