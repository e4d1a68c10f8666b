"""`bench latency`: how long one answer takes in each of our settings, and how often it is that of float32."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from patchwords.bench.inference import Asked, inference
from patchwords.bench.row import OURS, Report, Row
from patchwords.bench.same import exact
from patchwords.bench.values import pictures
from patchwords.evaluation.agreement import agreement
from patchwords.models.model import Model
from patchwords.speed.prepare import ready

SHOWN = 256  # random pictures, where none are given


def latency(name: str, model: Model, asked: Asked, shown: Tensor | None, note: Callable[[str], None]) -> Report:
    """The rows of `inference`, ours with their agreement on the standardised pictures that are shown."""
    model = model.to(asked.device).eval()
    if shown is None:
        config = model.config
        (shown,) = pictures(SHOWN, config.channels, config.image, asked.device, 1)
        said = (
            f"the agreement is on {SHOWN} random pictures: name DATA, and a model that was trained, for one that counts"
        )
    else:
        said = f"the agreement is on {len(shown):,} pictures"
    report = inference(name, model, asked, note, bench="latency")
    rows = [_agreed(row, model, asked, shown.to(asked.device)) if row.who == OURS else row for row in report.rows]
    return replace(report, rows=tuple(rows), notes=(*report.notes, said))


def _agreed(row: Row, model: Model, asked: Asked, shown: Tensor) -> Row:
    fast = ready(
        model,
        device=asked.device,
        precision=row.precision,  # type: ignore[arg-type]  # it was one of those asked for
        kernels=asked.kernels,
        compiled=asked.compiled,
        graphs=asked.graphs,
    )
    with exact():
        return replace(row, further=row.further | {"agreement": agreement(model, fast, shown)})
