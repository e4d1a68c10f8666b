"""`patchwords show`: the numbers of the paper from the command line, and files described without being loaded."""

from pathlib import Path

import numpy as np
import pytest
import torch

import patchwords
from patchwords.weights.card import Card


@pytest.mark.parametrize(
    ("words", "parameters", "gmacs"),
    [
        (("ViT-B/16",), 86_567_656, 17.564),
        (("ViT-B/16@384",), 86_859_496, 55.484),
        (("ViT-L/16", "--image", "512"), 305_174_504, 361.986),
        (("ViT-B/16", "--classes", "21843", "--set", "head.kind=mlp"), 103_186_515, None),
        (("ViT-B/16", "--classes", "0"), 85_798_656, None),
        (("ViT-S/16-gap",), 22_049_896, None),
        (("ViT-S/16-gap", "--set", "position.kind=sincos-2d", "--set", "head.kind=mlp"), 22_122_472, None),
        (("ViT-B/16", "--set", "depth=1", "--set", "width=10", "--set", "mlp=10", "--set", "heads=2"), 21_390, None),
        (("R50+ViT-B/16",), 98_659_112, None),
        (("BiT-R50x1",), 25_549_352, 4.089),
    ],
)
def test_json_has_the_published_numbers(run, words: tuple[str, ...], parameters: int, gmacs: float | None) -> None:
    (found,) = run("show", *words, "--json").json
    assert found["parameters"] == parameters
    assert gmacs is None or round(found["macs"] / 1e9, 3) == gmacs
    assert sum(row["parameters"] for row in found["layers"]) == parameters
    assert sum(row["macs"] for row in found["layers"]) == found["macs"]


def test_the_table_is_for_people_and_the_json_for_scripts(run) -> None:
    people, scripts = run("show", "ViT-Ti/16"), run("show", "ViT-Ti/16", "--json")
    assert "5,717,416" in people.out
    assert "encoder.blocks.0…11" in people.out
    assert len(scripts.json) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("vit-b16",), "did you mean ViT-B/16"),
        (("ViT-B/16", "--set", "pol.kind=mean"), "pol is not a setting; did you mean pool?"),
        (("ViT-B/16", "--set", "pool.kind=men"), "did you mean mean?"),
        (("ViT-B/16", "--set", "width=wide"), "width: 'wide' is not a whole number"),
        (("ViT-B/16", "--set", "width"), "write key=value"),
        (("ViT-B/16", "--image", "large"), "write 224, or 224x320"),
        (("nothing.npz",), "does not exist"),
    ],
)
def test_wrong_words_are_answered_with_what_to_write(run, words: tuple[str, ...], sentence: str) -> None:
    answer = run("show", *words)
    assert answer.code == 2
    assert sentence in answer.err


def test_a_file_shows_its_card_and_layers(run, tmp_path: Path) -> None:
    model = patchwords.build("ViT-Digits/2", classes=2)
    patchwords.save(
        model, tmp_path / "m.safetensors", Card(model=model.config, classes=("null", "eins"), licence="MIT")
    )
    (found,) = run("show", str(tmp_path / "m.safetensors"), "--json").json
    assert found["format"] == "native"
    assert found["card"]["classes"] == ["null", "eins"]
    assert found["parameters"] == sum(p.numel() for p in model.parameters())
    people = run("show", str(tmp_path / "m.safetensors")).out
    assert "null, eins" in people
    assert "MIT" in people


def test_a_file_is_described_without_reading_its_tensors(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patchwords.save(patchwords.build("ViT-Digits/2"), tmp_path / "m.safetensors")
    assert run("convert", str(tmp_path / "m.safetensors"), str(tmp_path / "m.npz")).code == 0

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the file was loaded whole")

    monkeypatch.setattr(np, "load", refuse)
    (found,) = run("show", str(tmp_path / "m.npz"), "--json").json
    assert found["format"] == "official"
    assert found["tensors"] == 56


def test_what_a_file_does_not_tell_is_said_on_stderr(run, tmp_path: Path) -> None:
    patchwords.save(patchwords.build("ViT-Mu/16", image=32, classes=3), tmp_path / "m.safetensors")
    run("convert", str(tmp_path / "m.safetensors"), str(tmp_path / "t.safetensors"), "--to", "timm")
    refused = run("show", str(tmp_path / "t.safetensors"))
    assert refused.code == 4
    assert "--heads" in refused.err
    told = run("show", str(tmp_path / "t.safetensors"), "--heads", "2", "--json")
    assert told.code == 0
    assert "how pictures are prepared" in told.err
    assert told.json[0]["card"]["model"]["heads"] == 2
    assert (
        "how pictures are prepared" not in run("show", str(tmp_path / "t.safetensors"), "--heads", "2", "--quiet").err
    )


def test_a_damaged_file_is_a_problem_of_the_checkpoint(run, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(b"not a checkpoint")
    answer = run("show", str(tmp_path / "m.safetensors"))
    assert answer.code == 4
    assert "m.safetensors cannot be read" in answer.err


def test_the_zoo_is_listed_with_licence_and_address(run) -> None:
    found = {entry["name"]: entry for entry in run("show", "zoo", "--json").json}
    assert found["mae-b16"]["licence"] == "CC-BY-NC-4.0"
    assert found["vit-b16-i21k"]["address"].startswith("https://")
    assert "deit_base_patch16_224-b5f2ef4d.pth" in run("show", "deit-b16").out


@pytest.mark.slow
def test_models_lists_every_name_with_its_numbers(run) -> None:
    found = {entry["name"]: entry["parameters"] for entry in run("show", "models", "--json").json}
    assert found["ViT-G/14"] == 1_844_440_680
    assert found["BiT-R200x3"] == 568_633_000
    assert torch.tensor(list(found.values())).sum() > 10_000_000_000


@pytest.mark.parametrize(
    "words",
    [("zoo", "--classes", "3"), ("models", "--heads", "3"), ("deit-s16", "--set", "a=b"), ("ViT-B/16", "--heads", "3")],
)
def test_an_option_that_would_be_ignored_is_refused(run, words: tuple[str, ...]) -> None:
    answer = run("show", *words)
    assert answer.code == 2
    assert "does not apply to" in answer.err


def test_the_options_of_a_model_are_refused_for_a_file(run, tmp_path: Path) -> None:
    patchwords.save(patchwords.build("ViT-Digits/2"), tmp_path / "m.safetensors")
    for option in (("--classes", "9"), ("--set", "pool.kind=mean"), ("--channels", "3")):
        assert run("show", str(tmp_path / "m.safetensors"), *option).code == 2
    assert run("show", str(tmp_path / "m.safetensors"), "--heads", "7").code == 4
