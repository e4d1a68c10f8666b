"""`patchwords show mae RUN IMAGE…` and the conversion of such a run: as a person does it, from the training on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import patchwords
from patchwords.cli.shown.mae import AWAY
from patchwords.weights.autoencoder import open_autoencoder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with some pictures and a run that learned from such."""
    folder = tmp_path_factory.mktemp("mae")
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(folder / "tiny.npz", images=noise, labels=np.arange(40) % 2)
    (folder / "pictures").mkdir()
    for number in range(3):
        Image.fromarray(noise[number]).save(folder / "pictures" / f"{number}.png")
    options: dict[str, Any] = {"recipe": "digits-mae", "epochs": 2, "batch": 16, "device": "cpu"}
    changes = {"parts.depth": 1, "objective.depth": 1, "data.workers": 0}
    patchwords.train(folder / "tiny.npz", **options, change=changes, out=folder / "run")
    return folder


@pytest.fixture
def here(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return place


def test_a_page_is_drawn_once(run, here: Path) -> None:
    words = ("show", "mae", str(here / "run"), str(here / "pictures"))
    answer = run(*words, "--json")
    assert answer.code == 0, answer.err
    (found,) = answer.json
    assert (found["page"], found["patches"], found["kept"], found["seed"]) == ("mae.png", 16, 8, 0)
    assert [Path(name).name for name in found["pictures"]] == ["0.png", "1.png", "2.png"]
    page = Path("mae.png").read_bytes()
    refused = run(*words)
    assert refused.code == 2
    assert "mae.png exists already: choose another name with --out, or remove it first" in refused.err
    assert Path("mae.png").read_bytes() == page
    assert "again.png: 3 pictures, of which run was shown 8 of 16 patches" in run(*words, "--out", "again.png").out
    assert Path("again.png").read_bytes() == page


def hidden(path: Path) -> Any:
    with Image.open(path) as page:
        return (np.asarray(page.convert("RGB")) == AWAY).all(2)


def test_the_seed_and_the_ratio_decide_what_is_taken_away(run, here: Path) -> None:
    words = ("show", "mae", str(here / "run"), str(here / "pictures" / "1.png"))
    for name, more in {"a": (), "b": ("--seed", "1"), "c": ("--set", "ratio=0.75"), "d": ("--seed", "1")}.items():
        assert run(*words, "--out", f"{name}.png", *more).code == 0
    first, second, third, fourth = (hidden(Path(f"{name}.png")) for name in "abcd")
    assert first.any()
    assert first.sum() == pytest.approx(second.sum(), rel=0.02)  # frames lie over the outermost pixels
    assert (first != second).any()
    assert (second == fourth).all()
    assert third.sum() == pytest.approx(1.5 * first.sum(), rel=0.02)


@pytest.mark.parametrize("to", ["huggingface", "native"])
def test_a_run_is_converted_with_its_decoder(run, here: Path, to: str) -> None:
    (said,) = run("convert", str(here / "run"), "out", "--to", to, "--json").json
    whole = open_autoencoder(here / "run")
    assert said["tensors"] == len(whole.checkpoint.state) + len(whole.decoder)
    assert run("convert", "out", "back", "--to", "native").code == 0
    found = open_autoencoder("back")
    assert found.settings == whole.settings
    for name, tensor in (whole.checkpoint.state | whole.decoder).items():
        assert torch.equal(tensor, (found.checkpoint.state | found.decoder)[name])
    pages = {}
    for name in (str(here / "run"), "out", "back"):
        assert run("show", "mae", name, str(here / "pictures"), "--out", f"{Path(name).name}.png").code == 0
        pages[name] = hidden(Path(f"{Path(name).name}.png"))
    assert all((page == pages["out"]).all() for page in pages.values())


def test_the_encoder_of_a_run_is_a_file(run, here: Path) -> None:
    (said,) = run("convert", str(here / "run"), "encoder.safetensors", "--json").json
    assert said["tensors"] == len(patchwords.load("encoder.safetensors").state_dict())


def test_pictures_that_cannot_be_read_are_named_and_left_out(run, here: Path) -> None:
    Path("broken.png").write_bytes(b"no picture")
    answer = run("show", "mae", str(here / "run"), "broken.png", str(here / "pictures" / "0.png"), "--json")
    assert answer.code == 0
    assert "broken.png cannot be read" in answer.err
    assert len(answer.json[0]["pictures"]) == 1
    again = run("show", "mae", str(here / "run"), str(here / "pictures" / "0.png"), "--out", "one.png")
    assert "one.png: 1 picture, of which run was shown" in again.out
    alone = run("show", "mae", str(here / "run"), "broken.png", "--out", "b.png")
    assert alone.code == 3
    assert "broken.png: no picture can be read" in alone.err
    assert not Path("b.png").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "say which autoencoder and which pictures: patchwords show mae runs/photos-1 photo.jpg"),
        (("RUN",), 2, "say which autoencoder and which pictures"),
        (("nowhere", "PICTURES"), 2, "nowhere does not exist: give the folder of a run"),
        (("RUN", "nowhere.png"), 2, "nowhere.png does not exist"),
        (("RUN", "-"), 2, "a page is not made of what is piped in"),
        (("RUN/model.safetensors", "PICTURES"), 4, "holds no decoder: give the folder of a run with objective mae"),
        (("RUN", "PICTURES", "--out", "x.jpg"), 2, "choose one that ends in .png"),
        (
            ("RUN", "PICTURES", "--set", "width=9"),
            2,
            "width cannot be set: the weights of an autoencoder decide all but ratio",
        ),
        (("RUN", "PICTURES", "--set", "rato=0.5"), 2, "rato cannot be set"),
        (("RUN", "PICTURES", "--set", "ratio=2"), 2, "ratio 2.0 is no share"),
        (("RUN", "RUN"), 3, "run: no picture can be read; give files, folders or patterns of some"),
        (("RUN", "PICTURES", "--classes", "3"), 2, "--classes does not apply to reconstructed pictures"),
    ],
)
def test_wrong_words(run, here: Path, words: tuple[str, ...], code: int, sentence: str) -> None:
    placed = [word.replace("RUN", str(here / "run")).replace("PICTURES", str(here / "pictures")) for word in words]
    answer = run("show", "mae", *placed)
    assert answer.code == code, answer.err
    assert sentence in answer.err
    assert list(Path().iterdir()) == []


def test_other_things_take_no_seed(run) -> None:
    assert "--seed does not apply to a list" in run("show", "models", "--seed", "1").err
