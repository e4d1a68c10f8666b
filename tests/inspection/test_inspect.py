"""An inspection as a whole: every file is written, its numbers are those of the functions, and what is not is said."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data.broken import Broken
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.door import open_data
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split
from patchwords.errors import DataError, ModelError, ResourceError, UsageError
from patchwords.inspection.distance import attention_distance
from patchwords.inspection.exhibits.patch import Query
from patchwords.inspection.figures.maps import Seen
from patchwords.inspection.figures.patch import Glance
from patchwords.inspection.filters import principal
from patchwords.inspection.inspect import Inspected, inspect
from patchwords.inspection.overlay import mask, overlay
from patchwords.inspection.patch import patch_attention
from patchwords.inspection.pictures import Album, named, own
from patchwords.inspection.positions import similarity, structure
from patchwords.inspection.sight import sight
from patchwords.inspection.studio import NAMES, Studio, Wish, lack
from patchwords.inspection.viewer import Viewer
from patchwords.models.names import Config
from patchwords.weights.card import Card
from patchwords.weights.origin import Origin
from patchwords.weights.subject import Subject, open_subject

CPU = torch.device("cpu")
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(16)  # as much of a picture as the page reads


class Silence:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.done: dict[str, int] = {}

    def note(self, remark: str) -> None:
        self.notes.append(remark)

    def working(self, what: str, done: int, total: int) -> None:
        assert self.done.get(what, 0) < done <= total
        self.done[what] = done


def opening(given: str, split: Split | None) -> Data:
    return open_data(given, split=split)


def strict(path: Path) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    table: dict[str, Any] = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    return table


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures and a file that is none."""
    folder = tmp_path_factory.mktemp("photos")
    random = np.random.default_rng(0)
    for number in range(6):
        pixels = random.integers(0, 256, (4, 3, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((48, 64), Image.Resampling.BICUBIC).save(folder / f"{number}.png")
    (folder / "broken.jpg").write_text("no picture")
    return folder


@pytest.fixture
def subject_of(small_configs, randomised) -> Callable[[str], Subject]:
    def make(name: str) -> Subject:
        torch.manual_seed(0)  # the same one each time
        config = small_configs[name]
        size = Preprocess(size=config.image, mean=(0.5,) * config.channels, deviation=(0.5,) * config.channels)
        names = tuple(f"$class$ <{number}>" for number in range(config.classes))
        card = Card(model=config, preprocess=size, classes=names)
        return Subject(name, randomised(config.build()).eval(), card)

    return make


@pytest.fixture
def drawn(tmp_path: Path, subject_of, photos: Path) -> Callable[..., Inspected]:
    """An inspection of a small model with the photos."""

    def draw(name: str, given: Sequence[str] = (), against: str = "", **wish: Any) -> Inspected:
        stock = named(given or [str(photos)], opening)
        other = subject_of(against) if against else None
        return inspect(subject_of(name), stock, tmp_path, Silence(), wish=Wish(**wish), against=other)

    return draw


def test_every_figure_is_a_png_and_strict_json_and_the_page_shows_all(drawn, tmp_path: Path) -> None:
    done = drawn("plain", count=2, pictures=4)
    assert tuple(done.figures) == NAMES
    assert done.missing == {}
    for name, (png, numbers) in done.figures.items():
        assert png.read_bytes().startswith(b"\x89PNG")
        assert strict(numbers)["figure"] == name
        assert strict(numbers)["model"] == "plain"
    text = done.page.read_text("utf-8")
    assert text.count("data:image/png") == 5
    assert "<1>" not in text
    summary = strict(tmp_path / "inspection.json")
    assert summary["missing"] == {}
    assert any("broken.jpg" in note for note in summary["notes"])
    assert {path.name for path in tmp_path.iterdir()} == {
        "index.html",
        "inspection.json",
        *(f"{name}.{ending}" for name in NAMES for ending in ("png", "json")),
    }


def test_the_numbers_are_those_of_the_functions(drawn, subject_of, photos: Path, tmp_path: Path) -> None:
    drawn("plain", pictures=6, count=3, query=Query(layer=2, head=2, place=(1, 3)), picture="2")
    found = {name: strict(tmp_path / f"{name}.json") for name in NAMES}
    subject = subject_of("plain")
    source = named([str(photos)], opening).source
    assert source
    viewer = Viewer(subject=subject, device=CPU, album=Album(source, subject.card, _broken()))
    components = principal(subject.model.filters())
    assert found["filters"]["shares"] == components.shares.tolist()
    assert found["filters"]["shape"] == [32, 3, 8, 8]
    alike = similarity(subject.model.positions())
    assert found["positions"]["near"] == structure(alike).near
    assert np.allclose(found["positions"]["similarity"], alike.numpy(), atol=1e-6)
    reach = attention_distance(subject.model, viewer.batches(6))
    assert np.allclose(found["distance"]["models"][0]["pixels"], reach.pixels, rtol=1e-6)
    assert found["distance"]["models"][0]["pictures"] == 6
    assert np.allclose(found["distance"]["models"][0]["mean"], reach.pixels.mean(1), rtol=1e-6)
    assert viewer.album
    shots = viewer.album.shots(3)
    inputs = viewer.inputs(np.stack([shot.image for shot in shots]))
    assert [row["name"] for row in found["rollout"]["pictures"]] == [shot.name for shot in shots]
    assert np.allclose(
        [row["map"] for row in found["rollout"]["pictures"]], sight(subject.model, inputs).maps, atol=1e-6
    )
    chances = subject.model(inputs).softmax(1)
    assert [row["class"] for row in found["rollout"]["pictures"]] == chances.argmax(1).tolist()
    assert np.allclose(
        [row["probability"] for row in found["rollout"]["pictures"]], chances.amax(1).detach(), atol=1e-6
    )
    weights = patch_attention(subject.model, inputs[1:2], 2, (1, 3))
    assert found["patch"]["heads"] == [2]
    assert found["patch"]["patch"] == [1, 3]
    assert np.allclose(found["patch"]["maps"][0], weights.patches[0, 1], atol=1e-6)
    assert np.allclose(found["patch"]["special"][0], weights.special[0, 1], atol=1e-6)


def test_the_box_and_the_light_are_where_the_numbers_are(
    drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    glances: list[Glance] = []
    lit: list[Seen] = []
    monkeypatch.setattr("patchwords.inspection.figures.patch.patch", lambda given, **_: glances.append(given) or PIXEL)
    monkeypatch.setattr("patchwords.inspection.figures.maps.maps", lambda given, **_: lit.extend(given) or PIXEL)
    drawn("plain", only=("rollout", "patch"), count=2, query=Query(place=(1, 3)))
    assert glances[0].place == (0, 2)
    for seen, row in zip(lit, strict(tmp_path / "rollout.json")["pictures"], strict=True):
        light = mask(np.array(row["map"]), seen.pixels.shape[:2])
        assert np.abs(seen.overlay.astype(int) - overlay(seen.pixels, light)).max() <= 1


@pytest.mark.parametrize(("image", "sizes"), [((8, 8), {64, 36}), ((224, 224), {16, 4}), ((1024, 1024), {1})])
def test_large_pictures_come_one_at_a_time(subject_of, image: tuple[int, int], sizes: set[int]) -> None:
    subject = subject_of("plain")
    large = replace(subject, card=replace(subject.card, preprocess=Preprocess(size=image)))
    source = named(["digits"], opening).source
    assert source
    viewer = Viewer(subject=large, device=CPU, album=Album(source, large.card, _broken()))
    assert {len(images) for images in viewer.batches(100 if image[0] < 1024 else 3)} == sizes


def test_too_little_memory_on_the_device_is_a_sentence(drawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Studio, "draw", full)
    with pytest.raises(ResourceError, match="choose --device cpu or a smaller --image"):
        drawn("plain", only=("rollout",))
    assert list(tmp_path.iterdir()) == []


def _broken() -> Broken:
    return Broken(1.0, 7, lambda remark: None)


def test_the_same_pictures_are_drawn_each_time(subject_of, photos: Path) -> None:
    source = named([str(photos), str(photos)], opening).source
    assert source
    card = subject_of("plain").card
    first, second = (Album(source, card, _broken()).shots(5) for _ in range(2))
    assert [shot.name for shot in first] == [shot.name for shot in second]
    every = [image for images in Album(source, card, _broken()).batches(100, 3) for image in images]
    assert len(every) == 12


def test_a_model_trained_on_crops_has_neighbours_more_alike_than_far_places(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """And its own run tells the pictures, those that it did not learn from."""
    from patchwords.training.train import train

    place = tmp_path_factory.mktemp("crops")
    crops = {"data.crop.kind": "random", "data.crop.scale": [0.4, 1.0], "threads": 1, "evaluate": "4 epochs"}
    run = train(epochs=4, change=crops, out=place / "run", device="cpu")
    subject = open_subject(run.folder)
    stock = own(subject.origin, opening)
    assert stock.notes == ()
    assert stock.source is not None
    assert len(stock.source) == 355
    inspect(subject, stock, place / "out", Silence(), wish=Wish(only=("positions", "rollout"), count=2))
    found = strict(place / "out/positions.json")
    assert found["near"] > found["far"] + 0.1
    assert strict(place / "out/rollout.json")["pictures"][0]["name"].startswith("digits/")


def test_a_hand_made_table_shows_its_structure(drawn, tmp_path: Path) -> None:
    drawn("sincos", only=("positions",))
    found = strict(tmp_path / "positions.json")
    assert found["near"] > found["far"]
    assert found["same_row_or_column"] > found["elsewhere"]
    assert found["grid"] == [4, 3]


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("resnet pre", {"positions", "distance", "patch"}),
        ("axial", {"distance", "patch"}),
        ("axial relative", {"positions", "distance", "rollout", "patch"}),
        ("hybrid", set()),
        ("relative", {"positions"}),
        ("map", set()),
        ("no classes", set()),
    ],
)
def test_what_does_not_apply_is_a_sentence_in_the_models_words(
    drawn, tmp_path: Path, name: str, missing: set[str]
) -> None:
    done = drawn(name, count=1, pictures=2)
    assert set(done.missing) == missing
    assert set(done.figures) == set(NAMES) - missing
    summary = strict(tmp_path / "inspection.json")
    assert set(summary["missing"]) == missing
    text = done.page.read_text("utf-8")
    assert text.count('class="lack"') == len(missing)
    if name == "resnet pre":
        assert "a ResNet has no attention weights" in summary["missing"]["distance"]
        assert strict(tmp_path / "rollout.json")["of"] == "evidence"
        assert "Class maps" in text
    if name == "no classes":
        assert "predicted" not in strict(tmp_path / "rollout.json")["pictures"][0]


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("plain", "patch embedding"),
        ("swin", "patch embedding"),
        ("hybrid", "root convolution"),
        ("resnet pre", "root convolution"),
    ],
)
def test_the_page_says_what_sees_the_pixels(drawn, tmp_path: Path, name: str, of: str) -> None:
    text = drawn(name, only=("filters",)).page.read_text("utf-8")
    assert strict(tmp_path / "filters.json")["of"] == of
    assert ("of its ResNet" in text) == (of == "root convolution")


