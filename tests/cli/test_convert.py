"""`patchwords convert`: between formats by one command, nothing overwritten, nothing dropped."""

from pathlib import Path

import pytest
import torch

import patchwords
from patchwords import download
from patchwords.weights import store, zoo
from patchwords.weights.files import read
from patchwords.weights.formats import NAMES
from patchwords.weights.zoo import HALF, Entry


@pytest.fixture
def native(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    patchwords.save(patchwords.build("ViT-Mu/8", image=32, classes=3), tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize(
    ("target", "words", "format"),
    [
        ("a.npz", (), "official"),
        ("b.npz", ("--to", "big_vision"), "big_vision"),
        ("c.safetensors", ("--to", "timm"), "timm"),
        ("d", (), "huggingface"),
        ("e.pth", ("--to", "torchvision"), "torchvision"),
        ("f.safetensors", (), "native"),
    ],
)
def test_there_and_back_to_the_same_bits(run, native: Path, target: str, words: tuple[str, ...], format: str) -> None:
    there, back = native.parent / target, native.parent / "back.safetensors"
    (said,) = run("convert", str(native), str(there), *words, "--json").json
    assert (said["from"], said["to"]) == ("native", format)
    assert run("convert", str(there), str(back), "--heads", "2").code == 0
    before, after = read(native).tensors, read(back).tensors
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_existing_file_is_refused_and_left_alone(run, native: Path) -> None:
    (native.parent / "a.npz").write_bytes(b"precious")
    answer = run("convert", str(native), str(native.parent / "a.npz"))
    assert answer.code == 2
    assert "exists already" in answer.err
    assert (native.parent / "a.npz").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("target", "words", "code", "sentence"),
    [
        ("x.npz", ("--to", "offical"), 2, "did you mean official"),
        ("x.npz", ("--to", "timm"), 2, "ends in .safetensors"),
        ("x.xyz", (), 2, "--to"),
        ("x.safetensors", ("--set", "classes=['a']"), 2, "1 class names were given"),
        ("x.safetensors", ("--set", "model.width=64"), 4, "do not fit the model"),
        ("x.safetensors", ("--set", "licens=MIT"), 2, "did you mean licence"),
    ],
)
def test_wrong_wishes_write_nothing(
    run, native: Path, target: str, words: tuple[str, ...], code: int, sentence: str
) -> None:
    answer = run("convert", str(native), str(native.parent / target), *words)
    assert answer.code == code
    assert sentence in answer.err
    assert sorted(path.name for path in native.parent.iterdir()) == ["model.safetensors"]


def test_the_card_can_be_completed(run, native: Path) -> None:
    target = native.parent / "carded.safetensors"
    run("convert", str(native), str(target), "--set", "licence=MIT", "--set", "preprocess.mean=[0.4, 0.5, 0.6]")
    (found,) = run("show", str(target), "--json").json
    assert found["card"]["licence"] == "MIT"
    assert found["card"]["preprocess"]["mean"] == [0.4, 0.5, 0.6]


def test_what_the_other_library_computes_otherwise_is_said(run, native: Path) -> None:
    answer = run("convert", str(native), str(native.parent / "t.safetensors"), "--to", "timm")
    assert "timm computes with activation = gelu, this model with gelu-tanh" in answer.err


def test_offline_and_not_in_the_cache_is_a_network_error(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))
    answer = run("convert", "vit-b16-i21k", str(tmp_path / "x.safetensors"), "--offline")
    assert answer.code == 7
    assert str(tmp_path / "cache") in answer.err
    assert not (tmp_path / "x.safetensors").exists()


def test_a_zoo_name_is_fetched_and_its_card_carries_licence_and_preparation(
    run, native: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = tmp_path / "published.pth"
    run("convert", str(native), str(published), "--to", "timm")
    entry = Entry(
        name="tiny-test",
        model="ViT-Mu/8@32",
        address="https://weights.example/published.pth",
        mebibytes=1,
        sha256="",
        classes=3,
        licence="CC-BY-NC-4.0",
        source="a/test",
        preprocess=HALF,
    )
    monkeypatch.setitem(zoo.ZOO, entry.name, entry)
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))

    def transfer(address: str, target: Path, **_: object) -> None:
        assert address == "https://mirror.example/published.pth"
        target.parent.mkdir(parents=True)
        target.write_bytes(published.read_bytes())

    monkeypatch.setattr(download, "download", transfer)
    mirror = ("--mirror", "weights.example=https://mirror.example")
    answer = run("convert", "tiny-test", str(tmp_path / "got.safetensors"), "--heads", "2", *mirror)
    assert answer.code == 0
    assert "how pictures are prepared" not in answer.err
    (found,) = run("show", str(tmp_path / "got.safetensors"), "--json").json
    assert found["card"]["licence"] == "CC-BY-NC-4.0"
    assert found["card"]["source"] == entry.address
    assert store.location(entry).exists()


def test_a_setting_that_the_format_cannot_keep_is_refused(run, native: Path) -> None:
    answer = run("convert", str(native), str(native.parent / "x.npz"), "--set", "licence=MIT")
    assert answer.code == 2
    assert "no place for it" in answer.err
    assert not (native.parent / "x.npz").exists()


def test_nothing_is_said_where_there_is_nothing_to_say(run, native: Path) -> None:
    assert run("convert", str(native), str(native.parent / "y.safetensors")).err == ""


def test_the_help_names_every_format(run) -> None:
    said = run("convert", "--help").out
    assert [name for name in NAMES if name not in said] == []
