"""`patchwords serve`: what is refused before it begins, and that real clients are answered as `predict` answers."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import InferenceClient
from PIL import Image

TOKEN = "0123456789abcdef"
ROOT = Path(__file__).resolve().parents[2]


class Running:
    """A service in a process of its own."""

    def __init__(self, *words: object, **environment: str):
        command = [sys.executable, "-m", "patchwords", "serve", *map(str, words), "--port", "0", "--json"]
        told = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, env=told, encoding="utf-8"
        )
        assert self.process.stdout is not None
        self.ready = json.loads(self.process.stdout.readline())
        self.address: str = self.ready["address"]
        self.port = int(self.address.rpartition(":")[2])

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found = answer.status, json.loads(answer.read())
        connection.close()
        return found

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """The exit code and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "tulip.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return path


@pytest.fixture(scope="module")
def running(trained: Path) -> Iterator[Running]:
    started = Running(trained / "done", f"again={trained / 'done' / 'model.safetensors'}")
    yield started
    assert started.stop()[0] == 143


@pytest.fixture
def predicted(run: Callable[..., Any], trained: Path, picture: Path) -> dict[str, float]:
    """What `patchwords predict` says."""
    (row, _) = run("predict", str(trained / "done"), str(picture), "--json").json
    return {each["label"]: each["probability"] for each in row["top"]}


def test_it_says_where_it_is_and_what_it_serves(running: Running) -> None:
    assert running.ready == {"kind": "ready", "address": running.address, "models": ["done", "again"]}


def test_the_client_of_hugging_face_is_answered_as_predict_answers(
    running: Running, picture: Path, predicted: dict[str, float]
) -> None:
    client = InferenceClient(model=f"{running.address}/models/done", timeout=30)
    found = client.image_classification(str(picture))
    assert [each.label for each in found] == list(predicted)
    assert {each.label: each.score for each in found} == pytest.approx(predicted)
    (best,) = client.image_classification(picture.read_bytes(), top_k=1)
    assert (best.label, best.score) == (found[0].label, pytest.approx(found[0].score))
    (best,) = client.image_classification(picture.read_bytes(), top_k=1, function_to_apply="softmax")
    assert best.score == pytest.approx(found[0].score)
    logits = client.image_classification(str(picture), function_to_apply="none")
    assert np.exp(logits[0].score - logits[1].score) == pytest.approx(found[0].score / found[1].score)
    sigmoid = client.image_classification(str(picture), function_to_apply="sigmoid")
    assert sigmoid[0].score == pytest.approx(1 / (1 + np.exp(-logits[0].score)))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_curl_is_answered_as_predict_answers(running: Running, picture: Path, predicted: dict[str, float]) -> None:
    command = ["curl", "-s", "--data-binary", f"@{picture}", f"{running.address}/predict?model=done"]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert {each["label"]: each["probability"] for each in answer["predictions"]} == pytest.approx(predicted)


def test_one_model_is_asked_by_its_name(running: Running, picture: Path, predicted: dict[str, float]) -> None:
    status, answer = running.ask("POST", "/predict?model=again&top=1", picture.read_bytes())
    assert (status, answer["model"]) == (200, "again")
    assert answer["predictions"][0]["probability"] == pytest.approx(max(predicted.values()))
    assert running.ask("POST", "/predict", picture.read_bytes())[0] == 400


def test_ctrl_c_leaves_with_130_and_the_token_of_the_environment_counts(trained: Path, picture: Path) -> None:
    started = Running(trained / "done", "--host", "0.0.0.0", PATCHWORDS_TOKEN=TOKEN)
    assert started.ask("POST", "/predict", picture.read_bytes())[0] == 401
    assert started.ask("POST", "/predict", picture.read_bytes(), Authorization=f"Bearer {TOKEN}")[0] == 200
    assert started.ask("GET", "/healthz")[0] == 200
    client = InferenceClient(model=f"{started.address}/models/done", token=TOKEN, timeout=30)
    assert len(client.image_classification(str(picture))) == 2
    code, said = started.stop(signal.SIGINT)
    assert code == 130
    assert "stopped by Ctrl-C" in said
    assert TOKEN not in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--host", "0.0.0.0"), "can be reached from other machines: give a token"),
        (("--host", "::"), "can be reached from other machines: give a token"),
        (("--host", "no.such.host.invalid"), "is no address of this machine"),
        (("--token", "short"), "can be guessed"),
        (("--host-name", "https://x"), "no name of a host"),
        (("--queue", "0"), "lets nothing in"),
        (("--max-body-mb", "0"), "lets nothing in"),
        (("--max-body-mb", "5000"), "not for a service"),
        (("--max-batch", "0"), "below 1"),
        (("--max-wait-ms", "5000"), "from 0 to 1000"),
        (("--workers", "0"), "below 1"),
        (("--connections", "0"), "lets nothing in"),
    ],
)
def test_what_cannot_be_is_refused(
    run: Callable[..., Any], trained: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    monkeypatch.delenv("PATCHWORDS_TOKEN", raising=False)
    answer = run("serve", str(trained / "done"), "--port", "0", *words)
    assert answer.code == 2
    assert reason in answer.err


def test_a_port_that_is_taken_is_said(run: Callable[..., Any], trained: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = run("serve", str(trained / "done"), "--port", str(taken.getsockname()[1]))
    assert answer.code == 2
    assert "choose another --port" in answer.err


def test_two_models_of_one_name_and_models_without_weights_are_refused(run: Callable[..., Any], trained: Path) -> None:
    answer = run("serve", str(trained / "done"), str(trained / "done"), "--port", "0")
    assert (answer.code, "two models are called 'done'" in answer.err) == (2, True)
    answer = run("serve", "ViT-Ti/16", "--port", "0")
    assert (answer.code, "without weights" in answer.err) == (2, True)


def test_without_its_packages_it_says_what_to_install(
    run: Callable[..., Any], trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchwords.cli.serve.find_spec", lambda name: None)
    answer = run("serve", str(trained / "done"))
    assert answer.code == 2
    assert "pip install 'patchwords[serve]'" in answer.err