def test_every_small_model_has_each_figure_or_a_reason(subject_of, small_configs: dict[str, Config]) -> None:
    for name in small_configs:
        viewer = Viewer(subject=subject_of(name), device=CPU)
        reasons = [lack(figure, viewer) for figure in NAMES]
        assert reasons[0] == ""
        assert all(reason == "" or len(reason) > 20 for reason in reasons)


def test_evidence_that_is_nowhere_is_said(tmp_path: Path, subject_of, photos: Path) -> None:
    subject = subject_of("resnet pre")
    torch.nn.init.zeros_(subject.model.head.classifier.weight)
    done = inspect(subject, named([str(photos)], opening), tmp_path, Silence(), wish=Wish(only=("rollout",), count=1))
    assert "no evidence at all" in done.page.read_text("utf-8")


def test_two_models_stand_beside_each_other_with_the_difference_of_their_means(drawn, tmp_path: Path) -> None:
    done = drawn("plain", against="hybrid", only=("distance",), pictures=3)
    found = strict(tmp_path / "distance.json")
    first, second = (np.array(model["pixels"]) for model in found["models"])
    assert [model["model"] for model in found["models"]] == ["plain", "hybrid"]
    assert found["difference"]["mean"] == pytest.approx(second.mean() - first.mean())
    assert found["difference"]["by_layer"] == pytest.approx((second.mean(1) - first.mean(1)).tolist())
    assert "Over all heads plain has" in done.page.read_text("utf-8")


