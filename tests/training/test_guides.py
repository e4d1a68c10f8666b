"""Teachers are opened frozen, from our files or from timm where that is; and what they say can be kept."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords import settings
from patchwords.data.broken import Broken
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.sources.source import Pixels, Source
from patchwords.errors import ModelError, NetworkError, PatchwordsError, UsageError
from patchwords.models.vit import ViTConfig
from patchwords.objectives.beit import BEiT
from patchwords.objectives.distill import Distill
from patchwords.objectives.guide import shown
from patchwords.objectives.objective import Guide
from patchwords.training.find_rate import find_rate
from patchwords.training.guides import guide_answers, open_guide, placed
from patchwords.training.recipe import Recipe
from patchwords.training.train import train
from patchwords.weights.card import Card

Randomised = Callable[[nn.Module], nn.Module]

CPU = torch.device("cpu")
CONFIG = ViTConfig(depth=1, width=16, mlp=24, heads=2, patch=(4, 4), image=(8, 8), classes=3, channels=1)
STILL = {"data.crop.kind": "whole", "data.augment.flip": 0.0}


class Grey(Source):
    """Pictures in memory, some of which cannot be read."""

    def __init__(self, count: int, broken: tuple[int, ...] = ()):
        self.broken = broken
        self.labels = np.arange(count) % 3
        self.pixels = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 1), dtype=np.uint8)

    def picture(self, index: int) -> bytes | Pixels:
        return b"no picture" if index in self.broken else self.pixels[index]

    def name(self, index: int) -> str:
        return f"picture {index}"

    def size(self, index: int) -> int:
        return self.pixels[index].nbytes


class Small(nn.Module):
    """What timm would make: a module with a note on how it was trained."""

    def __init__(self, **told: Any):
        super().__init__()
        self.num_classes = 1000
        self.dense = nn.Linear(3, 1000)
        self.drop = nn.Dropout(0.5)
        self.pretrained_cfg = {
            "classifier": "dense",
            "input_size": (3, 20, 24),
            "crop_pct": 0.9,
            "interpolation": "bicubic",
            "mean": IMAGENET.mean,
            "std": IMAGENET.deviation,
        } | told

    def reset_classifier(self, classes: int) -> None:
        self.num_classes, self.dense = classes, nn.Linear(3, classes)

    def forward(self, images: Tensor) -> Tensor:
        said: Tensor = self.dense(self.drop(images).mean((2, 3)))
        return said


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """A stand-in for timm, and what was asked of it."""
    made: list[tuple[str, dict[str, Any]]] = []

    def create_model(name: str, **options: Any) -> nn.Module:
        made.append((name, options))
        if name == "unknown":
            raise RuntimeError("Unknown model (unknown)\nand more")
        if name == "far":
            raise OSError("no route to host")
        return Small()

    library = ModuleType("timm")
    vars(library)["create_model"] = create_model
    vars(library)["models"] = ModuleType("timm.models")
    library.models.load_state_dict = torch.load
    monkeypatch.setitem(sys.modules, "timm", library)
    monkeypatch.delenv("PATCHWORDS_OFFLINE", raising=False)
    return made


@pytest.fixture
def teacher(tmp_path: Path, randomised: Randomised) -> Path:
    """A weights file with classes and a preparation of its own."""
    model = randomised(patchwords.build(CONFIG))
    card = Card(
        model=CONFIG, preprocess=Preprocess(size=(8, 8), mean=(0.2,), deviation=(0.3,)), classes=("a", "b", "c")
    )
    patchwords.save(model, tmp_path / "teacher.safetensors", card)
    return tmp_path / "teacher.safetensors"


def recipe(**changes: Any) -> Recipe:
    return settings.change(Recipe(), {"data.workers": 0} | STILL | changes)


def kept(guide: Guide, chosen: Recipe, source: Source, allowed: float = 0.0) -> Any:
    card = Card(model=CONFIG, preprocess=Preprocess(size=(8, 8), mean=(0.5,), deviation=(0.5,)))
    broken = Broken(allowed, len(source), lambda note: None)
    return guide_answers(guide, chosen, source, card, CPU, broken, lambda done, total: None)


def test_a_file_of_ours_comes_frozen_with_its_preparation_and_classes(teacher: Path) -> None:
    guide = open_guide(str(teacher), CPU)
    assert guide.preprocess.mean == (0.2,)
    assert guide.classes == ("a", "b", "c")
    assert not any(module.training for module in guide.model.modules())
    assert not any(parameter.requires_grad for parameter in guide.model.parameters())


def test_a_name_alone_teaches_nothing() -> None:
    with pytest.raises(UsageError, match="ViT-Lite-2/4 is a name alone, and random weights teach nothing"):
        open_guide("ViT-Lite-2/4", CPU)


def test_a_model_of_timm_is_asked_for_by_its_name(asked: list[tuple[str, dict[str, Any]]]) -> None:
    guide = open_guide("timm:regnety_160.deit_in1k", CPU)
    assert asked == [("regnety_160.deit_in1k", {"pretrained": True})]
    assert guide.preprocess == Preprocess(
        size=(20, 24), fit="crop", crop=0.9, interpolation="bicubic", mean=IMAGENET.mean, deviation=IMAGENET.deviation
    )
    assert guide.classes == ()
    assert not any(module.training for module in guide.model.modules())
    assert not any(parameter.requires_grad for parameter in guide.model.parameters())


def test_a_model_of_timm_takes_the_weights_of_a_file(asked: list[tuple[str, dict[str, Any]]], tmp_path: Path) -> None:
    file, weights = tmp_path / "weights.pth", Small().state_dict()
    torch.save(weights, file)
    guide = open_guide(f"timm:small@{file}", CPU)
    assert asked == [("small", {})]
    assert torch.equal(guide.model.get_parameter("dense.weight"), weights["dense.weight"])
    open_guide("timm:small@" + str(shutil.copy(file, tmp_path / "weights.npz")), CPU)
    assert asked[1:] == [("small", {"checkpoint_path": str(tmp_path / "weights.npz")})]


def test_a_model_of_timm_has_as_many_classes_as_its_file(
    asked: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    mine = Small()
    mine.reset_classifier(3)
    torch.save(mine.state_dict(), tmp_path / "mine.pth")
    said = open_guide(f"timm:small@{tmp_path / 'mine.pth'}", CPU).model(torch.zeros(2, 3, 8, 8))
    assert said.shape == (2, 3)


def test_a_file_of_other_weights_or_with_more_than_weights_is_a_sentence(
    asked: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    torch.save({"other": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(
        ModelError, match=r"timm cannot make timm:small@.*: Error.* Missing key\(s\) .*\"dense.weight\""
    ):
        open_guide(f"timm:small@{tmp_path / 'other.pth'}", CPU)
    torch.save(Small(), tmp_path / "module.pth")
    (tmp_path / "empty.pth").write_bytes(b"")
    for name in ("module.pth", "empty.pth"):
        with pytest.raises(ModelError, match=rf"{name} cannot be read .*: it is damaged, or holds more than tensors"):
            open_guide(f"timm:small@{tmp_path / name}", CPU)


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("timm:unknown", ModelError, r"timm cannot make timm:unknown: Unknown model \(unknown\)$"),
        ("timm:far", NetworkError, r"timm:far could not be fetched \(no route to host\)"),
        ("timm:small@gone.pth", ModelError, "there is no file gone.pth"),
    ],
)
def test_what_timm_cannot_do_is_a_sentence(
    asked: list[tuple[str, dict[str, Any]]], name: str, kind: type[PatchwordsError], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        open_guide(name, CPU)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "nobody teaches: set objective.teacher"),
        ("gone", "gone does not exist: give a weights file"),
        ("damaged.safetensors", "damaged.safetensors cannot be read: it is damaged"),
        ("ViT-Lite-2/4", "random weights teach nothing"),
        ("timm:small@gone.pth", "there is no file gone.pth"),
    ],
)
def test_what_can_teach_nothing_is_refused_before_the_pictures_are_looked_at(
    name: str,
    sentence: str,
    asked: list[tuple[str, dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(*_: object, **__: object) -> None:
        raise AssertionError("the data was opened")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.safetensors").write_bytes(b"damaged")
    for module in ("train", "find_rate"):
        monkeypatch.setattr(f"patchwords.training.{module}.opened", nobody)
    distilled = {"objective.kind": "distill", "objective.teacher": name}
    with pytest.raises(PatchwordsError, match=sentence):
        train("digits", recipe="digits", change=distilled, out="run")
    with pytest.raises(PatchwordsError, match=sentence):
        find_rate("digits", recipe="digits", change=distilled, out="rate.png")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged.safetensors"]


def test_nothing_is_downloaded_offline(
    asked: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHWORDS_OFFLINE", "1")
    with pytest.raises(NetworkError, match="PATCHWORDS_OFFLINE is set"):
        open_guide("timm:small", CPU)
    assert asked == []


@pytest.mark.parametrize("name", ["timm:small", "deit-s16"])
def test_nothing_is_downloaded_for_a_run_that_is_offline(
    name: str, asked: list[tuple[str, dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As --offline says it, not the environment."""
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path))
    monkeypatch.setattr("socket.socket", None)
    distilled = {"objective.kind": "distill", "objective.teacher": name}
    chosen = recipe(model="ViT-Digits/2", **distilled)
    with pytest.raises(NetworkError, match="nothing is downloaded offline"):
        train("digits", recipe=chosen, out=tmp_path / "run", offline=True)
    with pytest.raises(NetworkError, match="nothing is downloaded offline"):
        train("digits", model="DeiT-S/16", weights="deit-s16", out=tmp_path / "run", offline=True)
    with pytest.raises(NetworkError, match="nothing is downloaded offline"):
        find_rate("digits", recipe="digits", change=distilled, out=tmp_path / "rate.png", offline=True)
    assert asked == []
    assert not (tmp_path / "run").exists()


