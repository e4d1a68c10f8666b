"""The tables of RandAugment and TrivialAugment hold the libraries' numbers, and docs/augmentation.md shows them."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from patchwords.data.augment.rounds import run
from patchwords.data.augment.strengths import BIG_VISION, TIMM, TORCHVISION, TORCHVISION_WIDE, WARPS, Table

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/augmentation.md"
SHOWN = {
    "timm 0, 5, 9, 10": TIMM,
    "torchvision 0, 9, 30": TORCHVISION,
    "trivial 0, 15, 30": TORCHVISION_WIDE,
    "big-vision 0, 10, 15, 20": BIG_VISION,
}
NUMBERLESS = {"identity", "autocontrast", "equalise", "invert"}
SIGNED = {*WARPS, "colour", "contrast", "brightness", "sharpness"}


def amount(table: Table, name: str, magnitude: float, sign: float = 1.0) -> float:
    """The number of an operation as a person would say it, on a picture of 224x224."""
    (number,) = table.formulas[name](np.array([magnitude / table.full]), np.array([sign]), 224)
    return 8 - np.log2(number) if name == "posterise" else float(number)


def cell(table: Table, name: str, magnitudes: list[float]) -> str:
    """What the document should say."""
    if name not in table.formulas:
        return "-"
    if name in NUMBERLESS:
        return "done"
    numbers = [amount(table, name, magnitude) for magnitude in magnitudes]
    signed = any(amount(table, name, m, -1.0) != n for m, n in zip(magnitudes, numbers, strict=True))
    one = signed and name not in WARPS
    return ("1 " * one + "± " * signed) + ", ".join(f"{number - one:.5g}" for number in numbers)


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    """The cells of the operations' table, heading first."""
    lines = re.findall(r"^\| (?:operation \| number \| timm|[a-z-]+ \|).*\|$", DOCUMENT.read_text(), flags=re.MULTILINE)
    cells = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if len(row) == 6]


@pytest.mark.parametrize("heading", SHOWN)
def test_the_document_shows_the_numbers_of_the_code(rows: list[list[str]], heading: str) -> None:
    column = rows[0].index(heading)
    magnitudes = [float(word) for word in heading.split(maxsplit=1)[1].split(", ")]
    shown = {row[0]: row[column] for row in rows[1:]}
    assert shown == {name: cell(SHOWN[heading], name, magnitudes) for name in shown}
    assert {name for name, text in shown.items() if text != "-"} == set(SHOWN[heading].formulas)


def test_timm_has_fifteen_operations_and_no_identity() -> None:
    assert len(TIMM.formulas) == 15
    assert {"invert", "solarise-add"} <= set(TIMM.formulas)
    assert {"identity", "cutout"}.isdisjoint(TIMM.formulas)


def test_torchvision_has_fourteen_operations_with_identity() -> None:
    for table in (TORCHVISION, TORCHVISION_WIDE):
        assert len(table.formulas) == 14
        assert "identity" in table.formulas
        assert {"invert", "solarise-add", "cutout"}.isdisjoint(table.formulas)


def test_big_vision_has_sixteen_operations_and_a_contrast_of_its_own() -> None:
    assert len(BIG_VISION.formulas) == 16
    assert {"invert", "solarise-add", "cutout", "contrast-of-area"} <= set(BIG_VISION.formulas)
    assert {"identity", "contrast"}.isdisjoint(BIG_VISION.formulas)


def test_what_has_a_sign_goes_both_ways() -> None:
    for name in SIGNED:
        there, back = amount(TIMM, name, 9.0), amount(TIMM, name, 9.0, -1.0)
        assert there + back == pytest.approx(0 if name in WARPS else 2)


def test_big_visions_solarise_threshold_overflows() -> None:
    assert [amount(BIG_VISION, "solarise", m) for m in (0, 5, 9, 10, 12, 15, 20)] == [0, 128, 230, 0, 51, 128, 0]


def test_translations_follow_the_side_they_move_along() -> None:
    drawn = TIMM.round(np.array([13, 14]), np.ones(2), np.ones(2), np.zeros((2, 2)), (100, 200))
    assert drawn.numbers[0, :6].tolist() == [1, 0, 90, 0, 1, 0]
    assert drawn.numbers[1, :6].tolist() == [1, 0, 0, 0, 1, 45]


@pytest.mark.parametrize("table", SHOWN.values())
@pytest.mark.parametrize("share", [0.0, 0.37, 1.0, 2.0])
def test_every_operation_keeps_pictures_between_black_and_white(table: Table, share: float) -> None:
    count = len(table.formulas)
    which, sign = np.arange(count), np.where(np.arange(count) % 2, -1.0, 1.0)
    share = min(share, table.most / table.full)
    drawn = table.round(which, np.full(count, share), sign, np.full((2, count), 0.5), (24, 20))
    changed = run(torch.rand(count, 3, 24, 20), [drawn])
    assert 0 <= changed.min() <= changed.max() <= 1


def test_geometric_operations_of_a_round_are_one_group() -> None:
    which = np.array([list(TIMM.formulas).index(name) for name in WARPS])
    drawn = TIMM.round(which, np.full(5, 0.9), np.ones(5), np.zeros((2, 5)), (24, 24))
    ((name, chosen, numbers),) = drawn.groups()
    assert name == "bilinear"
    assert chosen.tolist() == [0, 1, 2, 3, 4]
    assert (numbers[:, 6] == 128 / 255).all()
