"""What a study is begun with, and goes on with: the same data, targets and weights, wherever they lie."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import patchwords
from patchwords import settings
from patchwords.errors import DataError, ModelError, PatchwordsError, UsageError
from patchwords.studies.ground import Ground
from patchwords.studies.terms import FILE, GIVEN, Terms, Wish, stored


@pytest.fixture
def data(squares: Callable[..., Path], tmp_path: Path) -> Path:
    return squares(tmp_path / "squares.npz", classes=4, train=40, test=12)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that has a name."""
    path = tmp_path_factory.mktemp("weights") / "digits.safetensors"
    patchwords.save(patchwords.build("ViT-Digits/2", channels=3, classes=7), path)
    return path


@pytest.fixture
def wish(data: Path, grid_file: Path, notes: Any) -> Callable[..., Wish]:
    """`wish(target=...)` is one for `transfer` on the squares."""

    def make(**given: Any) -> Wish:
        usual = {"study": "transfer", "data": data, "target": "", "weights": "", "grid": grid_file}
        words = {key: str(value) for key, value in (usual | given).items() if key in usual}
        others = {"change": {}, "seeds": None, "offline": False, "mirror": "", "watcher": notes}
        return Wish(**words, **{key: given.get(key, value) for key, value in others.items()})

    return make


@pytest.fixture
def begun(wish: Callable[..., Wish], tmp_path: Path) -> Callable[..., Path]:
    """`begun(target=...)` is the folder of such a study."""

    def begin(**given: Any) -> Path:
        terms, _ = wish(**given).begun()
        folder = tmp_path / "study"
        folder.mkdir()
        (folder / FILE).write_text(json.dumps({"terms": settings.write(terms)}))
        return folder

    return begin


@pytest.fixture
def resumed(wish: Callable[..., Wish]) -> Callable[..., tuple[Terms, Ground]]:
    """`resumed(folder)` goes on with it, without a word about what it is."""

    def go_on(folder: Path, **given: Any) -> tuple[Terms, Ground]:
        return wish(**({"data": "", "grid": ""} | given)).resumed(folder)

    return go_on


def test_half_of_the_classes_is_learned_from_and_the_others_judge(wish, notes, data: Path) -> None:
    terms, ground = wish().begun()
    assert (ground.first.classes, ground.target.classes) == (("0", "1"), ("2", "3"))
    assert (len(ground.first.train), len(ground.first.val)) == (20, 6)
    assert "learned from first are 0, 1;" in notes.said
    assert "judged by 2, 3" in notes.said
    assert (terms.data, terms.target, terms.weights) == (str(data), "", "")
    assert (ground.first_from, ground.target_from) == (str(data), str(data))
    assert set(terms.digests) == {"data"}


def test_a_target_judges_what_all_of_the_data_taught(wish, squares, tmp_path: Path) -> None:
    target = squares(tmp_path / "target.npz", train=30, val=8)
    terms, ground = wish(target=target).begun()
    assert (len(ground.first.classes), len(ground.first.train)) == (4, 40)
    assert (len(ground.target.classes), len(ground.target.val)) == (2, 8)
    assert (terms.target, ground.target_from) == (str(target), str(target))
    assert set(terms.digests) == {"data", "target"}


def test_weights_are_judged_by_all_of_the_data(wish, weights: Path) -> None:
    terms, ground = wish(weights=weights).begun()
    assert ground.first is ground.target
    assert len(ground.target.classes) == 4
    assert ground.weights == terms.weights == str(weights)
    assert ground.grid.study["transfer"]["model"] == GIVEN
    assert ground.grid.member(GIVEN).model == "ViT-Digits/2"  # to begin from scratch with
    assert set(terms.digests) == {"data", "weights"}


def test_the_digits_are_studied_without_data_on_the_grid_for_them(wish) -> None:
    terms, ground = wish(data="", grid="").begun()
    assert terms.data == "digits"
    assert terms.grid.models.keys() >= {"ViT", "hybrid", "ResNet"}
    assert (len(ground.first.classes), len(ground.target.classes)) == (5, 5)


def test_seeds_and_changes_are_part_of_the_terms(wish) -> None:
    terms, _ = wish(seeds=(3, 4), change={"learn.batch": 4, "head.optimizer.lr": 0.25}).begun()
    assert terms.grid.seeds == (3, 4)
    assert terms.grid.learn["batch"] == 4
    assert terms.grid.study["transfer"]["head"] == {"optimizer": {"lr": 0.25}}


@pytest.mark.parametrize("extra", ["", "target", "weights"])
def test_a_study_goes_on_with_what_it_was_begun_with(
    extra: str, begun, resumed, squares, weights: Path, tmp_path: Path
) -> None:
    given = {"": {}, "target": {"target": squares(tmp_path / "target.npz", train=30)}, "weights": {"weights": weights}}
    folder = begun(seeds=(5,), **given[extra])
    terms, ground = resumed(folder)
    assert terms == stored(folder)
    assert ground.grid.seeds == (5,)
    assert bool(ground.weights) == (extra == "weights")


