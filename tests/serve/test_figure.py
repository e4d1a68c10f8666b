"""The drawn prediction: complete, the same each time, whatever the names are."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from patchwords.pages.wording import percent
from patchwords.serve import figure
from patchwords.serve.figure import BARS, draw, file_name, write_figure
from patchwords.serve.prediction import Prediction

ODD = [
    "$x^2$ \\frac{1}{2}",
    "\u732b\u732b\u732b" * 40,
    "x" * 5000,
    "W" * 200,
    "line\nbreak\r\ttab",
    "\x1b[31mred",
    "\udcff\udcfe.jpg",
    "\u202egnp.exe",
    "\U0001f468\u200d\U0001f469",
    "\u0000nul",
    "",
    "{} %s {0}",
    "\U00020000\ue000\uffff",
]


def answer(
    classes: list[str], *, name: str = "a.png", shape=(32, 24, 3), attention=(4, 3), kind="rollout"
) -> Prediction:
    random = np.random.default_rng(0)
    return Prediction(
        name=name,
        classes=tuple(classes),
        logits=random.normal(size=len(classes)).astype(np.float32),
        pixels=random.integers(0, 256, shape, dtype=np.uint8) if shape else None,
        attention=random.random(attention, dtype=np.float32) if attention else None,
        kind=kind,
    )


def opened(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def edges_are_white(pixels: np.ndarray) -> bool:
    """Whether nothing touches the border, where it would be cut off."""
    border = (pixels[:10], pixels[-10:], pixels[:, :10], pixels[:, -10:])
    return all((part == 255).all() for part in border)


def test_odd_names_are_drawn_without_a_warning_and_nothing_is_cut_off() -> None:
    for name in ODD:
        pixels = opened(draw(answer([f"{number}{name}" for number in range(6)], name=name, kind="evidence"), 5))
        assert edges_are_white(pixels), name


def test_the_same_answer_gives_the_same_bytes() -> None:
    assert draw(answer(["a", "b"]), 5) == draw(answer(["a", "b"]), 5)


@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 24, 3), (224, 320, 3), (300, 20, 3), (16, 16, 5), (16, 16, 2)])
def test_pictures_of_any_shape_are_drawn(shape: tuple[int, int, int]) -> None:
    assert edges_are_white(opened(draw(answer(["a", "b", "c"], shape=shape), 3)))


def test_without_attention_or_pixels_there_is_less_to_draw() -> None:
    whole, alone, bare = (
        opened(draw(answer(["a", "b"], shape=shape, attention=attention), 2)).shape[1]  # type: ignore[arg-type]
        for shape, attention in (((32, 32, 3), (4, 4)), ((32, 32, 3), None), (None, None))
    )
    assert whole > alone > bare


def test_a_figure_says_names_shares_and_how_many_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(figure, "png", drawn.append)
    draw(answer([f"class {number}" for number in range(1000)]), 999)
    texts = [text.get_text() for text in drawn[0].axes[0].texts]
    found = answer([f"class {number}" for number in range(1000)]).top(20)
    assert texts[:4] == ["as the model sees it", "where it looked", found[0].label, percent(found[0].probability)]
    assert texts[-3:] == [found[-1].label, percent(found[-1].probability), "and 979 more"]
    lengths = [patch.get_width() for patch in drawn[0].axes[0].patches if isinstance(patch, Rectangle)]
    assert lengths[0] == BARS
    assert lengths[1::2] == pytest.approx([BARS * each.probability for each in found])


def test_more_classes_make_a_taller_figure_up_to_a_limit() -> None:
    five, twenty, thousand = (
        opened(draw(answer([str(number) for number in range(classes)]), top)).shape[0]
        for classes, top in ((50, 5), (50, 20), (1000, 1000))
    )
    assert five < twenty < thousand < twenty + 100


def test_file_names_come_from_the_number_and_are_never_paths() -> None:
    total = 20
    names = [
        *ODD,
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "a/b\\c.png",
        "CON",
        "-rf",
        "*?",
        "a" * 300,
        "\U00020000" * 90,
    ]
    found = [file_name(number, total, name) for number, name in enumerate(names)]
    assert len(set(found)) == len(found)
    for name in found:
        assert Path(name).name == name
        assert name.endswith(".png")
        assert name.isprintable()
        assert len(name.encode()) < 200
    assert file_name(7, total, "photos/my cat (2).jpeg") == "0007-my-cat-2.png"
    assert file_name(7, 123_456, "a.png") == "000007-a.png"


def test_a_figure_is_written_into_a_new_folder(tmp_path: Path) -> None:
    write_figure(answer(["a", "b"]), tmp_path / "new" / "0001-a.png", 5)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["0001-a.png"]
