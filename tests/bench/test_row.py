"""Rows: medians, and ours beside the others of the same batch."""

import numpy as np

from patchwords.bench.measure import Entrant
from patchwords.bench.row import OURS, Row, compared, row


def made(who: str, speed: float, batch: int = 8, precision: str = "bf16") -> Row:
    return Row(
        bench="inference",
        model="ViT-B/16",
        who=who,
        how="eager",
        precision=precision,
        batch=batch,
        image=(224, 224),
        images_per_second=speed,
        milliseconds=1.0,
    )


def test_a_row_is_made_of_medians() -> None:
    entrant = Entrant(OURS, "", "bf16", lambda _: None, 1.5, 1 << 30)
    found = row("inference", "ViT-B/16", entrant, np.array([0.2, 0.1, 0.9]), batch=10, image=(8, 8))
    assert found.images_per_second == 50.0
    assert found.milliseconds == 200.0
    assert found.spread > 1  # one round took four times as long
    assert (found.preparing, found.memory) == (1.5, 1 << 30)


def test_ours_is_compared_with_each_of_the_others() -> None:
    ours, timm, other = compared([made(OURS, 30.0), made("timm", 20.0), made("torchvision", 10.0)])
    assert ours.ratios == {"timm eager bf16": 1.5, "torchvision eager bf16": 3.0}
    assert timm.ratios == other.ratios == {}


def test_another_batch_is_no_comparison() -> None:
    ours, _ = compared([made(OURS, 30.0), made("timm", 20.0, batch=4)])
    assert ours.ratios == {}
