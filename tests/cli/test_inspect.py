"""`patchwords inspect`: a folder with a page for people, JSON for scripts, and one sentence for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.data.preprocess import Preprocess
from patchwords.inspection.studio import NAMES, Wish
from patchwords.weights.card import Card
from patchwords.weights.load import save


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_configs, randomised) -> Path:
    """A folder to work in with two models and some pictures."""
    for file, name in (("rose.safetensors", "plain"), ("bit.safetensors", "resnet pre")):
        config = small_configs[name]
        card = Card(model=config, preprocess=Preprocess(size=config.image))
        save(randomised(config.build()), tmp_path / file, card)
    random = np.random.default_rng(0)
    (tmp_path / "photos").mkdir()
    for number in range(3):
        Image.fromarray(random.integers(0, 256, (32, 24, 3), dtype=np.uint8)).save(tmp_path / f"photos/{number}.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_page_and_says_where(run, place: Path) -> None:
    answer = run("inspect", "rose.safetensors", "--images", "photos")
    assert answer.code == 0
    assert answer.out.strip() == f"{', '.join(NAMES)}: look at runs/inspect-rose-1/index.html"
    assert (place / "runs/inspect-rose-1/index.html").is_file()
    again = run("inspect", "rose.safetensors", "--only", "filters", "--quiet")
    assert again.out.strip() == "filters: look at runs/inspect-rose-2/index.html"
    assert again.err == ""
    assert {path.suffix for path in (place / "runs/inspect-rose-2").iterdir()} == {".html", ".json", ".png"}


def test_json_has_a_line_for_each_figure_and_the_page_at_the_end(run, place: Path) -> None:
    answer = run(
        "inspect", "bit.safetensors", "--images", "photos", "--json", "--count", "2", "--only", "rollout,positions"
    )
    assert answer.code == 0
    *figures, result = answer.json
    assert [line["name"] for line in figures if line["kind"] == "figure"] == ["rollout"]
    assert json.loads(Path(figures[-1]["json"]).read_text())["of"] == "evidence"
    assert Path(figures[-1]["png"]).read_bytes().startswith(b"\x89PNG")
    assert result["kind"] == "result"
    assert Path(result["page"]).is_file()
    assert "a ResNet adds nothing for a place" in result["missing"]["positions"]


def test_a_model_without_pictures_has_the_other_figures_and_a_sentence(run, place: Path) -> None:
    answer = run("inspect", "rose.safetensors", "--out", "seen")
    assert answer.code == 0
    assert "no distance: this figure needs pictures" in answer.out
    assert "add --images" in answer.out
    assert (place / "seen/positions.png").is_file()


def test_a_run_that_learned_from_pictures_without_labels_shows_those(run, place: Path) -> None:
    changes = ("--set", "parts.depth=1", "--set", "objective.depth=1", "--set", "data.workers=0", "--device", "cpu")
    learned = run(
        "train",
        "photos",
        "--recipe",
        "digits-mae",
        "--epochs",
        "1",
        *changes,
        "--out",
        "mine",
        "--set",
        "data.validation.share=0.4",
    )
    assert learned.code == 0, learned.err
    answer = run("inspect", "mine", "--only", "rollout", "--out", "seen")
    assert answer.out.strip() == "rollout: look at seen/index.html", answer.err


def test_a_mere_name_has_random_weights_and_the_page_says_so(run, place: Path) -> None:
    answer = run("inspect", "ViT-Digits/2", "--only", "positions", "--out", "seen")
    assert answer.code == 0
    assert "its weights are random" in answer.err
    assert "its weights are random" in (place / "seen/index.html").read_text("utf-8")


def test_another_size_is_inspected(run, place: Path) -> None:
    answer = run("inspect", "rose.safetensors", "--image", "48x24", "--only", "positions", "--out", "seen")
    assert answer.code == 0
    assert json.loads((place / "seen/positions.json").read_text())["grid"] == [6, 3]


def test_two_models_and_chosen_patches_and_pictures(run, place: Path) -> None:
    words = [
        "inspect",
        "rose.safetensors",
        "--against",
        "bit.safetensors",
        "--images",
        "photos/0.png",
        "--images",
        "photos",
    ]
    more = [
        "--pictures",
        "2",
        "--picture",
        "photos/1.png",
        "--patch",
        "1,2",
        "--layer",
        "1",
        "--head",
        "2",
        "--out",
        "seen",
    ]
    answer = run(*words, *more, "--only", "distance,patch")
    assert answer.code == 0, answer.err
    patch = json.loads((place / "seen/patch.json").read_text())
    assert (patch["picture"], patch["layer"], patch["patch"], patch["heads"]) == ("1.png", 1, [1, 2], [2])
    assert "no attention weights" in json.loads((place / "seen/distance.json").read_text())["missing"]["against"]


def test_pictures_are_opened_only_for_figures_that_show_some(run, place: Path, monkeypatch) -> None:
    """A run's data may be large, or far away."""

    def refuse(*given: object, **options: object) -> None:
        raise AssertionError("the data was opened")

    monkeypatch.setattr("patchwords.inspection.pictures.own", refuse)
    monkeypatch.setattr("patchwords.inspection.pictures.named", refuse)
    assert run("inspect", "rose.safetensors", "--only", "filters,positions", "--out", "seen").code == 0
    assert run("inspect", "rose.safetensors", "--only", "patch", "--picture", "photos/1.png", "--out", "one").code == 0
    assert "the data was opened" in run("inspect", "rose.safetensors", "--only", "filters,patch").err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["nothing.npz"], 2, "nothing.npz"),
        (["rose.safetensors", "--images", "nowhere"], 2, "does not exist"),
        (["rose.safetensors", "--images", "photos", "--out", "photos"], 2, "nothing is overwritten"),
        (["rose.safetensors", "--only", "filtres"], 2, "did you mean filters"),
        (["rose.safetensors", "--only", ","], 2, "there is no figure ''"),
        (["rose.safetensors", "--only", "filters", "--layer", "2"], 2, "--layer changes nothing in filters"),
        (["rose.safetensors", "--only", "patch", "--against", "ViT-B/16"], 2, "--against changes nothing"),
        (["rose.safetensors", "--only", "filters", "--images", "photos"], 2, "--images changes nothing in filters"),
        (["rose.safetensors", "--only", "patch", "--picture", "photos/1.png", "--images", "photos"], 2, "--images"),
        (["rose.safetensors", "--images", "photos", "--picture", ""], 2, "the word after --picture is empty"),
        (["rose.safetensors", "--images", "photos", "--patch", "3"], 2, "is no place"),
        (["rose.safetensors", "--images", "photos", "--patch", "9,9"], 2, "no patch in row 9"),
        (["rose.safetensors", "--images", "photos", "--layer", "7"], 2, "no layer 7"),
        (["rose.safetensors", "--images", "photos", "--picture", "4"], 2, "numbered 1 to 3"),
        (["rose.safetensors", "--images", "photos", "--pictures", "0"], 2, "below 1"),
        (["rose.safetensors", "--device", "abacus"], 2, "abacus"),
        (["rose.safetensors", "--images", "rose.safetensors"], 2, "none of"),
        (["rose.safetensors", "--images", "spoiled"], 3, "of 1 picture none can be read"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_leaves_nothing_behind(
    run, place: Path, words: list[str], code: int, says: str
) -> None:
    (place / "spoiled").mkdir()
    (place / "spoiled/1.jpg").write_text("no picture")
    answer = run("inspect", *words)
    assert answer.code == code
    assert says in answer.err
    assert "Traceback" not in answer.err
    assert not list(place.glob("runs/*"))


def test_help_tells_the_defaults_that_hold(run) -> None:
    text = " ".join(run("inspect", "--help").out.split())
    assert str(Wish().pictures) in text
    assert f"[default: ({Wish().count})]" in text
    for name in NAMES:
        assert f"{name}:" in text
