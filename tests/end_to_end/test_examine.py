"""A model is trained, then judged, asked and looked into, each by one command, from its run and from foreign files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from patchwords.cli import main
from patchwords.data.sources.door import open_data
from patchwords.training.train import Run, train

FORMATS = {"official": "digits.npz", "huggingface": "digits-folder", "timm": "digits.pth"}


@pytest.fixture
def patchwords(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[dict[str, Any]]]:
    """What a command says with --json; it must succeed."""
    monkeypatch.setattr("signal.signal", lambda *_: None)  # the test runner's own handlers stay
    monkeypatch.setenv("PATCHWORDS_CACHE", str(place / "cache"))
    monkeypatch.chdir(place)

    def run(*words: str | Path) -> list[dict[str, Any]]:
        monkeypatch.setattr("sys.argv", ["patchwords", *map(str, words), "--json", "--quiet"])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert not left.value.code, err
        return [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]

    return run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examined")


@pytest.fixture(scope="module")
def run(place: Path) -> Run:
    return train(epochs=8, out=place / "run", device="cpu")


@pytest.fixture(scope="module")
def pictures(place: Path) -> Path:
    """Six held-out digits as files."""
    source, folder = open_data("digits").val, place / "pictures"
    folder.mkdir()
    for index in range(0, 300, 50):
        Image.fromarray(source.picture(index)[:, :, 0]).save(folder / f"{index}.png")  # type: ignore[index]
    return folder


def test_a_run_is_judged_by_what_it_held_out(patchwords, run: Run, place: Path) -> None:
    (found,) = patchwords("evaluate", run.folder, "--knn", "5", "--few-shot", "1,5")
    assert found["split"] == "val"
    assert found["count"] == run.scores.count == 355
    assert found["top1"] == pytest.approx(run.scores.accuracy, abs=1e-9)
    assert found["top1"] <= found["top5"] <= 1
    low, high = found["intervals"]["top1"]
    assert low < found["top1"] < high
    assert (place / found["report"]).is_file()


@pytest.mark.parametrize("format", FORMATS)
def test_every_verb_takes_foreign_files_as_they_are(
    format: str, patchwords, run: Run, place: Path, pictures: Path
) -> None:
    foreign = place / FORMATS[format]
    patchwords("convert", run.folder, foreign, "--to", format)
    heads = ("--heads", str(run.model.config.heads)) if format == "timm" else ()
    (ours,) = patchwords("evaluate", run.folder, "digits")
    (judged,) = patchwords("evaluate", foreign, "digits", "--split", "all", *heads)
    assert judged["count"] == 1797
    assert abs(judged["top1"] - ours["top1"]) < 0.1  # those that it learned from are among them
    *predicted, summary = patchwords("predict", foreign, pictures, *heads)
    *expected, _ = patchwords("predict", run.folder, pictures)
    assert summary["pictures"] == 6
    assert [row["probability"] for row in predicted] == pytest.approx(
        [row["probability"] for row in expected], abs=2e-3
    )
    out = place / f"looked-{format}"
    *figures, result = patchwords("inspect", foreign, "--images", pictures, "--out", out, *heads)
    assert {row["name"] for row in figures if row["kind"] == "figure"} == {
        "filters",
        "positions",
        "distance",
        "rollout",
        "patch",
    }
    assert result["missing"] == {}


def test_the_positions_of_neighbours_are_more_alike_than_those_of_far_places(patchwords, run: Run, place: Path) -> None:
    patchwords("inspect", run.folder, "--only", "positions", "--out", place / "positions")
    found = json.loads((place / "positions" / "positions.json").read_text())
    assert found["near"] > found["far"] + 0.05
