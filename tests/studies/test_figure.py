"""Figures of studies: panels side by side, marks that can be read, and names that strangers chose."""

import io
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from patchwords.studies import figure as figures
from patchwords.studies.catalogue import EXPERIMENTS
from patchwords.studies.figure import Line, Panel, Point, Scale, figure, in_units
from patchwords.studies.results import Measure

SCALES: tuple[Scale, ...] = ("names", "shares", "rates", "compute", "numbers")
ODD = ("_hidden", "$x^2$", "<b>", "\u56fe\u50cf", "\u202egnp.exe", "w" * 500, "a\nb", "")


def line(name: str, *points: tuple[float | str, float]) -> Line:
    return Line(name=name, points=[Point(x, Measure(values=(share,), judged=100)) for x, share in points])


def panel(scale: Scale, *lines: Line) -> Panel:
    return Panel(title="A title", across="what runs across", lines=lines, scale=scale)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures behind the bytes."""
    kept, write = [], figures.png

    def keep(made: Figure) -> bytes:
        kept.append(made)
        return write(made)

    monkeypatch.setattr(figures, "png", keep)
    return kept


def marks(axes: Axes) -> list[str]:
    """What is written below, where it can be seen."""
    low, high = axes.get_xlim()
    labels = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [label.get_text() for x, label in labels if low <= x <= high]


def legend(made: Figure) -> list[str]:
    return [text.get_text() for words in made.legends for text in words.get_texts()]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_picture_is_as_wide_as_its_panels(count: int) -> None:
    png = figure("x", [panel("shares", line("ViT", (0.1, 0.5), (1.0, 0.7)))] * count)
    with Image.open(io.BytesIO(png)) as picture:
        assert (picture.format, picture.size) == ("PNG", (round((4 * count + 1.3) * 160), 528))
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


def test_the_same_numbers_give_the_same_bytes() -> None:
    panels = [panel("names", line("ViT", ("a", 0.5)), line("ResNet", ("a", 0.6)))]
    assert figure("x", panels) == figure("x", panels)


@pytest.mark.parametrize("scale", SCALES)
def test_nothing_to_draw_is_an_empty_panel(scale: Scale, drawn: list[Figure]) -> None:
    assert figure("x", [panel(scale)]).startswith(b"\x89PNG")
    assert figure("x", [panel(scale, line("ViT"), line("ResNet"))]).startswith(b"\x89PNG")
    assert legend(drawn[1]) == ["ViT", "ResNet"]


@pytest.mark.parametrize("scale", SCALES)
def test_one_point_is_enough(scale: Scale, drawn: list[Figure]) -> None:
    figure("x", [panel(scale, line("ViT", (3.0, 0.5)))])
    assert marks(drawn[0].axes[0])
    assert not legend(drawn[0])  # one line needs no name


def test_marks_are_the_values_that_were_varied(drawn: list[Figure]) -> None:
    shares = panel("shares", line("ViT", (0.05, 0.5), (0.25, 0.6), (1.0, 0.7)))
    rates = panel("rates", line("ViT", (3e-5, 0.5), (1e-3, 0.6), (0.03, 0.7)))
    names = panel("names", line("ViT", ("b", 0.5)), line("ResNet", ("a", 0.6), ("b", 0.7)))
    figure("x", [shares, rates, names])
    below = [marks(axes) for axes in drawn[0].axes]
    assert below == [["5 %", "25 %", "100 %"], ["3e-5", "0.001", "0.03"], ["b", "a"]]
    assert [axes.get_xscale() for axes in drawn[0].axes] == ["log", "log", "linear"]


@pytest.mark.parametrize("costs", [(1.2, 1.3, 1.8), (2.1, 4.9), (1.1, 8.0, 33.0), (1.0, 900.0), (5.0,)])
def test_an_axis_of_compute_has_round_marks_and_some(costs: tuple[float, ...], drawn: list[Figure]) -> None:
    figure("x", [panel("compute", line("ViT", *((cost, 0.5) for cost in costs)))])
    below = marks(drawn[0].axes[0])
    assert 1 <= len(below) <= 8
    assert all(len(mark) <= 4 for mark in below)
    assert len(set(below)) == len(below)


def test_many_rates_are_marked_by_powers(drawn: list[Figure]) -> None:
    figure("x", [panel("rates", line("ViT", *((1.7**power / 1e4, 0.5) for power in range(12))))])
    assert marks(drawn[0].axes[0]) == ["1e-4", "0.001", "0.01"]


def test_points_of_two_lines_over_one_name_stand_beside_each_other(drawn: list[Figure]) -> None:
    figure("x", [panel("names", line("ViT", ("a", 0.5)), line("ResNet", ("a", 0.5)))])
    first, second = (float(bars[0].get_xdata()[0]) for bars in drawn[0].axes[0].containers)
    assert -0.5 < first < 0 < second < 0.5
    assert first == -second


def test_one_seed_has_no_error_bars(drawn: list[Figure]) -> None:
    once = line("once", ("a", 0.5))
    thrice = Line(name="thrice", points=[Point("a", Measure(values=(0.4, 0.5, 0.6), judged=100))])
    figure("x", [panel("names", once, thrice)])
    bars: list[Any] = list(drawn[0].axes[0].containers)
    assert [each.has_yerr for each in bars] == [False, True]
    (segment,) = bars[1].lines[2][0].get_segments()
    assert segment[:, 1] == pytest.approx([0.4, 0.6])


def test_a_line_has_its_colour_in_every_panel(drawn: list[Figure]) -> None:
    vit, resnet = line("ViT", ("a", 0.5)), line("ResNet", ("a", 0.6))
    figure("x", [panel("names", vit, resnet), panel("names", resnet)])
    first, second = ([bars[0].get_color() for bars in axes.containers] for axes in drawn[0].axes)
    assert first[1] == second[0] != first[0]
    assert legend(drawn[0]) == ["ViT", "ResNet"]


def test_every_line_is_named_whatever_it_is_called(drawn: list[Figure]) -> None:
    figure("x", [panel("names", *(line(name, (name, 0.5)) for name in ODD))])
    words = legend(drawn[0])
    assert len(words) == len(ODD)
    assert words[:3] == ["_hidden", "$x^2$", "<b>"]
    assert "\u202e" not in "".join(words)
    assert max(map(len, [*words, *marks(drawn[0].axes[0])])) <= figures.LONGEST


def test_names_that_begin_and_end_alike_are_two_lines(drawn: list[Figure]) -> None:
    names = [f"{'a' * 40}{letter}{'z' * 40}" for letter in "bc"]
    figure("x", [panel("names", *(line(name, ("x", 0.5)) for name in names))])
    assert len(legend(drawn[0])) == 2


def test_more_lines_than_colours_are_all_drawn(drawn: list[Figure]) -> None:
    figure("x", [panel("shares", *(line(f"model {number}", (0.5, 0.5)) for number in range(9)))])
    assert len(legend(drawn[0])) == len(drawn[0].axes[0].containers) == 9


@pytest.mark.parametrize(
    ("most", "unit", "times"), [(2.0, "exaFLOPs", 1), (2e-6, "TFLOPs", 1e6), (1e-13, "MFLOPs", 1e12)]
)
def test_compute_is_in_the_unit_that_fits_the_largest(most: float, unit: str, times: float) -> None:
    panels = in_units(panel("compute", line("ViT", (most / 4, 0.5)), line("ResNet", (most, 0.6))))
    assert panels.across == f"{unit} what runs across"
    assert [point.x for each in panels.lines for point in each.points] == [most / 4 * times, most * times]
    assert [point.measure.mean for each in panels.lines for point in each.points] == [0.5, 0.6]


def test_a_panel_without_points_has_a_unit_too() -> None:
    assert in_units(panel("compute", line("ViT"))).lines == [line("ViT")]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_study_can_be_drawn_whatever_was_lost(name: str, made_up_results: Any) -> None:
    for score in (
        lambda cell: {"accuracy": 0.5 + 0.01 * cell.seed, "few_shot": 0.3},
        lambda cell: {"accuracy": 0.0, "few_shot": 1.0} if len(cell.name) % 2 else None,
        lambda cell: None,
    ):
        experiment, results = made_up_results(name, score, (0, 1))
        panels = experiment.panels(results)
        with Image.open(io.BytesIO(figure(name, panels))) as picture:
            assert picture.width == round((4 * len(panels) + 1.3) * 160)