def test_models_of_another_depth_and_size_are_compared_and_that_is_said(drawn, tmp_path: Path) -> None:
    done = drawn("regularised", against="grey", only=("distance",), pictures=2)
    assert "by_layer" not in strict(tmp_path / "distance.json")["difference"]
    assert "differ in size (32×24 and 16×16)" in done.page.read_text("utf-8")


def test_a_second_model_without_attention_is_said(drawn, tmp_path: Path) -> None:
    done = drawn("plain", against="resnet pre", only=("distance",), pictures=2)
    assert "a ResNet has no attention weights" in strict(tmp_path / "distance.json")["missing"]["against"]
    assert "resnet pre is not beside it" in done.page.read_text("utf-8")


def test_what_is_to_be_known_of_the_second_model_is_on_the_page(tmp_path: Path, subject_of, photos: Path) -> None:
    other = replace(subject_of("hybrid"), notes=("its weights are random",))
    wish = Wish(only=("distance",), pictures=2)
    done = inspect(subject_of("plain"), named([str(photos)], opening), tmp_path, Silence(), wish=wish, against=other)
    assert "its weights are random" in strict(tmp_path / "inspection.json")["notes"]
    assert "its weights are random" in done.page.read_text("utf-8")


def test_fewer_pictures_than_wished_are_said(drawn, tmp_path: Path) -> None:
    done = drawn("plain", only=("distance",))
    assert strict(tmp_path / "distance.json")["models"][0]["pictures"] == 6
    assert "only 6 pictures to take the mean of, not 128" in done.page.read_text("utf-8")


