"""Pushing and pulling beside a Hub on this machine: what is sent, what is taken, and what is refused."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from patchwords import download
from patchwords.errors import ModelError, NetworkError, UsageError
from patchwords.export.hub import check, push
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.serve.predictor import Predictor
from patchwords.weights.card import Card, fitted
from patchwords.weights.pull import pull
from patchwords.weights.repository import Repository
from patchwords.weights.subject import RANDOM, Subject, open_subject

Opening = Callable[..., Subject]

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own business


def _server() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hub_server", Path(__file__).with_name("hub_server.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hub_server = _server()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Hub, and a user who is logged in there and nowhere else."""
    with hub_server.serving() as server:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)  # that needs a server of its own
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_ENDPOINT", server.base)
        monkeypatch.setenv("HF_TOKEN", hub_server.TOKEN)
        monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("no_proxy", "*")
        for name in ("PATCHWORDS_OFFLINE", "PATCHWORDS_MIRROR", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(download, "PAUSES", (0.0,))
        yield server


@pytest.fixture
def subject(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Opening:
    def open_(config: str = "plain", **card: Any) -> Subject:
        chosen = small_configs[config]
        model = randomised(build(chosen)).eval()
        names = tuple(f"class {number}" for number in range(chosen.classes))
        fit = fitted(Card(model=chosen, licence="MIT"), chosen, names)
        return Subject(config, model, replace(fit, **card))  # type: ignore[arg-type]

    return open_


def same_answers(given: Subject, folder: Path) -> bool:
    picture = np.random.default_rng(0).integers(0, 256, (50, 60, 3), dtype=np.uint8)
    one, other = Predictor(given).predict(picture), Predictor(folder).predict(picture)
    return one.classes == other.classes and bool(np.allclose(one.chances, other.chances, atol=1e-6))


def published(host: Any, files: dict[str, bytes], name: str = "maria/flowers") -> str:
    host.repositories[name] = files
    return name


@pytest.fixture
def native(subject: Opening, tmp_path: Path) -> bytes:
    from patchwords.weights.load import save

    given = subject()
    save(given.model, tmp_path / "native.safetensors", given.card)
    return (tmp_path / "native.safetensors").read_bytes()


def test_there_and_back_to_the_same_answers(host: Any, subject: Opening, tmp_path: Path) -> None:
    given = subject()
    pushed = push(given, "maria/flowers", message="the first")
    assert (pushed.library, pushed.notes) == ("transformers", ())
    assert sorted(host.repositories["maria/flowers"]) == list(pushed.files)
    assert set(pushed.files) == {"README.md", "config.json", "model.safetensors", "preprocessor_config.json"}
    assert host.messages == ["the first"]
    assert host.private == set()
    found = pull("maria/flowers", tmp_path / "pulled")
    assert sorted(found.files) == list(pushed.files)
    assert {path.name for path in (tmp_path / "pulled").iterdir()} == set(pushed.files)
    assert same_answers(given, tmp_path / "pulled")


def test_what_transformers_cannot_hold_goes_as_a_native_file(host: Any, subject: Opening, tmp_path: Path) -> None:
    given = subject("hybrid")
    pushed = push(given, "maria/hybrid")
    assert (pushed.library, pushed.files) == ("patchwords", ("README.md", "model.safetensors"))
    assert "no place for embed.stem" in pushed.notes[0]
    assert b'library_name: "patchwords"' in host.repositories["maria/hybrid"]["README.md"]
    pull("maria/hybrid", tmp_path / "pulled")
    assert same_answers(given, tmp_path / "pulled")
    assert open_subject(tmp_path / "pulled").card == given.card


def test_a_repository_can_be_made_private_and_is_one_commit(host: Any, subject: Opening) -> None:
    push(subject(), "maria/secret", private=True)
    assert host.private == {"maria/secret"}
    assert sum(path.endswith("/commit/main") for _, path, _ in host.seen) == 1


def test_a_second_push_is_a_newer_state(host: Any, subject: Opening, tmp_path: Path) -> None:
    push(subject(), "maria/flowers")
    first = host.commit("maria/flowers")
    push(subject(licence="Apache-2.0"), "maria/flowers")
    assert host.commit("maria/flowers") != first
    assert pull("maria/flowers", tmp_path / "pulled").commit == host.commit("maria/flowers")


def test_what_shall_be_private_is_never_put_where_everybody_sees_it(host: Any, subject: Opening) -> None:
    push(subject(), "maria/open")
    before = host.commit("maria/open")
    with pytest.raises(UsageError, match="open to everybody"):
        push(subject(licence="Apache-2.0"), "maria/open", private=True)
    assert host.commit("maria/open") == before
    push(subject(), "maria/secret", private=True)
    push(subject(licence="Apache-2.0"), "maria/secret", private=True)
    assert host.private == {"maria/secret"}


def test_nobody_is_told_what_runs_here(host: Any, subject: Opening) -> None:
    push(subject(), "maria/flowers")
    paths = [path for _, path, _ in host.seen]
    assert [path for path in paths if "agent" in path or "telemetry" in path] == []
    assert not any("torch" in headers["User-Agent"] for _, _, headers in host.seen)


@pytest.mark.parametrize(
    ("token", "name", "sentence"),
    [
        ("hf_wrongwrongwrong", "maria/flowers", "does not know who is pushing"),
        (hub_server.TOKEN, "google/flowers", "may not be written to"),
    ],
)
def test_who_may_not_push_is_told_so_without_the_token(
    token: str, name: str, sentence: str, host: Any, subject: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(NetworkError, match=sentence) as error:
        push(subject(), name)
    assert "hf auth login" in str(error.value)
    assert token not in str(error.value)


def test_a_hub_that_fails_or_is_not_there_is_a_network_error(
    host: Any, subject: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.status = 400
    with pytest.raises(NetworkError, match="answers 400"):
        push(subject(), "maria/flowers")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(NetworkError, match="does not answer"):
        push(subject(), "maria/flowers")


def test_an_upload_that_breaks_is_a_network_error(host: Any, subject: Opening) -> None:
    host.broken = True
    with pytest.raises(NetworkError, match="answers 400"):
        push(subject(), "maria/flowers")
    assert host.messages == []


def test_random_weights_are_not_published(host: Any, subject: Opening) -> None:
    with pytest.raises(UsageError, match="random weights"):
        push(subject(source=RANDOM), "maria/flowers")
    assert host.seen == []


def test_nothing_is_pushed_offline(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NetworkError, match="offline"):
        check("maria/flowers", offline=True)
    monkeypatch.setenv("PATCHWORDS_OFFLINE", "1")
    with pytest.raises(NetworkError, match="export MODEL DIR --to huggingface"):
        check("maria/flowers", offline=False)
    assert host.seen == []


def test_without_the_extra_the_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.export.hub.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'patchwords\[hub\]'"):
        check("maria/flowers", offline=False)


@pytest.mark.parametrize(
    "name",
    [
        "flowers",
        "maria/",
        "/flowers",
        "maria/flow/ers",
        "../flowers",
        "maria/..",
        "ma ria/x",
        "maria/x.git",
        "-a/b",
        "a/b--c",
    ],
)
def test_what_is_no_repository_is_refused_before_any_connection(name: str, host: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        pull(name, tmp_path / "x")
    with pytest.raises(UsageError, match="OWNER/NAME"):
        check(name, offline=False)
    assert host.seen == []


@pytest.mark.parametrize("revision", ["", "../main", "a b", "/x", "x?y=1"])
def test_what_is_no_revision_is_refused(revision: str) -> None:
    with pytest.raises(UsageError, match="no revision"):
        Repository.read(f"maria/flowers@{revision}")


def test_a_revision_is_not_for_pushing() -> None:
    with pytest.raises(UsageError, match="leave out the @"):
        check("maria/flowers@main", offline=False)


def test_a_commit_can_be_pulled(host: Any, native: bytes, tmp_path: Path) -> None:
    name = published(host, {"model.safetensors": native})
    commit = host.commit(name)
    assert pull(f"{name}@{commit}", tmp_path / "x").commit == commit
    with pytest.raises(NetworkError, match="answers 404 for maria/flowers@v2"):
        pull(f"{name}@v2", tmp_path / "y")


def test_only_weights_and_their_texts_are_fetched(host: Any, native: bytes, tmp_path: Path) -> None:
    others = {
        "pytorch_model.bin": b"\x80",
        "train.py": b"",
        "onnx/model.onnx": b"",
        "model-00001-of-00002.safetensors": b"",
    }
    name = published(host, {"model.safetensors": native, "README.md": b"# x", "LICENSE": b"MIT"} | others)
    found = pull(name, tmp_path / "x")
    assert set(found.files) == {"model.safetensors", "README.md", "LICENSE"}
    assert set(found.others) == set(others)
    assert not any(other in path for _, path, _ in host.seen for other in others)


def test_several_parts_are_fetched_by_their_index(host: Any, subject: Opening, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save

    from patchwords.export.huggingface import write

    given = subject()
    write(given, tmp_path / "whole")
    state, folder = load_file(tmp_path / "whole" / "model.safetensors"), tmp_path / "whole"
    names = sorted(state)
    parts = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
    files = {part: save({key: state[key] for key in keys}) for part, keys in parts.items()}
    index = {"weight_map": {key: part for part, keys in parts.items() for key in keys}}
    files |= {"model.safetensors.index.json": json.dumps(index).encode()}
    files |= {each: (folder / each).read_bytes() for each in ("config.json", "preprocessor_config.json")}
    pull(published(host, files), tmp_path / "x")
    assert same_answers(given, tmp_path / "x")


def test_a_repository_with_a_pickle_alone_is_refused(host: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="a pickle"):
        pull(published(host, {"pytorch_model.bin": b"\x80", "config.json": b"{}"}), tmp_path / "x")
    assert not any("resolve" in path for _, path, _ in host.seen)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/../../x", "..\\x"])
def test_a_file_outside_of_the_folder_is_refused(name: str, host: Any, native: bytes, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match="outside of its folder"):
        pull(published(host, {"model.safetensors": native, name: b""}), tmp_path / "x")
    assert not any("resolve" in path for _, path, _ in host.seen)


@pytest.mark.parametrize(
    "listing",
    [
        [],
        {"sha": "main", "siblings": []},
        {"sha": "../../x", "siblings": []},
        {"sha": "0" * 40, "siblings": [{"rfilename": 3, "size": 1, "blobId": "0" * 40}]},
        {"sha": "0" * 40, "siblings": [{"rfilename": "model.safetensors", "size": 1}]},
        {"sha": "0" * 40, "siblings": [{"rfilename": "model.safetensors", "size": "x", "blobId": "0" * 40}]},
    ],
)
def test_a_list_that_says_nonsense_is_a_network_error(listing: Any, host: Any, tmp_path: Path) -> None:
    host.listing = listing
    with pytest.raises(NetworkError, match="cannot be understood"):
        pull(published(host, {}), tmp_path / "x")


def test_an_interrupted_download_goes_on_where_it_stopped(host: Any, native: bytes, tmp_path: Path) -> None:
    name = published(host, {"model.safetensors": native, "README.md": b"# flowers"})
    host.cuts["model.safetensors"] = 1000
    pull(name, tmp_path / "x")
    ranges = [headers["Range"] for _, path, headers in host.seen if path.endswith("model.safetensors")]
    assert ranges == [None, "bytes=1000-"]
    assert (tmp_path / "x" / "model.safetensors").read_bytes() == native


def test_a_second_pull_fetches_nothing_but_the_list(host: Any, native: bytes, tmp_path: Path) -> None:
    name = published(host, {"model.safetensors": native})
    pull(name, tmp_path / "x")
    host.seen.clear()
    pull(name, tmp_path / "y")
    assert [path.partition("?")[0] for _, path, _ in host.seen] == ["/api/models/maria/flowers/revision/main"]


@pytest.mark.parametrize("file", ["model.safetensors", "README.md"])
def test_a_file_that_is_not_what_the_list_says_never_arrives(
    file: str, host: Any, native: bytes, tmp_path: Path
) -> None:
    files = {"model.safetensors": native, "README.md": b"# flowers"}
    host.swapped[file] = bytes(len(files[file]))
    with pytest.raises(NetworkError, match="deleted"):
        pull(published(host, files), tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert not list((tmp_path / "cache").rglob(file))


def test_a_cached_file_that_was_changed_is_not_used(host: Any, native: bytes, tmp_path: Path) -> None:
    name = published(host, {"model.safetensors": native})
    pull(name, tmp_path / "x")
    (kept,) = (tmp_path / "cache").rglob("model.safetensors")
    kept.write_bytes(native[:-1] + bytes([native[-1] ^ 1]))
    with pytest.raises(ModelError, match="damaged or another file"):
        pull(name, tmp_path / "y")


@pytest.mark.parametrize(("kind", "code"), [("private", 401), ("gated", 401), ("missing", 404)])
def test_what_one_may_not_see_is_said(
    kind: str, code: int, host: Any, native: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = published(host, {"model.safetensors": native}) if kind != "missing" else "maria/nothing"
    getattr(host, kind, set()).add(name)
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(NetworkError, match=f"answers {code} for {name}@main: there is no such repository"):
        pull(name, tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("kind", ["private", "gated"])
def test_what_is_for_a_few_is_fetched_with_the_token(kind: str, host: Any, native: bytes, tmp_path: Path) -> None:
    name = published(host, {"model.safetensors": native})
    getattr(host, kind).add(name)
    pull(name, tmp_path / "x")
    assert (tmp_path / "x" / "model.safetensors").read_bytes() == native


def test_a_login_is_as_good_as_the_variable(
    host: Any, native: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = published(host, {"model.safetensors": native})
    host.private.add(name)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "token"))
    (tmp_path / "token").write_text(f"{hub_server.TOKEN}\n")
    pull(name, tmp_path / "x")


def test_a_mirror_and_a_redirect_are_not_told_the_token(
    host: Any, native: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = published(host, {"model.safetensors": native})
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    pull(name, tmp_path / "x", mirror=f"hub.example={host.base}")
    assert [headers["Authorization"] for _, _, headers in host.seen] == [None, None]
    with hub_server.serving() as other:
        monkeypatch.setenv("HF_ENDPOINT", host.base)
        published(other, dict(host.repositories[name], **{"README.md": b"# x"}))
        published(host, dict(host.repositories[name], **{"README.md": b"# x"}))
        host.redirect = other.base
        pull(name, tmp_path / "y")
        assert {headers["Authorization"] for _, _, headers in other.seen} == {None}
        assert len(other.seen) == 2


def test_what_is_no_model_here_is_refused_and_nothing_is_written(host: Any, tmp_path: Path) -> None:
    from safetensors.torch import save

    files = {"model.safetensors": save({"lstm.weight": torch.zeros(2)}), "config.json": b'{"model_type": "lstm"}'}
    with pytest.raises(ModelError, match="no model that is known here"):
        pull(published(host, files), tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_an_existing_folder_is_refused(host: Any, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        pull("maria/flowers", tmp_path / "x")
    assert host.seen == []


def test_a_mirror_and_an_endpoint_are_asked_instead(
    host: Any, native: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = published(host, {"model.safetensors": native})
    monkeypatch.delenv("HF_ENDPOINT")
    pull(name, tmp_path / "x", mirror=f"huggingface.co={host.base}")
    assert len(host.seen) == 2
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    with pytest.raises(UsageError, match="is not https"):
        pull(name, tmp_path / "y")


def test_offline_gives_what_came_before_and_opens_no_socket(
    host: Any, native: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = published(host, {"model.safetensors": native})
    pull(name, tmp_path / "x")
    host.seen.clear()
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("a socket was opened"))
    pull(name, tmp_path / "y", offline=True)
    assert (tmp_path / "y" / "model.safetensors").read_bytes() == native
    with pytest.raises(NetworkError, match="never fetched"):
        pull("maria/other", tmp_path / "z", offline=True)
    kept = next((tmp_path / "cache").rglob("model.safetensors"))
    kept.unlink()
    with pytest.raises(NetworkError, match="run once without offline"):
        pull(name, tmp_path / "z", offline=True)


def test_pulling_needs_no_extra(host: Any, native: bytes, tmp_path: Path) -> None:
    name = published(host, {"model.safetensors": native})
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from pathlib import Path; from patchwords.weights.pull import pull\n"
        f"pull({name!r}, Path({str(tmp_path / 'x')!r}))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ), cwd=Path(__file__).parents[2])
    digest = hashlib.sha256((tmp_path / "x" / "model.safetensors").read_bytes()).hexdigest()
    assert digest == hashlib.sha256(native).hexdigest()
