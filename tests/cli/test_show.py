"""`patchwords show`: the numbers of the paper, files without loading them, recipes, runs, and what training sees."""

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import patchwords
from patchwords import settings
from patchwords.training import recipe as recipes
from patchwords.training.recipe import Recipe
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
        (("small",), "small is a grid of studies: `patchwords study NAME DATA --grid small` takes it"),
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


def test_the_recipes_are_listed_with_what_they_cite(run) -> None:
    found = {line["name"]: line["says"] for line in run("show", "recipes", "--json").json}
    assert list(found) == recipes.names()
    assert "Table 3" in found["paper/imagenet-b16"]
    assert all(found.values())
    people = run("show", "recipes").out
    assert [name for name in found if name not in people] == []


@pytest.mark.parametrize("name", ["scratch", "digits", "finetune", "paper/imagenet-b16", "plain-vit"])
def test_a_shown_recipe_is_a_recipe_file(run, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.toml").write_text(run("show", name).out, encoding="utf-8")
    assert recipes.read(tmp_path / "mine.toml") == recipes.read(name)
    (found,) = run("show", str(tmp_path / "mine.toml"), "--json").json
    assert settings.read(found["recipe"], Recipe) == recipes.read(name)


def test_a_recipe_is_resolved_and_changed_as_asked(run) -> None:
    words = ("--set", "optimizer.lr=0.5", "--set", "data.crop.kind=whole")
    (found,) = run("show", "paper/imagenet-b16", *words, "--json").json
    recipe = found["recipe"]
    assert (recipe["model"], recipe["batch"], recipe["duration"]) == ("ViT-B/16", 4096, "300 epochs")
    assert recipe["optimizer"]["lr"] == 0.5
    assert recipe["data"]["crop"] == {"kind": "whole"}
    assert "Table 3" in found["says"]


def test_a_recipe_with_another_optimizer_says_what_it_leaves(run) -> None:
    answer = run("show", "digits", "--set", "optimizer.kind=sgd")
    assert 'kind = "sgd"' in answer.out
    assert "takes its own lr 0.01, decay 0.0, and not the recipe's lr 0.005, decay 0.5, meant for adamw" in answer.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("scrach",), "did you mean scratch"),
        (("paper/imagenet-b15",), "did you mean paper/imagenet-b16"),
        (("recipe",), "did you mean recipes"),
        (("mine.toml",), "'mine.toml' does not exist"),
        (("scratch", "--set", "optimizer.lrr=1"), "optimizer.lrr is not a setting; did you mean lr?"),
        (("scratch", "--image", "32"), "--image does not apply to a recipe, whose settings are changed with --set"),
        (
            ("scratch", "digits"),
            "'digits' is a word too many: only `show augment RECIPE DATA` and `show mae RUN IMAGE` take more",
        ),
        (("ViT-B/16", "ViT-L/16"), "'ViT-L/16' is a word too many"),
        (("recipes", "--set", "a=b"), "--set does not apply to a list"),
        (("ViT-B/16", "--out", "x.png"), "--out does not apply to a model"),
        (("augment",), "patchwords show augment scratch my_photos"),
        (("augment", "scratch"), "say which recipe and which data"),
        (("augment", "scratch", "digits", "more"), "say which recipe and which data"),
        (("augment", "scrach", "digits"), "recipe 'scrach' is neither a file nor known; did you mean scratch"),
        (("augment", "digits", "nowhere"), "'nowhere' does not exist, as a folder, a file or a public data set"),
        (("augment", "digits", "digits", "--out", "x.jpg"), "choose one that ends in .png"),
        (("augment", "digits", "digits", "--classes", "3"), "--classes does not apply to a page of pictures"),
        (("augment", "finetune", "digits"), "finetune leaves model and size open: say --image 224"),
    ],
)
def test_wrong_words_about_recipes_and_pages(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run("show", *words)
    assert answer.code == 2
    assert sentence in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a few pictures of noise."""
    place = tmp_path_factory.mktemp("trained")
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(place / "tiny.npz", images=images, labels=np.arange(40) % 2)
    change = {"parts.depth": 1, "data.workers": 0}
    options: dict[str, Any] = {"recipe": "digits", "epochs": 2, "batch": 16, "device": "cpu", "change": change}
    return patchwords.train(place / "tiny.npz", **options, out=place / "a run").folder


@pytest.fixture
def finished(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(trained, tmp_path / "a run")).relative_to(tmp_path)


def test_a_run_is_summed_up(run, finished: Path) -> None:
    (found,) = run("show", "a run", "--json").json
    assert (found["model"], found["data"], found["classes"]) == ("ViT-Digits/2", "tiny", 2)
    assert (found["pictures"], found["steps"], found["epochs"]) == ({"train": 32, "val": 8}, 4, 2)
    assert found["status"] == "finished"
    assert 0 <= found["best"]["accuracy"] <= 1
    people = run("show", "a run").out
    assert people.startswith("a run: ViT-Digits/2 on tiny\n")
    assert "32 train, 8 val, of 2 classes" in people
    assert "2 epochs, 4 steps of 2 epochs" in people
    assert "`patchwords show 'a run/model.safetensors'`" in people
    assert "\N{NO-BREAK SPACE}" not in people


def test_a_run_without_labels_says_what_it_learned_instead(run, tmp_path: Path, finished: Path) -> None:
    recipe = finished / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace('kind = "supervised"', 'kind = "masked_patch"'), "utf-8")
    (found,) = run("show", "a run", "--json").json
    assert (found["objective"], found["classes"]) == ("masked_patch", 0)
    assert "32 train, 8 val, without labels (masked_patch)" in run("show", "a run").out


@pytest.mark.parametrize(
    ("status", "sentence"),
    [("", "not finished: it runs, or was killed"), ("stopped by Ctrl-C after step 2 of 4", "stopped by Ctrl-C")],
)
def test_an_unfinished_run_says_how_to_go_on(run, finished: Path, status: str, sentence: str) -> None:
    told = json.loads((finished / "run.json").read_text("utf-8"))
    (finished / "run.json").write_text(json.dumps(told | {"status": status}), encoding="utf-8")
    (finished / "model.safetensors").unlink()
    people = run("show", "a run").out
    assert sentence in people
    assert people.splitlines()[-1].endswith("`patchwords train --resume 'a run'` goes on with it")
    assert "model.safetensors" not in people


def test_the_state_of_an_optimizer_is_told_to_be_none_of_weights(run, finished: Path) -> None:
    step = sorted((finished / "checkpoints").glob("step-*"))[-1]
    answer = run("show", str(step / "optimizer.safetensors"))
    assert answer.code == 4
    assert "is no model but part of the state of the run in" in answer.err
    assert "give model.safetensors beside it; the state is for `patchwords train --resume" in answer.err
    assert run("show", str(step / "model.safetensors")).code == 0


def test_a_run_that_had_no_time_is_shown_too(run, finished: Path) -> None:
    for path in finished.iterdir():
        if path.is_file() and path.name != "recipe.toml":
            path.unlink()
    answer = run("show", "a run")
    assert answer.code == 0
    assert "--resume" in answer.out
    assert run("show", "a run", "--json").json[0]["steps"] == 0


def test_a_damaged_run_is_a_problem_of_the_checkpoint(run, finished: Path) -> None:
    (finished / "run.json").write_bytes(b"{")
    answer = run("show", "a run")
    assert answer.code == 4
    assert "run.json cannot be read" in answer.err


def test_the_settings_of_a_run_are_its_own(run, finished: Path) -> None:
    answer = run("show", "a run", "--set", "batch=8")
    assert answer.code == 2
    assert "--set does not apply to a run" in answer.err


def test_a_page_of_pictures_is_drawn(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run("show", "augment", "digits", "digits", "--json")
    assert answer.code == 0, answer.err
    (found,) = answer.json
    assert (found["page"], found["data"], found["size"], len(found["pictures"])) == ("augment.png", "digits", [8, 8], 8)
    with Image.open("augment.png") as page:
        assert page.format == "PNG"
        assert page.size[0] > 8 * 128
    before = Path("augment.png").read_bytes()
    refused = run("show", "augment", "digits", "digits")
    assert refused.code == 2
    assert "augment.png exists already: choose another name with --out, or remove it first" in refused.err
    assert Path("augment.png").read_bytes() == before
    assert run("show", "augment", "digits", "digits", "--out", "again.png").code == 0
    assert Path("again.png").read_bytes() == before


def test_pictures_without_labels_are_shown_as_an_objective_without_labels_sees_them(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for number in range(5):
        Image.new("L", (9, 9), 40 * number).save(tmp_path / "photos" / f"{number}.png")
    (found,) = run("show", "augment", "digits-mae", "photos", "--json").json
    assert len(found["pictures"]) == 4  # one is held out
    assert "no class folders" in run("show", "augment", "digits", "photos", "--out", "again.png").err


def test_the_page_has_the_size_of_the_recipe_of_the_weights_or_of_the_wish(run, finished: Path) -> None:
    def size(*words: str) -> list[int]:
        (found,) = run("show", "augment", *words, "--out", f"{secrets.token_hex(4)}.png", "--json").json
        return list(found["size"])

    assert size("digits", "digits", "--image", "16x24") == [16, 24]
    assert size("finetune", "digits", "--image", "12") == [12, 12]
    assert size("vit-lite-cifar10", "digits") == [32, 32]
    assert size("finetune", "digits", "--set", "weights='a run/model.safetensors'") == [8, 8]
    assert size("finetune", "digits", "--set", "weights='a run/model.safetensors'", "--image", "16") == [16, 16]
    assert size("a run/recipe.toml", "digits") == [8, 8]


def test_published_weights_are_not_fetched_for_a_page(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (found,) = run("show", "augment", "flowers/probe", "digits", "--set", "image=32", "--json").json
    assert found["size"] == [32, 32]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["augment.png"]


def test_a_page_without_a_readable_picture_is_a_problem_of_the_data(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("roses", "tulips"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(5):
            (tmp_path / "photos" / name / f"{number}.jpg").write_text("no picture", encoding="utf-8")
    answer = run("show", "augment", "scratch", "photos")
    assert answer.code == 3
    assert "none of the 8 pictures can be read" in answer.err
    assert not (tmp_path / "augment.png").exists()
