"""report.html: one page, complete in itself, that shows what a run learned, where it errs and what it cost."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from patchwords.evaluation.report.panels import Judged
from patchwords.evaluation.report.sections import judgements
from patchwords.pages.markup import Markup, element, name, together
from patchwords.pages.page import Section, page
from patchwords.pages.parts import facts, scroll
from patchwords.pages.wording import duration, memory, percent, short, whole
from patchwords.training.report import figures, history
from patchwords.training.report.figures import Curve, Unit
from patchwords.training.report.headline import header
from patchwords.training.report.history import History, is_number, series
from patchwords.training.run.folder import PLACE
from patchwords.weights.files import writing

COSTS = ("seconds", "images", "peak_memory")  # of run.json, told under Cost
CURVES: tuple[tuple[str, str, Unit], ...] = (
    ("loss", "Loss", "plain"),
    ("accuracy", "Accuracy", "percent"),
    ("lr", "Learning rate", "power"),
    ("images_per_second", "Images a second", "speed"),
)
UNDRAWN = (*PLACE, "norm", "waiting", *(key for key, _, _ in CURVES))


def write_report(run: Path, *, thumbnails: Callable[[int], bytes], names: Sequence[str] = (), title: str = "") -> Path:
    """The report of a run folder; `thumbnails` gives a small JPEG or PNG of a validation picture, `names` its file.

    Names are those that data.json holds where none are given.
    """
    past = history.read(run)
    names = names or past.names
    found = history.predictions(run)
    judged = found and Judged(
        logits=found[0],
        labels=found[1],
        loss=_loss(past.recipe),
        classes=past.classes,
        names=names,
        thumbnails=thumbnails,
    )
    text = page(title or past.title, header(past, judged, title or past.title), list(_sections(past, judged)))
    with writing(run / "report.html", len(text)) as aside:
        aside.write_text(text, encoding="utf-8")
    return run / "report.html"


def summary(run: Path) -> dict[str, Any]:
    """What there is to say about a run in a few lines, ready for JSON."""
    past = history.read(run)
    places = {"result": run / "model.safetensors", "report": run / "report.html"}
    return {
        "run": str(run),
        "model": past.recipe.get("model", ""),
        "weights": past.recipe.get("weights", ""),
        "data": past.data.get("name", ""),
        "digest": past.data.get("digest", ""),
        "classes": len(past.classes) if past.is_labelled else 0,
        "pictures": past.counts,
        "epochs": past.last.get("epoch", 0),
        "steps": past.last.get("step", 0),
        "duration": past.recipe.get("duration", ""),
        "status": past.run.get("status", ""),
        "started": past.run.get("started", ""),
        "device": past.run.get("device", ""),
        "seconds": past.seconds,
        "images": past.images,
        "images_per_second": past.images_per_second,
        "peak_memory": past.peak_memory,
        "objective": past.objective,
        "measure": past.measure,
        "best": _finite(past.best),
        "last": _finite(past.val[-1] if past.val else {}),
    } | {key: str(path) if path.exists() else "" for key, path in places.items()}


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """Infinities are no JSON."""
    return {key: None if isinstance(value, float) and not is_number(value) else value for key, value in row.items()}


def _loss(recipe: Mapping[str, Any]) -> Any:
    objective = recipe.get("objective")
    return objective.get("loss", "softmax") if isinstance(objective, dict) else "softmax"


def _sections(past: History, judged: Judged | None) -> Iterator[Section]:
    yield Section(heading="Curves", content=_curves(past))
    if judged:
        yield from judgements(judged, past.recipe.get("seed", 0))
    yield Section(heading="Cost", content=(facts(_cost(past)),))
    recipe = scroll(element("pre", past.recipe_text), says="The recipe")
    yield Section(heading="Recipe", content=(recipe,))
    told = {key: value for key, value in past.run.items() if key not in COSTS}
    rows = [*_flat(told, ""), *_flat({key: past.data[key] for key in past.data if key != "names"}, "data.")]
    yield Section(heading="Environment", content=(facts(rows),) if rows else ())


def _curves(past: History) -> tuple[Markup, ...]:
    best = past.best.get("epoch")
    shown = (*CURVES, *_further(past))
    drawn = [_figure(past, key, heading, unit, best if key == past.measure else None) for key, heading, unit in shown]
    if not any(drawn):
        return (element("p", "Not one step was recorded."),)
    if past.measure == "last":
        best = None
    said = f"The dotted line is the best {past.measure}, at epoch {short(best)}." if best is not None else ""
    there = [who for who, rows in (("training", past.train), ("validation", past.val)) if rows]
    legend = element("p", *(element("span", who, class_=f"key {who}") for who in there), said)
    return (legend, element("div", *drawn, class_="figures"))


def _further(past: History) -> Iterator[tuple[str, str, Unit]]:
    """What an objective logs besides, under its own names."""
    for key in dict.fromkeys(key for row in past.train for key in row if key not in UNDRAWN):
        yield key, key.replace("_", " ").capitalize(), "plain"


def _figure(past: History, key: str, heading: str, unit: Unit, best: float | None) -> Markup:
    lines = [Curve(who="training", epochs=x, values=y) for x, y in [series(past.train, key)] if len(x)]
    lines += [Curve(who="validation", epochs=x, values=y) for x, y in [series(past.val, key)] if len(x)]
    if not lines:
        return Markup()
    drawing = figures.curves(key, lines, says=f"{heading} over the epochs", unit=unit, best=best)
    return element("figure", element("figcaption", heading), drawing)


def _cost(past: History) -> Iterator[tuple[str, str]]:
    unknown = "not recorded"
    waiting = series(past.train, "waiting")[1]
    yield "time", duration(past.seconds) if past.seconds else unknown
    yield "images seen", whole(past.images) if past.images else unknown
    yield "images a second", f"{whole(past.images_per_second)} (median)" if past.images_per_second else unknown
    yield "waiting for data", f"{percent(waiting.mean())} of the time" if len(waiting) else unknown
    yield "peak memory", memory(past.peak_memory) if past.peak_memory else unknown
    yield "device", together([name(str(past.run.get("device", unknown)))])


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Nested tables as dotted keys."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and all(isinstance(word, str) for word in value):
            yield f"{prefix}{key}", shlex.join(value) if key == "command" else "; ".join(value)
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
