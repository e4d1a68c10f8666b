"""The figures as pictures: nothing is cut off, colours say what the numbers say, and no name spoils them."""

import io
import warnings
from collections.abc import Callable

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from patchwords.inspection.figures import lettering
from patchwords.inspection.figures.canvas import HEAD, MARGIN
from patchwords.inspection.figures.distance import Reach, distance
from patchwords.inspection.figures.filters import filters
from patchwords.inspection.figures.lettering import families, fitted, lettered, measured, shortened
from patchwords.inspection.figures.maps import Seen, maps, shown_size
from patchwords.inspection.figures.patch import Glance, patch
from patchwords.inspection.figures.positions import positions, steps

HOSTILE = (
    "$x_1$ and \\frac{1}{2}",
    "日本語の花 玫瑰",
    "🌹 rose",
    "<script>alert(1)</script>",
    "a\u202eb\x1b[31m\n",
    "half a letter \ud83d",
    "very " * 200 + ".jpg",
    "",
)
VIRIDIS = matplotlib.colormaps["viridis"]
RANDOM = np.random.default_rng(0)


def opened(png: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def grid(rows: int, cols: int) -> bytes:
    table = RANDOM.uniform(-1, 1, (rows, cols, rows, cols))
    return positions(table)


def reach(layers: int, heads: int, name: str = "ViT-B/16") -> Reach:
    return Reach(name=name, pixels=RANDOM.uniform(10, 120, (layers, heads)), even=117.0)


def scene(height: int = 48, width: int = 48) -> NDArray[np.uint8]:
    return RANDOM.integers(0, 256, (height, width, 3), dtype=np.uint8)


def rows_of_maps(
    count: int, height: int = 48, width: int = 48, name: str = "a.jpg", verdict: str = "rose, 93 %"
) -> bytes:
    pixels = scene(height, width)
    seen = [Seen(pixels=pixels, overlay=pixels // 2, name=name, verdict=verdict) for _ in range(count)]
    return maps(seen, heading="Where the model looks", below="left and right", scale="attention (0 least, 1 most)")


def heads(count: int, rows: int = 4, cols: int = 4, height: int = 48, width: int = 48) -> bytes:
    weights = RANDOM.dirichlet(np.ones(rows * cols), count).reshape(count, rows, cols)
    glance = Glance(
        pixels=scene(height, width),
        place=(rows - 1, cols - 1),
        heads=range(1, count + 1),
        maps=weights,
        special=np.full(count, 0.125),
    )
    return patch(glance, heading="Where one patch looks", below="layer 3")


def tiles(count: int, height: int, width: int) -> bytes:
    pixels = RANDOM.integers(0, 256, (count, height, width, 3), dtype=np.uint8)
    return filters(pixels, [1 / count] * count, heading="Principal components of the patch embedding")


DRAWINGS: dict[str, Callable[[], bytes]] = {
    "28 filters": lambda: tiles(28, 16, 16),
    "four filters of two pixels": lambda: tiles(4, 2, 2),
    "one filter that is low and wide": lambda: tiles(1, 2, 40),
    "a grid of one patch": lambda: grid(1, 1),
    "a grid of 7x7": lambda: grid(7, 7),
    "a grid of 6x20": lambda: grid(6, 20),
    "a grid of 24x24": lambda: grid(24, 24),
    "a grid of 1x40": lambda: grid(1, 40),
    "one head": lambda: distance([reach(1, 1)], heading="How far", below="mean over 128 pictures of 224×224 pixels"),
    "16 heads": lambda: distance([reach(24, 16)], heading="How far", below="mean"),
    "two models": lambda: distance([reach(12, 12), reach(4, 48, "another")], heading="How far", below="mean"),
    "one map": lambda: rows_of_maps(1),
    "eight maps": lambda: rows_of_maps(8),
    "maps of wide pictures": lambda: rows_of_maps(2, 24, 160),
    "maps of tall pictures": lambda: rows_of_maps(4, 160, 24),
    "a patch with one head": lambda: heads(1),
    "a patch with 12 heads": lambda: heads(12),
    "a patch of a low and wide picture": lambda: heads(2, 2, 12, 16, 96),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_nothing_is_cut_off(name: str) -> None:
    pixels = opened(DRAWINGS[name]())
    edges = [pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]]
    assert all((edge == 255).all() for edge in edges)
    assert (pixels < 255).any()
    assert pixels.shape[1] >= 600  # there is room for the heading


def test_a_figure_has_the_same_bytes_each_time_whatever_the_users_settings_are() -> None:
    table = np.eye(4).reshape(2, 2, 2, 2)
    with matplotlib.rc_context({"font.size": 30, "figure.facecolor": "red", "axes.grid": True}):
        assert positions(table) == positions(table)
        assert opened(positions(table))[0, 0].tolist() == [255, 255, 255]


def test_the_tiles_of_the_positions_have_the_colours_of_their_values() -> None:
    table = RANDOM.uniform(-1, 1, (2, 3, 2, 3))
    pixels = opened(positions(table))
    area = pixels[int(HEAD) :, 92:]  # the board begins at these margins
    white = (area == 255).all(2)
    wide = int(np.argmax(white[10]))  # a tile ends at the first white column
    high = int(np.argmax(white[:, 10]))
    for row, col in np.ndindex(2, 3):
        y, x = int((row + 0.5) * high / 2), int((col + 0.5) * wide / 3)
        expected = 255 * np.array(VIRIDIS((table[0, 0, row, col] + 1) / 2)[:3])
        assert np.abs(area[y, x] - expected).max() <= 2


def test_large_grids_are_thinned_and_small_ones_are_not() -> None:
    assert steps(14, 14) == (1, 1)
    assert steps(24, 24) == (2, 2)
    assert steps(6, 20) == (1, 2)
    assert steps(64, 64) == (4, 4)


def test_a_filter_is_shown_pixel_by_pixel() -> None:
    tile = np.array([[[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [9, 9, 9]]]], dtype=np.uint8)
    pixels = opened(filters(tile, [1.0], heading="one"))
    y, x = int(HEAD), MARGIN
    corners = [pixels[y + dy, x + dx].tolist() for dy in (28, 84) for dx in (28, 84)]
    assert corners == tile[0].reshape(4, 3).tolist()


def test_pictures_keep_their_shape_and_small_ones_grow_in_whole_steps() -> None:
    assert shown_size(8, 8) == (208, 208)
    height, width = shown_size(96, 320)
    assert width / height == pytest.approx(320 / 96, rel=0.02)
    height, width = shown_size(1024, 1024)
    assert height == width < 300


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_spoils_a_figure(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pixels = opened(rows_of_maps(2, name=name, verdict=f"{name}, 12 %"))
        distance([reach(2, 2, name), reach(2, 2, name)], heading="How far", below="mean")
    assert (pixels[:, -3:] == 255).all()


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_spoils_a_figure_where_there_is_one_font_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lettering, "EASTERN", ())
    for cached in (families, lettering._letters):
        cached.cache_clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert lettered("日") == r"\u65e5"
            rows_of_maps(1, name=name)
    finally:
        for cached in (families, lettering._letters):
            cached.cache_clear()


def test_letters_that_no_font_has_and_those_that_turn_the_text_are_spelled() -> None:
    assert lettered("a\u202eb") == r"a\u202eb"
    assert lettered("\ud83d") == r"\ud83d"
    assert lettered("\U0010fffd") == r"\U0010fffd"
    assert lettered("line\nend\x1b") == r"line\u000aend\u001b"
    assert lettered("$x^2$") == "$x^2$"


def test_long_names_keep_their_beginning_and_end() -> None:
    assert shortened("abcdefghij.jpg", 9) == "abcd….jpg"
    assert shortened("abc", 3) == "abc"
    short = fitted("very " * 100 + "long.jpg", 200, 8)
    assert short.startswith("very ")
    assert short.endswith("long.jpg")
    assert 150 < measured(short, 8) <= 200
    assert measured(fitted("玫瑰" * 50, 200, 8), 8) <= 200
    assert fitted("a.jpg", 200, 8) == "a.jpg"


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_layers_are_counted_in_whole_numbers(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Figure] = []
    monkeypatch.setattr("patchwords.inspection.figures.distance.png", lambda figure: shown.append(figure) or b"")
    distance([reach(layers, 2)], heading="How far each head looks", below="")
    axes = shown[0].axes[-1]
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low < tick < high] == list(range(1, layers + 1))


def test_the_axis_of_the_distances_begins_at_nothing_and_holds_every_head(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Figure] = []
    monkeypatch.setattr("patchwords.inspection.figures.distance.png", lambda figure: shown.append(figure) or b"")
    models = [reach(4, 3), Reach(name="far", pixels=np.full((2, 2), 300.0), even=117.0)]
    distance(models, heading="How far each head looks", below="")
    for axes in shown[0].axes[1:]:
        low, high = axes.get_ylim()
        assert low == 0
        assert high > 300
        assert axes.get_xlim()[0] < 1 < 4 < axes.get_xlim()[1]


def test_the_box_is_around_the_patch_that_looks() -> None:
    """Row 1 and column 3 of 4: in the picture above the middle, and to the right."""
    glance = Glance(
        pixels=np.zeros((64, 64, 3), np.uint8), place=(0, 2), heads=[1], maps=np.zeros((1, 4, 4)), special=np.zeros(1)
    )
    image = opened(patch(glance, heading="", below="")).astype(int)
    top, left = round(HEAD), MARGIN
    side = shown_size(64, 64, 170 * 170)[0]
    red = (image[..., 0] > 200) & (image[..., 1] < 120)
    rows, cols = np.nonzero(red[:, : left + side + 4])  # of the picture, not of the head's map
    assert (rows.mean() - top) / side == pytest.approx(1 / 8, abs=0.03)
    assert (cols.mean() - left) / side == pytest.approx(5 / 8, abs=0.03)
