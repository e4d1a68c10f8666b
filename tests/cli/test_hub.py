"""`patchwords hub push|pull` as a person runs it, and what no verb does offline: open a socket."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from patchwords import download

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own business

BLOCKED = """
import contextlib, io, json, os, socket, sys

def refuse(*given, **named):
    os.write(2, b"a socket was opened")
    os._exit(99)

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
from patchwords.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["patchwords", *words]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    print(json.dumps([code, said.getvalue()]), flush=True)
"""


def _server() -> ModuleType:
    place = Path(__file__).parents[1] / "export" / "hub_server.py"
    spec = importlib.util.spec_from_file_location("hub_server", place)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hub_server = _server()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with hub_server.serving() as server:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # that needs a server of its own
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_ENDPOINT", server.base)
        monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
        monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "*")
        for name in ("PATCHWORDS_OFFLINE", "PATCHWORDS_MIRROR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(download, "PAUSES", (0.0,))
        yield server


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_a_run_is_pushed_pulled_and_asked(run: Any, host: Any, trained: Path, picture: Path, tmp_path: Path) -> None:
    (said,) = run("hub", "push", str(trained / "done"), "maria/tiny", "--private", "--message", "hello", "--json").json
    assert said["library"] == "transformers"
    assert said["address"].startswith(f"{host.base}/maria/tiny/tree/")
    assert any("widened from grey" in note for note in said["notes"])
    assert (host.messages, host.private) == (["hello"], {"maria/tiny"})
    answer = run("hub", "pull", "maria/tiny", str(tmp_path / "tiny"))
    assert answer.code == 0
    assert f"{tmp_path / 'tiny'}: maria/tiny, state {host.commit('maria/tiny')[:12]}" in answer.out
    before, after = (
        run("predict", model, str(picture), "--json").json[0]
        for model in (str(trained / "done"), str(tmp_path / "tiny"))
    )
    assert [each["label"] for each in before["top"]] == [each["label"] for each in after["top"]]


def test_every_verb_takes_what_was_pulled(run: Any, host: Any, trained: Path, tmp_path: Path) -> None:
    run("hub", "push", str(trained / "done"), "maria/tiny")
    run("hub", "pull", "maria/tiny", str(tmp_path / "tiny"))
    model, data = str(tmp_path / "tiny"), str(trained / "tiny.npz")
    for words in (
        ("evaluate", model, data, "--out", str(tmp_path / "evaluated")),
        ("convert", model, str(tmp_path / "native.safetensors")),
        ("export", model, str(tmp_path / "again"), "--to", "huggingface"),
        ("show", model),
    ):
        answer = run(*words)
        assert (answer.code, words) == (0, words), answer.err


def test_the_token_is_never_said(run: Any, host: Any, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for status in (0, 400, 401, 403, 500):
        host.status = status
        answer = run("hub", "push", str(trained / "done"), "maria/tiny", "--debug")
        assert hub_server.TOKEN not in answer.out + answer.err
        assert answer.code == (7 if status else 0)


def test_names_of_files_are_shown_as_they_are_and_do_nothing(
    run: Any, host: Any, trained: Path, tmp_path: Path
) -> None:
    run("hub", "push", str(trained / "done"), "maria/tiny")
    host.repositories["maria/tiny"]["\x1b[31m[red]\u202e.py"] = b""
    answer = run("hub", "pull", "maria/tiny", str(tmp_path / "tiny"))
    assert answer.code == 0
    assert "\\u001b[31m[red]\\u202e.py" in answer.err
    assert "\x1b[31m" not in answer.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("pusch", "a", "b/c"), 2, "did you mean push"),
        (("push", "{run}", "flowers"), 2, "OWNER/NAME"),
        (("pull", "flowers", "{out}"), 2, "OWNER/NAME"),
        (("pull", "maria/none", "{out}"), 7, "answers 404"),
        (("pull", "maria/none", "{out}", "--private"), 2, "--private is for hub push"),
        (("pull", "maria/none", "{out}", "--message", "x"), 2, "--message is for hub push"),
        (("push", "{run}", "maria/tiny", "--mirror", "a=https://b"), 2, "HF_ENDPOINT"),
        (("push", "{run}", "maria/tiny", "--offline"), 7, "export MODEL DIR --to huggingface"),
        (("push", "ViT-Mu/8", "maria/tiny"), 2, "weights"),
        (("push", "nothing-here", "maria/tiny"), 2, "does not exist"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    words: tuple[str, ...], code: int, sentence: str, run: Any, host: Any, trained: Path, tmp_path: Path
) -> None:
    answer = run("hub", *(word.format(run=trained / "done", out=tmp_path / "x") for word in words))
    assert (answer.code, sentence in answer.err) == (code, True), answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert not (tmp_path / "x").exists()


def test_an_endpoint_in_the_open_is_refused(
    run: Any, host: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    for words in (("push", str(trained / "done"), "maria/tiny"), ("pull", "maria/tiny", str(tmp_path / "x"))):
        answer = run("hub", *words)
        assert (answer.code, "not https" in answer.err) == (2, True)


def blocked(*commands: tuple[str, ...], cache: Path) -> list[tuple[int, str]]:
    """Exit codes and remarks of commands in a process of its own, where every way to connect ends it."""
    environment = {**os.environ, "PATCHWORDS_CACHE": str(cache), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9"}
    command = [sys.executable, "-c", BLOCKED, json.dumps(commands)]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=300)
    if done.returncode:
        return [(done.returncode, done.stderr)]
    return [(code, said) for code, said in map(json.loads, done.stdout.splitlines())]


def filled(words: tuple[str, ...], places: dict[str, Path]) -> tuple[str, ...]:
    return (*(word.format(**places) for word in words), "--offline")


def test_the_block_itself_holds(tmp_path: Path) -> None:
    pull = ("hub", "pull", "maria/tiny", str(tmp_path / "x"))
    assert blocked(pull, cache=tmp_path / "cache") == [(99, "a socket was opened")]


ABSENT = (
    ("predict", "vit-b16-i1k-224", "{picture}"),
    ("evaluate", "vit-b16-i1k-224", "{data}"),
    ("inspect", "vit-b16-i1k-224", "--out", "{out}"),
    ("convert", "vit-b16-i1k-224", "{out}.safetensors"),
    ("export", "vit-b16-i1k-224", "{out}", "--to", "huggingface"),
    ("hub", "pull", "maria/tiny", "{out}"),
    ("hub", "push", "{run}", "maria/tiny"),
)


def test_offline_what_is_not_there_is_said_and_no_socket_is_opened(
    trained: Path, picture: Path, tmp_path: Path
) -> None:
    places = {"picture": picture, "data": trained / "tiny.npz", "out": tmp_path / "out", "run": trained / "done"}
    found = blocked(*(filled(words, places) for words in ABSENT), cache=tmp_path / "cache")
    for words, (code, said) in zip(ABSENT, found, strict=True):
        assert (words, code) == (words, 7), said
        assert "offline" in said
    assert not (tmp_path / "out").exists()


PRESENT = (
    ("predict", "{run}", "{picture}"),
    ("evaluate", "{run}", "{data}", "--out", "{out}-evaluated"),
    ("inspect", "{run}", "--out", "{out}-inspected"),
    ("convert", "{run}", "{out}.safetensors"),
    ("export", "{run}", "{out}-exported", "--to", "huggingface"),
)


def test_offline_what_is_there_is_done_and_no_socket_is_opened(trained: Path, picture: Path, tmp_path: Path) -> None:
    places = {"picture": picture, "data": trained / "tiny.npz", "out": tmp_path / "out", "run": trained / "done"}
    found = blocked(*(filled(words, places) for words in PRESENT), cache=tmp_path / "cache")
    for words, (code, said) in zip(PRESENT, found, strict=True):
        assert (words, code) == (words, 0), said


def test_offline_what_was_pulled_before_is_pulled_again(run: Any, host: Any, trained: Path, tmp_path: Path) -> None:
    run("hub", "push", str(trained / "done"), "maria/tiny")
    assert run("hub", "pull", "maria/tiny", str(tmp_path / "x")).code == 0
    again = ("hub", "pull", "maria/tiny", str(tmp_path / "y"), "--offline")
    assert blocked(again, cache=tmp_path / "cache")[0][0] == 0
    names = sorted(path.name for path in (tmp_path / "x").iterdir())
    before, after = ([(tmp_path / place / name).read_bytes() for name in names] for place in "xy")
    assert before == after
