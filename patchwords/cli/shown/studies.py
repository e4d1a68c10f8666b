"""A study's folder in a few lines: what was asked, how far it got, what was found, and what to do next."""

import json
import shlex
from pathlib import Path
from typing import Any

from patchwords.cli.output import Output, count
from patchwords.studies import outcome
from patchwords.studies.study import NUMBERS, REPORT
from patchwords.studies.terms import FILE, stored


def is_study(path: Path) -> bool:
    """Whether a study was begun there; the protocols of `evaluate` have a file of the same name."""
    return (path / FILE).is_file() and '"terms"' in (path / FILE).read_text("utf-8", errors="replace")


def show_study(output: Output, path: Path) -> None:
    terms, began = stored(path), json.loads((path / FILE).read_text("utf-8"))
    cells = began["cells"]
    done = sum((path / name / outcome.FILE).is_file() for name in cells)
    finding = _finding(path) if done == len(cells) else {}
    again = shlex.join(("patchwords", "study", terms.study, "--resume", str(path)))
    following = f"look at {path / REPORT}" if finding else f"`{again}` goes on with it"
    output.json(
        {
            "study": terms.study,
            "data": terms.data,
            "target": terms.target,
            "weights": terms.weights,
            "seeds": list(terms.grid.seeds),
            "trainings": len(cells),
            "done": done,
            "began": began["began"],
            "device": began["environment"]["device"],
            "finding": finding,
            "next": following,
        }
    )
    output.text(f"{path}: the study {terms.study} on {terms.data}")
    lines = {
        "target": terms.target,
        "weights": terms.weights,
        "seeds": ", ".join(map(str, terms.grid.seeds)),
        "trainings": f"{count(done)} of {count(len(cells))} done",
        "began": began["began"],
        "device": began["environment"]["device"],
        "finding": " ".join(words["english"] for words in finding.values()),
        "next": following,
    }
    for key, value in lines.items():
        if value:
            output.text(f"  {key:<10} {value}")


def _finding(path: Path) -> dict[str, Any]:
    """The two sentences, once they are written."""
    numbers = path / NUMBERS
    found: dict[str, Any] = json.loads(numbers.read_text("utf-8"))["finding"] if numbers.is_file() else {}
    return found
