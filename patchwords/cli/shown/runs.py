"""A run folder in a few lines: what was trained on what, how far, how well, and what to do next."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from patchwords.cli.output import Output, count
from patchwords.pages.wording import SPACE, duration, memory, percent, plural, short, whole
from patchwords.training.report.page import summary

FINISHED = "finished"


def show_run(output: Output, path: Path) -> None:
    found = summary(path)
    following = _next(found)
    output.json(found | {"next": following})
    output.text(f"{path}: {_what(found)}")
    for key, value in _lines(found):
        output.text(f"  {key:<10} {value.replace(SPACE, ' ')}")  # a terminal does not break lines there anyway
    output.text(f"  {'next':<10} {following}")


def _what(found: Mapping[str, Any]) -> str:
    parts = [str(found["model"]), f"from {found['weights']}" if found["weights"] else ""]
    return f"{' '.join(filter(None, parts)) or 'a model'} on {found['data'] or 'unnamed data'}"


def _lines(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What there is to say; what a stopped run has not got to is left out."""
    pictures = ", ".join(f"{count(number)} {split}" for split, number in found["pictures"].items())
    yield "status", found["status"] or "not finished: it runs, or was killed"
    labels = f"of {plural(found['classes'], 'class', 'classes')}" if found["classes"] else _unlabelled(found)
    yield "pictures", f"{pictures or 'none'}, {labels}"
    done = f"{plural(found['epochs'], 'epoch')}, {plural(found['steps'], 'step')}"
    yield "done", f"{done} of {found['duration']}" if found["duration"] else done
    for key in ("last",) if found["measure"] == "last" else ("best", "last"):
        if found[key]:
            yield key, _scores(found[key])
    if found["seconds"] is not None:
        yield "time", duration(found["seconds"]) + _speed(found)
    for key in ("started", "device", "result", "report"):
        if found[key]:
            yield "model" if key == "result" else key, str(found[key])


def _unlabelled(found: Mapping[str, Any]) -> str:
    """What the numbers are about, which are not about classes."""
    return f"without labels ({found['objective']})" if found["objective"] else "without labels"


def _scores(row: Mapping[str, Any]) -> str:
    """accuracy 93.2 %, loss 0.2345 at epoch 12."""
    shown = [
        f"{name} {short(row[name]) if name == 'loss' else percent(row[name])}"
        for name in ("accuracy", "top5", "loss")
        if row.get(name) is not None
    ]
    return f"{', '.join(shown) or 'no score'} at epoch {short(row.get('epoch', 0))}, step {whole(row.get('step', 0))}"


def _speed(found: Mapping[str, Any]) -> str:
    speed = f", {whole(found['images_per_second'])} images/s" if found["images_per_second"] else ""
    return speed + (f", {memory(found['peak_memory'])} at most" if found["peak_memory"] else "")


def _next(found: Mapping[str, Any]) -> str:
    if found["status"] != FINISHED:
        return f"`patchwords train --resume {shlex.quote(found['run'])}` goes on with it"
    model = f"; `patchwords show {shlex.quote(found['result'])}` shows the model" if found["result"] else ""
    return f"look at {found['report'] or found['run']}{model}"