def test_without_pictures_there_are_the_figures_that_need_none(tmp_path: Path, subject_of) -> None:
    done = inspect(subject_of("plain"), own(None, opening), tmp_path, Silence())
    assert set(done.figures) == {"filters", "positions"}
    assert all("--images" in words for words in done.missing.values())


def test_one_picture_is_enough_for_a_patch(tmp_path: Path, subject_of, photos: Path) -> None:
    wish = Wish(only=("patch",), picture=str(photos / "3.png"))
    inspect(subject_of("plain"), own(None, opening), tmp_path, Silence(), wish=wish)
    found = strict(tmp_path / "patch.json")
    assert found["picture"] == "3.png"
    assert found["heads"] == [1, 2]
    assert np.sum(found["maps"]) + np.sum(found["special"]) == pytest.approx(2, abs=1e-5)


def test_a_run_whose_data_is_gone_says_so(tmp_path: Path) -> None:
    gone = own(Origin(tmp_path, str(tmp_path / "gone"), "again"), opening)
    assert gone.source is None
    assert "does not exist" in gone.reason
    assert "--images" in gone.reason
    told = {"name": "digits", "names": {"train": ["1.png"], "val": []}, "notes": [], "digest": ""}
    (tmp_path / "data.json").write_text(json.dumps(told))
    changed = own(Origin(tmp_path, "digits", "again"), opening)
    assert changed.source is not None
    assert "has changed" in changed.notes[0]


def test_pictures_come_from_files_folders_and_data_sets(tmp_path: Path, photos: Path) -> None:
    for name in ("roses", "tulips"):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        (tmp_path / "flowers" / name / "1.png").write_bytes((photos / "0.png").read_bytes())
    given = [str(photos / "5.png"), str(tmp_path / "flowers"), "digits"]
    source = named(given, opening).source
    assert source is not None
    assert len(source) == 1 + 2 + 1797
    assert [source.name(number) for number in range(3)] == ["5.png", "roses/1.png", "tulips/1.png"]
    with pytest.raises(UsageError, match="does not exist"):
        named([str(tmp_path / "nothing")], opening)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"only": ("filtres",)}, "did you mean filters"),
        ({"count": 0}, "count 0 is below 1"),
        ({"pictures": -1}, "pictures -1 is below 1"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Wish(**wish)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"query": Query(layer=3)}, "there is no layer 3: layers are numbered 1 to 2"),
        ({"query": Query(head=0)}, "there is no head 0: heads are numbered 1 to 2"),
        ({"query": Query(place=(5, 1))}, "no patch in row 5, column 1: rows are numbered 1 to 4, columns 1 to 3"),
        ({"picture": "9"}, "numbered 1 to 6"),
        ({"picture": "no.jpg"}, "no picture file"),
    ],
)
def test_a_patch_that_is_not_there_is_refused_before_anything_is_written(
    drawn, tmp_path: Path, wish: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        drawn("plain", **wish)
    assert list(tmp_path.iterdir()) == []


def test_pictures_that_are_all_broken_are_an_error(drawn, photos: Path) -> None:
    with pytest.raises(DataError, match="of 1 picture none can be read"):
        drawn("plain", [str(photos / "broken.jpg")])


def test_weights_that_are_no_numbers_are_an_error(tmp_path: Path, subject_of, photos: Path) -> None:
    subject = subject_of("plain")
    torch.nn.init.constant_(subject.model.embed.position.table, torch.nan)
    for figure in ("positions", "distance", "rollout", "patch"):
        with pytest.raises(ModelError, match="not all finite"):
            inspect(subject, named([str(photos)], opening), tmp_path, Silence(), wish=Wish(only=(figure,)))
    assert list(tmp_path.iterdir()) == []


def test_hostile_class_names_reach_json_and_page_as_text(tmp_path: Path, subject_of, photos: Path) -> None:
    subject = subject_of("plain")
    names = ("</script><b>", "玫瑰 🌹 $\\frac", "a\u202eb", "half \ud83d", "x" * 500)
    spoiled = replace(subject, card=replace(subject.card, classes=names))
    done = inspect(spoiled, named([str(photos)], opening), tmp_path, Silence(), wish=Wish(only=("rollout",), count=6))
    assert {row["predicted"] for row in strict(tmp_path / "rollout.json")["pictures"]} <= set(names)
    assert "<b>" not in done.page.read_text("utf-8").replace("<b>注意力图</b>", "")
