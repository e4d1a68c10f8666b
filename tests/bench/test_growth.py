"""What larger pictures cost."""

import pytest
import torch

from patchwords.bench.growth import Asked, _lines, growth
from patchwords.bench.measure import Effort
from patchwords.bench.row import Row
from patchwords.errors import UsageError

CPU = torch.device("cpu")


def test_every_size_is_measured_answering_and_learning(heard: list[str], effort: Effort) -> None:
    asked = Asked(model="ViT-Mu/8", device=CPU, images=(16, 32), batch=2, precision="float32", effort=effort)
    report = growth(asked, heard.append)
    assert [(row.bench, row.image[0], row.further["tokens"]) for row in report.rows] == [
        ("inference", 16, 5),
        ("training", 16, 5),
        ("inference", 32, 17),
        ("training", 32, 17),
    ]
    assert report.notes == ()  # of a CPU memory is not told


def made(tokens: int, memory: int) -> Row:
    sizes = {"batch": 2, "image": (8, 8), "images_per_second": 1.0, "milliseconds": 1.0, "memory": memory}
    further = {"tokens": float(tokens)}
    return Row(bench="training", model="", who="ours", how="", precision="bf16", further=further, **sizes)


def test_a_line_is_found_where_there_is_one() -> None:
    (straight,) = _lines([made(n, (1 << 30) + 2048 * 2 * n) for n in (100, 200, 500)])
    assert straight == "training: 2.0 KiB a token and 1.00 GiB; every size lies within 0.0 % of that line"
    (bent,) = _lines([made(n, 1024 * n**2) for n in (100, 200, 500)])
    assert "within 0." not in bent


def test_models_without_tokens_are_refused(heard: list[str]) -> None:
    with pytest.raises(UsageError, match="Swin-T"):
        growth(Asked(model="Swin-T", device=CPU, images=(32, 64)), heard.append)
