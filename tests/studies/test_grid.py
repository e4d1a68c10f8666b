"""Grids: those of the package, those of a file, and what they leave to a study."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data, Source
from patchwords.errors import UsageError
from patchwords.studies import grid as grids
from patchwords.studies.catalogue import EXPERIMENTS
from patchwords.studies.grid import OWN, Grid, Member, fitting, names, read
from patchwords.training import recipe as recipes


class File(Source):
    """A picture that is a file."""

    labels = np.zeros(1, dtype=np.int64)

    def picture(self, index: int) -> bytes:
        return b"\xff\xd8\xff"

    def name(self, index: int) -> str:
        return "a.jpg"

    def size(self, index: int) -> int:
        return 3


def arrays(*shape: int) -> Source:
    return Arrays(np.zeros((1, *shape), dtype=np.uint8), np.zeros(1, dtype=np.int64), "train")


def data(source: Source) -> Data:
    return Data("x", ("a", "b"), source, source)


def test_there_is_a_grid_for_each_kind_of_pictures() -> None:
    assert names() == ["digits", "photos", "small"]


@pytest.mark.parametrize("name", names())
def test_a_grid_of_the_package_is_about_every_study_and_no_other(name: str) -> None:
    grid = read(name, "head", {})
    assert grid.study.keys() == EXPERIMENTS.keys()
    assert grid.seeds == (0,)
    assert recipes.read(grid.recipe)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (arrays(8, 8, 1), "digits"),
        (arrays(16, 12, 3), "digits"),
        (arrays(8, 17, 3), "small"),
        (arrays(32, 32, 3), "small"),
        (arrays(96, 96, 3), "small"),
        (File(), "photos"),
    ],
)
def test_the_grid_that_fits_is_told_by_the_first_picture(source: Source, name: str) -> None:
    assert fitting(data(source)) == name


def test_a_grid_may_be_a_file(grid_file: Path) -> None:
    grid = read(str(grid_file), "data-size", {})
    assert list(grid.models) == ["ViT", "twin"]
    assert grid.shots == 2
    assert grid.study["data-size"]["shares"] == [0.5, 1.0]


def test_a_grid_of_the_package_goes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "digits").write_text("nonsense = 1")
    monkeypatch.chdir(tmp_path)
    assert read("digits", "head", {}).recipe == "digits"


@pytest.mark.parametrize(
    ("name", "near"), [("digit", "did you mean digits"), ("x.toml", "there are digits, photos, small")]
)
def test_another_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"grid '{name}' is neither a file nor known; {near}"):
        read(name, "head", {})


@pytest.mark.parametrize("content", [b"recipe = ", b"\xff\xfe", b"[study]\n[study]"])
def test_what_is_no_toml_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"bad\.toml cannot be read as TOML"):
        read(str(path), "head", {})


def test_a_folder_is_no_grid(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a file nor known"):
        read(str(tmp_path), "head", {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("shot = 3", "shot is not a setting; did you mean shots"),
        ("recipe = 'digits'\n[study]", "models is missing"),
        ("models = {}\n[study]", "recipe is missing"),
        ("recipe = 'digits'\nmodels = {}", "study is missing"),
        ("recipe = 'digits'\nmodels.a = {}\n[study]", "models.*model is missing"),
        ("recipe = 'digits'\nmodels.a = { model = 'x', learning = {} }\n[study]", "learning is not a setting"),
        ("recipe = 'digits'\nmodels = {}\nshots = 0\n[study]", "shots 0 is below 1"),
        ("recipe = 'digits'\nmodels = {}\nseeds = []\n[study]", "seeds"),
        ("recipe = 'digits'\nmodels = {}\nseeds = [-1]\n[study]", "seed -1 is below 0"),
        ("recipe = 'digits'\nmodels = {}\nseeds = [1, 1]\n[study]", "give each once"),
    ],
)
def test_a_grid_is_read_strictly(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read(str(path), "head", {})


@pytest.mark.parametrize("key", OWN)
@pytest.mark.parametrize("table", ["both", "learn", "tune", "mask"])
def test_what_a_study_sets_no_table_says(table: str, key: str) -> None:
    with pytest.raises(UsageError, match=f"{key} = 7 is not for a grid to say: the study sets it"):
        read("digits", "head", {f"{table}.{key}": 7})


@pytest.mark.parametrize("key", OWN)
@pytest.mark.parametrize("table", ["both", "learn", "tune"])
def test_nor_does_a_member_say_it(table: str, key: str) -> None:
    member: Any = Member(model="ViT-Digits/2", **{table: {key: 7}})
    with pytest.raises(UsageError, match=f"{key} = 7 is not for a grid to say"):
        Grid(recipe="digits", models={"ViT": member}, study={})


def test_a_change_is_of_the_study_that_varies_it_or_else_of_the_grid() -> None:
    plain = read("digits", "data-size", {})
    changed = read("digits", "data-size", {"shares": [0.5], "shots": 7, "learn.duration": "1 steps"})
    assert changed.study["data-size"] == plain.study["data-size"] | {"shares": [0.5]}
    assert changed.shots == 7
    assert changed.learn == plain.learn | {"duration": "1 steps"}
    assert {key: changed.study[key] for key in changed.study if key != "data-size"} == {
        key: plain.study[key] for key in plain.study if key != "data-size"
    }


def test_models_that_a_study_names_are_its_own_and_those_of_the_grid_are_reached_by_their_names() -> None:
    grid = read("digits", "data-size", {"models": ["ViT"], "models.ViT.model": "ViT-Digits/4"})
    assert grid.study["data-size"]["models"] == ["ViT"]
    assert grid.models["ViT"].model == "ViT-Digits/4"
    assert grid.models["ViT"].both == read("digits", "head", {}).models["ViT"].both


def test_a_study_of_the_grid_is_reached_by_its_whole_name_too() -> None:
    grid = read("digits", "data-size", {"study.head.rates": [0.1]})
    assert grid.study["head"]["rates"] == [0.1]


def test_a_member_is_found_by_its_name() -> None:
    grid = read("digits", "head", {})
    assert grid.member("ViT").model == "ViT-Digits/2"
    with pytest.raises(UsageError, match="model 'ViT-lagre' takes no part; did you mean ViT large"):
        grid.member("ViT-lagre")


@pytest.mark.parametrize("name", names())
def test_a_grid_that_was_written_is_read_as_it_was(name: str) -> None:
    grid = read(name, "head", {})
    assert grids.settings.read(grids.settings.write(grid), Grid) == grid
