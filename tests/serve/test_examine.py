"""An examination says what the rooms of inspection say, of one picture, and packs it for a page."""

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data.transforms import normalise
from patchwords.errors import UsageError
from patchwords.inspection.distance import attention_distance
from patchwords.inspection.positions import similarity
from patchwords.inspection.sight import sight
from patchwords.serve import examine as examination
from patchwords.serve.examine import attention, attentions, described, examine, packed, picture, positions, table
from patchwords.serve.predictor import Predictor
from patchwords.weights.subject import Subject

Opening = Callable[..., Subject]

GAZING = ["plain", "grey", "mean", "map", "distilled", "relative", "beit shared", "hybrid", "lite"]
PLACELESS = ["no positions", "relative", "beit", "resnet post", "swin"]


def opened(subject: Opening, config: str, **card: Any) -> Predictor:
    return Predictor(subject(config, **card), device="cpu")


def seen(predictor: Predictor, seed: int = 0) -> np.ndarray:
    height, width = predictor.card.preprocess.size
    shape = (predictor.card.model.channels, height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def inputs(predictor: Predictor, pixels: np.ndarray) -> torch.Tensor:
    return normalise(torch.from_numpy(pixels[None]), predictor.card.preprocess)


def unpacked(found: dict[str, Any]) -> np.ndarray:
    """As the page does it."""
    data = np.frombuffer(base64.b64decode(found["bytes"]), np.uint8).reshape(found["rows"], found["cols"])
    return np.array(found["low"])[:, None] + data / 255 * np.array(found["scale"])[:, None]


@pytest.mark.parametrize("config", GAZING)
def test_one_gaze_gives_the_rollout_and_the_distances_of_inspection(subject: Opening, config: str) -> None:
    predictor = opened(subject, config)
    pixels = seen(predictor)
    found = examine(predictor, pixels, "a.png")
    images = inputs(predictor, pixels)
    assert found.kind == "rollout"
    assert found.map is not None
    assert found.distances is not None
    assert found.map.shape == found.grid == predictor.card.model.grid  # type: ignore[union-attr]
    assert found.map == pytest.approx(sight(predictor.model, images).maps[0], abs=1e-6)
    assert found.distances == pytest.approx(attention_distance(predictor.model, [images]).pixels, rel=1e-4)


@pytest.mark.parametrize("config", GAZING)
def test_attention_is_that_of_the_layer_and_head_between_patches(subject: Opening, config: str) -> None:
    predictor = opened(subject, config)
    pixels, depth = seen(predictor), predictor.card.model.depth  # type: ignore[union-attr]
    every = attentions(predictor, pixels, "heads")
    means = attentions(predictor, pixels, "means")
    for layer in range(1, depth + 1):
        with torch.no_grad():
            whole = predictor.model.attention(inputs(predictor, pixels), [layer])[0][0].numpy()
        prefix = len(predictor.card.model.special)  # type: ignore[union-attr]
        expected = whole[:, prefix:, prefix:]
        for head in range(1, len(whole) + 1):
            assert attention(predictor, pixels, layer, head) == pytest.approx(expected[head - 1], abs=1e-6)
        assert attention(predictor, pixels, layer, 0) == pytest.approx(expected.mean(0), abs=1e-6)
        assert every[layer - 1] == pytest.approx(expected, abs=1e-6)
        assert means[layer - 1, 0] == pytest.approx(expected.mean(0), abs=1e-6)


def test_one_patch_is_one_row_of_all(subject: Opening) -> None:
    predictor = opened(subject, "plain")  # 4 rows, 3 columns
    pixels = seen(predictor)
    for head in (0, 2):
        whole = attention(predictor, pixels, 2, head)
        for row, col in ((1, 1), (2, 3), (4, 3)):
            one = attention(predictor, pixels, 2, head, (row, col))
            assert one == pytest.approx(whole[[3 * (row - 1) + col - 1]], abs=1e-6)


def test_what_is_no_layer_head_or_patch_is_said(subject: Opening) -> None:
    predictor = opened(subject, "plain")
    pixels = seen(predictor)
    for message, (layer, head, patch) in {
        "there is no layer 3: layers are numbered 1 to 2": (3, 1, None),
        "there is no layer 0": (0, 1, None),
        "there is no head 3: heads are numbered 1 to 2, and 0 is the mean": (1, 3, None),
        "there is no head -1": (1, -1, None),
        "there is no patch in row 5, column 1": (1, 1, (5, 1)),
        "there is no patch in row 1, column 0": (1, 1, (1, 0)),
    }.items():
        with pytest.raises(UsageError, match=message):
            attention(predictor, pixels, layer, head, patch)  # type: ignore[arg-type]


@pytest.mark.parametrize("config", ["resnet post", "swin", "axial", "axial relative"])
def test_a_model_without_attention_between_all_patches_says_so(subject: Opening, config: str) -> None:
    predictor = opened(subject, config)
    with pytest.raises(UsageError, match=f"{config} shows no attention between all patches"):
        attention(predictor, seen(predictor), 1, 1)


def test_too_many_patches_are_asked_one_by_one(subject: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = opened(subject, "plain")
    pixels = seen(predictor)
    whole = attention(predictor, pixels, 1, 1)
    monkeypatch.setattr(examination, "MOST_AT_ONCE", 11)
    assert described(predictor)["at_once"] is False
    for ask in (
        lambda: attention(predictor, pixels, 1, 1),
        lambda: attentions(predictor, pixels, "means"),
        lambda: positions(predictor),
    ):
        with pytest.raises(UsageError, match="4x3 patches are too many to be told of at once"):
            ask()
    assert attention(predictor, pixels, 1, 1, (1, 2)) == pytest.approx(whole[[1]], abs=1e-6)


def test_positions_are_the_similarities_of_figure_7(subject: Opening) -> None:
    predictor = opened(subject, "plain")
    found = positions(predictor)
    expected = similarity(predictor.model.positions()).reshape(12, 12).numpy()
    assert found == pytest.approx(expected, abs=1e-6)


def test_positions_are_reckoned_once_a_predictor(subject: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = opened(subject, "plain")
    first = positions(predictor)
    monkeypatch.setattr(predictor.model, "positions", None)
    assert positions(predictor) is first


@pytest.mark.parametrize("config", PLACELESS)
def test_a_model_that_adds_nothing_for_a_place_has_no_positions(subject: Opening, config: str) -> None:
    assert positions(opened(subject, config)) is None


def test_a_resnet_shows_the_evidence(subject: Opening) -> None:
    predictor = opened(subject, "resnet post")
    pixels = seen(predictor)
    found = examine(predictor, pixels, "a.png")
    assert (found.kind, found.grid, found.distances) == ("evidence", None, None)
    assert np.array_equal(found.map, sight(predictor.model, inputs(predictor, pixels)).maps[0])  # type: ignore[arg-type]


def test_a_model_that_shows_nothing_still_answers(subject: Opening) -> None:
    found = examine((predictor := opened(subject, "axial relative")), seen(predictor), "a.png")
    assert (found.kind, found.map, found.distances) == (None, None, None)
    assert len(table(found, 5)["predictions"]) == 5


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_a_model_is_described_before_it_sees_a_picture(subject: Opening, small_config: Any) -> None:
    expected = {
        "name": "plain",
        "classes": 5,
        "labels": ["daisy", "dandelion", "rose", "sunflower", "tulip"],
        "loss": "softmax",
        "image": [32, 24],
        "grid": [4, 3],
        "cell": [8, 8],
        "special": ["class"],
        "layers": 2,
        "heads": [2, 2],
        "at_once": True,
        "shows": "gaze",
    }
    assert described(opened(subject, "plain")) == expected


def test_every_model_can_be_described_and_its_examination_told(
    subject: Opening, small_config: Any, request: Any
) -> None:
    name = request.node.callspec.params["small_config"]
    predictor = opened(subject, name)
    known = json.loads(json.dumps(described(predictor), allow_nan=False))
    assert (known["layers"] > 0) == (known["shows"] == "gaze")
    found = json.loads(json.dumps(table(examine(predictor, seen(predictor), "a"), 3), allow_nan=False))
    assert [len(found["predictions"]), found["grid"]] == [3, known["grid"]]
    assert (found["map"] is None) == (known["shows"] == "nothing")
    assert found["distances"] is None or [len(heads) for heads in found["distances"]] == known["heads"]


def test_the_answers_are_those_of_predict(subject: Opening) -> None:
    predictor = opened(subject, "plain")
    pixels = seen(predictor)
    found = table(examine(predictor, pixels, "a"), 2)
    expected = predictor.predict(pixels.transpose(1, 2, 0)).top(2)
    assert [tuple(each.values()) for each in found["predictions"]] == [tuple(each) for each in expected]


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_what_the_model_saw_comes_back_bit_by_bit(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 9, channels), dtype=np.uint8)
    kind, data = picture(pixels).split(",")
    assert kind == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as image:
        again = np.asarray(image)
    assert np.array_equal(again, pixels[:, :, :3] if channels >= 3 else pixels[:, :, 0])


def test_packed_values_come_back_within_half_a_step() -> None:
    random = np.random.default_rng(0)
    for matrix in (random.dirichlet(np.ones(50), 40), random.uniform(-1, 1, (7, 9)), random.random((1, 5))):
        scale = matrix.max(1) - np.minimum(matrix.min(1), 0)
        assert (np.abs(unpacked(packed(matrix)) - matrix).max(1) <= scale / 255 / 2 + 1e-6).all()


def test_rows_of_one_value_are_packed_too() -> None:
    matrix = np.array([[0.0, 0.0], [0.5, 0.5], [-0.25, -0.25], [1.0, -1.0]])
    assert unpacked(packed(matrix)) == pytest.approx(matrix, abs=0.004)
