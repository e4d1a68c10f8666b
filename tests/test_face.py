"""What `patchwords` offers in Python answers what it cannot take with a sentence: no error of its inside gets out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords.errors import UsageError


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "model.safetensors"
    patchwords.save(patchwords.build("ViT-Digits/2"), path)
    return path


@pytest.fixture
def calls(weights: Path) -> dict[str, Callable[..., Any]]:
    """Each function with what it needs; what is given goes before that."""
    model = patchwords.build("ViT-Digits/2")

    def filled(function: Callable[..., Any], **usual: Any) -> Callable[..., Any]:
        return lambda **given: function(**usual | given)

    return {
        "build": filled(patchwords.build, model="ViT-Digits/2"),
        "evaluate": filled(patchwords.evaluate, model=weights, data="digits"),
        "load": filled(patchwords.load, path=weights),
        "Predictor": filled(patchwords.Predictor, model=weights),
        "save": filled(patchwords.save, model=model, path="model.safetensors"),
        "study": filled(patchwords.study, name="transfer", grid="digits"),
        "train": filled(patchwords.train, data="digits"),
    }


class Long:
    """As a module is, which writes out all of its parts."""

    def __repr__(self) -> str:
        return "Long(\n" + 1000 * "  (part): Part()\n" + ")"


PLACES = {
    "evaluate": ("model", "data", "real", "out"),
    "load": ("path",),
    "Predictor": ("model",),
    "save": ("path",),
    "study": ("name", "data", "weights", "grid", "out", "resume"),
    "train": ("data", "weights", "recipe", "out", "resume"),
}


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in PLACES.items() for key in keys])
@pytest.mark.parametrize("value", [3, b"x", ["x"], Long()], ids=["number", "bytes", "list", "object"])
def test_what_is_no_word_and_no_place_is_refused(name: str, key: str, value: object, calls) -> None:
    said = "Long" if isinstance(value, Long) else repr(value)
    with pytest.raises(UsageError) as caught:
        calls[name](**{key: value})
    assert str(caught.value) == f"{key}: {said} is neither a text nor a path: give one of these"


@pytest.mark.parametrize("name", ["evaluate", "Predictor"])
def test_a_module_is_to_be_saved_before_it_is_examined(name: str, calls) -> None:
    with pytest.raises(UsageError, match=r"model: ViT is a module, .*: save it with patchwords\.save"):
        calls[name](model=patchwords.build("ViT-Digits/2"))


@pytest.mark.parametrize("name", ["evaluate", "Predictor", "study", "train"])
@pytest.mark.parametrize("value", [3, None, b"cpu"])
def test_what_is_no_device_is_refused(name: str, value: object, calls) -> None:
    with pytest.raises(UsageError, match=r"cannot be used .*: choose auto, cpu, cuda"):
        calls[name](device=value)


@pytest.mark.parametrize("name", ["study", "train"])
@pytest.mark.parametrize("value", [3, ["epochs=3"], {3: 4}, Long()])
def test_what_is_no_table_of_changes_is_refused(name: str, value: object, calls) -> None:
    with pytest.raises(UsageError, match=r"change: .* is no table of settings by their names: write one, as "):
        calls[name](change=value)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("study", {"seeds": ["a"]}, "seeds: 'a' is not a whole number: write one, as 3"),
        ("study", {"seeds": [0.5]}, "seeds: 0.5 is not a whole number"),
        ("study", {"at_once": "2"}, "at_once: '2' is not a whole number"),
        ("evaluate", {"few_shot": ["a"]}, "--few-shot: 'a' is not a whole number"),
        ("evaluate", {"knn": [1.5]}, "--knn: 1.5 is not a whole number"),
        ("evaluate", {"few_shot": [1], "penalties": ["a"]}, "--penalty: 'a' is not a number"),
        ("evaluate", {"batch": True}, "batch: True is not a whole number"),
        ("evaluate", {"broken": "a"}, "broken: 'a' is not a number"),
        ("Predictor", {"batch": None}, "batch: None is not a whole number"),
        ("load", {"classes": 3.5}, "classes 3.5 are no list of different names"),
        ("load", {"classes": Long()}, "classes Long are no list of different names"),
        ("build", {"model": Long()}, "^Long is no model's name"),
        ("build", {"classes": Long()}, "classes: Long is not a whole number"),
        ("train", {"model": Long()}, "model: Long is not a text"),
        ("train", {"image": Long()}, "image: Long is not a whole number or a pair"),
    ],
)
def test_numbers_and_lists_of_another_kind_are_refused(name: str, given: dict[str, Any], said: str, calls) -> None:
    with pytest.raises(UsageError, match=said):
        calls[name](**given)
