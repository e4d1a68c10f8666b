"""What is shown of a picture: as the model saw it, and with the light where it looked."""

import numpy as np

from patchwords.serve.prediction import Kind, Prediction
from patchwords.serve.views import fitted, views


def answer(shape: tuple[int, int, int], kind: Kind = "rollout") -> Prediction:
    """White, and looked at in the upper left."""
    return Prediction(
        name="a.png",
        classes=("rose",),
        logits=np.zeros(1, dtype=np.float32),
        pixels=np.full(shape, 255, dtype=np.uint8),
        attention=np.array([[1, 0, 0], [0, 0, 0]], dtype=np.float32),
        kind=kind,
    )


def test_the_picture_comes_as_it_is_and_then_dark_where_the_model_did_not_look() -> None:
    plain, dimmed = views(answer((64, 96, 3)), 48).values()
    assert plain.shape == dimmed.shape == (32, 48, 3)
    assert (plain == 255).all()
    assert dimmed[0, 0].min() > 250
    assert dimmed[-1, -1].max() < 60


def test_each_view_says_what_it_is() -> None:
    assert [*views(answer((8, 8, 3)), 48)] == ["as the model sees it", "where it looked"]
    assert [*views(answer((8, 8, 3), "evidence"), 48)][1] == "what speaks for rose"


def test_pixels_of_a_tiny_picture_become_squares() -> None:
    grey = np.array([[[0], [90]], [[180], [255]]], dtype=np.uint8)
    found = fitted(grey, 10)
    assert found.shape == (10, 10, 3)
    assert (found[:5, 5:] == 90).all()
    assert (found[5:, :5] == 180).all()