def test_without_timm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(UsageError, match=r"timm:small needs timm, which cannot be imported .*: `pip install timm`, or"):
        open_guide("timm:small", CPU)


def test_kept_answers_are_those_to_the_pictures_as_evaluation_shows_them(teacher: Path) -> None:
    guide, source = open_guide(str(teacher), CPU), Grey(70)
    given = Preprocess(size=(8, 8), mean=(0.5,), deviation=(0.5,))
    images = (torch.from_numpy(source.pixels).permute(0, 3, 1, 2) / 255 - 0.5) / 0.5
    expected = guide.model(shown(images, given, guide.preprocess))
    torch.testing.assert_close(torch.from_numpy(kept(guide, recipe(), source)), expected, rtol=1e-5, atol=1e-5)


def test_a_broken_picture_has_the_answers_of_the_one_that_takes_its_place(teacher: Path) -> None:
    guide = open_guide(str(teacher), CPU)
    whole, torn = kept(guide, recipe(), Grey(8)), kept(guide, recipe(), Grey(8, (2, 7)), allowed=0.5)
    np.testing.assert_allclose(torn, whole[[0, 1, 3, 3, 4, 5, 6, 0]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.crop.kind", "random"),
        ("data.crop.kind", "padded"),
        ("data.augment.flip", 0.5),
        ("data.augment.policy.kind", "randaugment"),
        ("data.augment.jitter", 0.3),
        ("data.augment.erase", 0.25),
        ("data.mix.mixup", 0.2),
        ("data.mix.cutmix", 1.0),
    ],
)
def test_answers_to_what_changes_are_not_kept(teacher: Path, key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"{key} = {value} shows a picture differently each time.*: set it to "):
        kept(open_guide(str(teacher), CPU), recipe(**{key: value}), Grey(4))


