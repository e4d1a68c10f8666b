"""Every error a user can cause is one sentence and its exit code."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from patchwords import cli, errors


def test_a_wrong_word_is_usage(run) -> None:
    answer = run("shwo")
    assert answer.code == 2
    assert "shwo" in answer.err


def test_an_error_is_one_sentence_without_a_traceback(run) -> None:
    answer = run("show", "ViT-B/15")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert "image 224x224 is not a multiple of patch 15x15" in answer.err


@pytest.mark.parametrize("verb", cli.VERBS)
@pytest.mark.parametrize("given", [(), ("x", "--out"), ("--quiet",)])
def test_an_empty_word_is_not_taken_for_none(run, verb: str, given: tuple[str, ...]) -> None:
    for empty in ("", " "):
        answer = run(verb, *given, empty)
        assert answer.code == 2
        assert answer.out == ""
        assert answer.err == f"patchwords: the word after {(verb, *given)[-1]} is empty: give one, or leave it out\n"


@pytest.mark.parametrize("word", ["--out=", "--model= ", "--few-shot="])
def test_an_option_without_its_value_is_not_taken_for_none(run, word: str) -> None:
    answer = run("train", word, "x")
    assert answer.code == 2
    assert answer.err == f"patchwords: {word} says nothing: give a value, or leave it out\n"


def test_debug_shows_the_traceback(run) -> None:
    answer = run("show", "ViT-B/15", "--debug")
    assert answer.code == 2
    assert "Traceback" in answer.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError("x"), 2),
        (errors.DataError("x"), 3),
        (errors.ModelError("x"), 4),
        (errors.ResourceError("x"), 5),
        (MemoryError(), 5),
        (errors.NetworkError("x"), 7),
        (RuntimeError("x"), 1),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    run, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", fail)
    answer = run("show")
    assert answer.code == code
    assert ("a bug" in answer.err) == (code == 1)


@pytest.mark.parametrize(("signal", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_leaves_with_its_exit_code(signal: str, code: int) -> None:
    program = (
        "import os, signal, time\n"
        "from patchwords import cli\n"
        f"cli.app = lambda *_, **__: (os.kill(os.getpid(), signal.{signal}), time.sleep(30))\n"
        "cli.main()\n"
    )
    start = time.monotonic()
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert answer.returncode == code
    assert b"Traceback" not in answer.stderr
    assert time.monotonic() - start < 25


@pytest.mark.parametrize("words", [["models"], ["zoo", "--json"]])
def test_a_reader_that_has_enough_is_no_bug(words: list[str]) -> None:
    """As `head` has: of a table, and of lines of JSON."""
    program = "import sys; from patchwords import cli; sys.argv[1:] = sys.argv[2:]; cli.main()"
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-c", program, "-", "show", *words]
    answer = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert answer.returncode == 141
    assert answer.stderr == b"" or words == ["models"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("words", [["--version"], ["show", "models"], ["train", "--json", "--epochs", "1"]])
def test_an_output_that_finds_no_room_is_a_full_disk(words: list[str], tmp_path: Path) -> None:
    program = "import sys; from patchwords import cli; sys.argv[1:] = sys.argv[2:]; cli.main()"
    command = [sys.executable, "-c", program, "-", *words]
    with open("/dev/full", "w") as full:
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False, cwd=tmp_path)
    assert answer.returncode == 5
    assert answer.stderr == b"patchwords: No space left on device: the output could not be written\n"
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_told(run) -> None:
    assert run("--version").out == f"{cli.__version__}\n"