def test_data_that_was_moved_is_named_again(begun, resumed, data: Path, tmp_path: Path) -> None:
    folder = begun()
    shutil.move(data, tmp_path / "elsewhere.npz")
    with pytest.raises(UsageError, match=rf"squares\.npz.* now, `patchwords study transfer DATA --resume {folder}`"):
        resumed(folder)
    terms, ground = resumed(folder, data=tmp_path / "elsewhere.npz")
    assert terms.digests == stored(folder).digests
    assert ground.first_from == str(tmp_path / "elsewhere.npz")


@pytest.mark.parametrize(("option", "word"), [("target", "DATA"), ("weights", "FILE")])
def test_a_target_and_weights_that_were_moved_are_asked_for(
    option: str, word: str, begun, resumed, data: Path, squares, weights: Path, tmp_path: Path
) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    given = {"target": lambda: squares(lent / "x.npz", train=30), "weights": lambda: shutil.copy(weights, lent)}
    folder, moved = begun(**{option: given[option]()}), data.rename(tmp_path / "moved.npz")
    lent = lent.rename(tmp_path / "found")
    with pytest.raises(UsageError, match=rf"`patchwords study transfer DATA --resume {folder}`"):
        resumed(folder)
    said = rf"`patchwords study transfer {moved} --{option} {word} --resume {folder}`"
    with pytest.raises(UsageError, match=f"the (target|model) .* is not found: .*; say where it is now, {said}"):
        resumed(folder, data=moved)
    terms, _ = resumed(folder, data=moved, **{option: next(lent.iterdir())})
    assert terms.digests == stored(folder).digests


def test_other_pictures_of_the_same_name_are_refused(begun, resumed, squares, data: Path) -> None:
    folder = begun()
    squares(data, classes=4, train=44, test=12)
    with pytest.raises(DataError, match=rf"the data of {folder} are not what they were"):
        resumed(folder)


def test_another_target_and_other_weights_are_refused(begun, resumed, squares, weights: Path, tmp_path: Path) -> None:
    target = squares(tmp_path / "target.npz", train=30)
    folder = begun(target=target)
    squares(target, train=32)
    with pytest.raises(DataError, match="the target of"):
        resumed(folder)
    shutil.rmtree(folder)
    folder = begun(weights=weights)
    other = tmp_path / "other.safetensors"
    torch.manual_seed(1)
    patchwords.save(patchwords.build("ViT-Digits/2", channels=3, classes=7), other)
    with pytest.raises(DataError, match="the weights of"):
        resumed(folder, weights=other)


@pytest.mark.parametrize("option", ["target", "weights"])
def test_what_a_study_was_begun_without_it_does_not_get_later(
    option: str, begun, resumed, squares, weights: Path, tmp_path: Path
) -> None:
    folder = begun()
    given = {"target": squares(tmp_path / "target.npz", train=30), "weights": weights}[option]
    with pytest.raises(DataError, match=f"the {option} of {folder}"):
        resumed(folder, **{option: given})


@pytest.mark.parametrize(
    ("given", "option"),
    [({"grid": "small"}, "--grid"), ({"change": {"learn.batch": 4}}, "--set"), ({"seeds": (1,)}, "--seeds")],
)
def test_other_terms_are_refused_on_the_way(given: dict[str, Any], option: str, begun, resumed) -> None:
    with pytest.raises(UsageError, match=f"{option} does not apply to --resume"):
        resumed(begun(), **given)


def test_another_study_is_not_gone_on_with(begun, resumed) -> None:
    with pytest.raises(UsageError, match="holds the study transfer, not data-size"):
        resumed(begun(), study="data-size")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"terms": {}}', '{"terms": {"study": 3}}', "\0"])
def test_terms_that_cannot_be_read_are_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(UsageError, match=rf"{FILE} cannot be read .*start anew"):
        stored(tmp_path)


def test_a_folder_that_holds_none_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"no study to resume: there is no {FILE}"):
        stored(tmp_path)


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ({"study": "data-size", "weights": "x.npz"}, UsageError, "--weights x.npz does not apply to data-size"),
        ({"weights": "x.npz", "target": "y"}, UsageError, "--target y is not needed with --weights"),
        ({"weights": "ViT-Ti/16"}, ModelError, "ViT-Ti/16 is a name alone"),
        ({"data": "digit"}, UsageError, "did you mean digits"),
        ({"grid": "digit"}, UsageError, "did you mean digits"),
        ({"seeds": ()}, UsageError, "seeds 0 is below 1"),
        ({"seeds": (1, 1)}, UsageError, "give each once"),
        ({"seeds": (-1,)}, UsageError, "seed -1 is below 0"),
        ({"change": {"learn.seed": 3}}, UsageError, "seed = 3 is not for a grid to say"),
    ],
)
def test_what_cannot_be_begun_is_refused(given: dict[str, Any], kind: type[PatchwordsError], said: str, wish) -> None:
    with pytest.raises(kind, match=said):
        wish(**given).begun()