def test_repeated_pictures_that_do_not_change_are_the_same(teacher: Path) -> None:
    assert kept(open_guide(str(teacher), CPU), recipe(**{"data.augment.repeats": 3}), Grey(4)).shape == (4, 3)


# Which one it is


def test_another_model_has_another_digest(teacher: Path, tmp_path: Path) -> None:
    first = open_guide(str(teacher), CPU).digest
    assert first == open_guide(str(teacher.rename(tmp_path / "moved.safetensors")), CPU).digest
    model = patchwords.load(tmp_path / "moved.safetensors")
    with torch.no_grad():
        model.get_parameter("head.classifier.bias")[0] += 1e-6
    patchwords.save(model, tmp_path / "other.safetensors")
    assert open_guide(str(tmp_path / "other.safetensors"), CPU).digest != first


def test_a_published_model_of_timm_is_told_by_its_name_and_one_of_a_file_by_its_weights(
    asked: list[tuple[str, dict[str, Any]]], tmp_path: Path
) -> None:
    for name in ("one.pth", "other.pth"):
        torch.save(Small().state_dict(), tmp_path / name)
    assert open_guide("timm:small", CPU).digest == "timm:small"
    digests = [open_guide(f"timm:small@{tmp_path / name}", CPU).digest for name in ("one.pth", "one.pth", "other.pth")]
    assert digests[0] == digests[1] != digests[2]


def test_a_recipe_keeps_where_its_guides_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "weights.pth").write_bytes(b"")

    def kept_as(name: str) -> str:
        found = placed(Recipe(objective=Distill(teacher=name))).objective
        assert isinstance(found, Distill)
        return found.teacher

    assert kept_as("runs") == kept_as("./runs") == str(tmp_path / "runs")
    assert kept_as("timm:small@runs/weights.pth") == f"timm:small@{tmp_path}/runs/weights.pth"
    for name in ("", "timm:small", "vit-b16-in21k", "gone"):
        assert kept_as(name) == name
    words = placed(Recipe(objective=BEiT(tokenizer="runs"), best="last")).objective
    assert words == BEiT(tokenizer=str(tmp_path / "runs"))
