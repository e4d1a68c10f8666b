"""`patchwords.study`: one of the paper's studies on pictures of one's own; stopped anywhere, it goes on."""

import datetime
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from patchwords import settings
from patchwords.data.sources.door import spelled
from patchwords.data.sources.names import listed
from patchwords.errors import UsageError
from patchwords.settings import at_least, lists, present, tables, texts
from patchwords.speed.device import choose
from patchwords.studies import below, catalogue
from patchwords.studies.cell import Cell, each_once
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import figure
from patchwords.studies.ground import Ground
from patchwords.studies.outcome import Bench, known
from patchwords.studies.page import Page
from patchwords.studies.perform import one_by_one
from patchwords.studies.results import SCORES, Results, Row
from patchwords.studies.terms import FILE, Terms, Wish
from patchwords.studies.together import together
from patchwords.training.pictures import look
from patchwords.training.possible import expect_training
from patchwords.training.run import durable
from patchwords.training.run.environment import differences, environment
from patchwords.training.run.folder import RunFolder
from patchwords.training.run.toml import toml
from patchwords.training.watch import Log, Watcher

PROGRAMS = ("patchwords", "patchwords.exe", "__main__.py")
TABLE, NUMBERS, FIGURE, REPORT = "results.csv", "results.json", "figure.png", "report.html"


@dataclass(frozen=True, kw_only=True)
class Studied:
    """What a study came to, and the folder with its report, its figure, its tables and its trainings."""

    folder: Path
    name: str
    results: Results
    finding: Finding

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A table with a row for each training."""
        return [row.table for row in self.results.rows]

    def numbers(self) -> dict[str, Any]:
        """All of it for JSON."""
        here, paper = self.finding
        finding = {"here": here._asdict(), "paper": paper._asdict()}
        return {"study": self.name, "folder": str(self.folder), "report": str(self.report), "finding": finding}


def study(
    name: str,
    data: str | Path = "",
    *,
    target: str | Path = "",
    weights: str | Path = "",
    grid: str | Path = "",
    change: Mapping[str, Any] | None = None,
    seeds: Sequence[int] | None = None,
    at_once: int = 1,
    device: str = "auto",
    out: str | Path | None = None,
    resume: str | Path | None = None,
    offline: bool = False,
    mirror: str = "",
    watcher: Watcher | None = None,
) -> Studied:
    """Trains what the study asks for, on the built-in digits if no data is given, and leaves a report.

    The first half of the classes is learned from, and the others judge what was learned; with a `target` all of the
    data is learned from, and the target judges. `weights` are for the study "transfer", where all of the data judges
    them. `change` holds settings of the study or of its grid by dotted key.
    """
    texts(name=name, weights=weights, grid=grid, **present(out=out, resume=resume))
    tables(change={} if change is None else change)
    catalogue.find(name)
    at_least(1, at_once=at_once)
    lists(seeds=() if seeds is None else seeds)
    if resume is not None and out is not None:
        raise UsageError(f"--out {out} does not apply to --resume: the study stays in {resume}")
    watcher = watcher or Log()
    wish = Wish(
        study=name,
        data=spelled(data),
        target=spelled(target),
        weights=str(weights),
        grid=str(grid),
        change=change or {},
        seeds=seeds,
        offline=offline,
        mirror=mirror,
        watcher=watcher,
    )
    where = choose(device)
    terms, ground = wish.begun() if resume is None else wish.resumed(Path(resume))
    experiment = catalogue.planned(name, terms.grid)
    cells = _cells(experiment, ground, where)
    if resume is None:
        _look(ground, cells, watcher)
    begun = f"study-{name}-{ground.first.name.partition(',')[0]}"
    named = None if out is None else Path(out)
    with RunFolder.create(named, begun) if resume is None else RunFolder.reopen(Path(resume), FILE) as folder:
        here = environment(where)
        if resume is None:
            made = {"began": _now(), "command": _command(), "cells": [cell.name for cell in cells], "environment": here}
            folder.write_json(FILE, {"terms": settings.write(terms), **made})
        else:
            _same(folder.path, cells, here, watcher)
            _tell(folder, terms, cells)
        again = shlex.join(("patchwords", "study", name, "--resume", str(folder.path)))
        bench = Bench(folder=folder.path.absolute(), device=device, again=again, watcher=watcher)
        _perform(cells, bench, at_once)
        return _concluded(experiment, cells, terms, folder)


def _cells(experiment: Experiment, ground: Ground, device: torch.device) -> list[Cell]:
    """All that is to be trained; a model that cannot be built, or not be trained like that, is refused."""
    cells = each_once(experiment.cells(ground, ground.grid.seeds))
    if not cells:
        raise UsageError(f"nothing is to be trained: say what {experiment.name} is to vary")
    for cell in cells:
        try:
            if cell.config:
                expect_training(cell.recipe, cell.config, cell.data, device)
        except UsageError as error:
            raise UsageError(f"{cell.name} cannot be trained: {error}") from None
    return cells


def _look(ground: Ground, cells: Sequence[Cell], watcher: Watcher) -> None:
    """What a person should know of the pictures, before the first training."""
    for pictures in (ground.first,) if ground.first is ground.target else (ground.first, ground.target):
        look(pictures, cells[0].recipe, watcher)


def _same(folder: Path, cells: Sequence[Cell], here: Mapping[str, Any], watcher: Watcher) -> None:
    """Refuses other trainings than those that were planned, and says what is otherwise since then."""
    began = json.loads((folder / FILE).read_text("utf-8"))
    if differ := set(began["cells"]) ^ {cell.name for cell in cells}:
        raise UsageError(
            f"the study in {folder} was begun with other trainings than this version plans ({listed(sorted(differ))}): "
            "go on with the version that began it, or start a new one"
        )
    for sentence in differences(began["environment"], here):
        watcher.note(sentence)


def _tell(folder: RunFolder, terms: Terms, cells: Sequence[Cell]) -> None:
    """Says where everything is found from now on, to the study and to each of its trainings."""
    began = json.loads((folder.path / FILE).read_text("utf-8"))
    folder.write_json(FILE, began | {"terms": settings.write(terms)})
    for cell in cells:
        below.tell(folder.path / cell.name, cell.called)


def _perform(cells: Sequence[Cell], bench: Bench, at_once: int) -> None:
    """Every cell that is left to do, and a word about each."""
    done = sum(known(bench.folder, cell) is not None for cell in cells)
    bench.watcher.note(f"{len(cells)} trainings, {done} of them done" if done else f"{len(cells)} trainings")
    for cell in one_by_one(cells, bench) if at_once == 1 else together(cells, bench, at_once):
        done += 1
        bench.watcher.note(f"{done} of {len(cells)}: {cell.name}{_came_to(bench.folder, cell)}")


def _came_to(folder: Path, cell: Cell) -> str:
    outcome = known(folder, cell)
    assert outcome, "it was just done"
    if outcome.lost:
        return f", without a result: {outcome.lost}"
    scores = [f"{name} {100 * outcome.numbers[key]:.1f} %" for key, name in SCORES.items() if key in outcome.numbers]
    return f", {', '.join(scores)}" if scores else ""


def _concluded(experiment: Experiment, cells: Sequence[Cell], terms: Terms, folder: RunFolder) -> Studied:
    """Table, figure and report."""
    outcomes = ((cell, known(folder.path, cell)) for cell in cells)
    results = Results(rows=[Row(cell=cell, outcome=outcome) for cell, outcome in outcomes if outcome])
    studied = Studied(folder=folder.path, name=experiment.name, results=results, finding=experiment.finding(results))
    began = json.loads((folder.path / FILE).read_text("utf-8"))
    told = {"study": f"{experiment.name} ({experiment.of})", "pictures": Path(terms.data).name}
    told |= {key: getattr(terms, key) for key in ("target", "weights") if getattr(terms, key)}
    told |= {
        "seeds": ", ".join(map(str, terms.grid.seeds)),
        "device": began["environment"]["device"],
        "began": began["began"],
    }
    told |= {"ended": _now(), "command": began["command"]}
    png = figure(experiment.name, experiment.panels(results))
    grid = toml(_used(settings.write(terms.grid), experiment, cells))
    page = Page(experiment=experiment, results=results, finding=studied.finding, figure=png, told=told, grid=grid)
    durable.replace(folder.path / FIGURE, png)
    folder.write_text(TABLE, results.csv())
    folder.write_json(NUMBERS, studied.numbers() | {"made": told, "rows": studied.rows})
    folder.write_text(REPORT, page.text())
    return studied


def _used(grid: settings.Table, experiment: Experiment, cells: Sequence[Cell]) -> settings.Table:
    """What a grid says of this study: without other studies, models that take no part, and empty tables."""
    models = {str(cell.at["model"]) for cell in cells}
    kept = {name: {key: table for key, table in grid["models"][name].items() if table} for name in sorted(models)}
    study = {experiment.name: grid["study"][experiment.name]}
    return {key: value for key, value in {**grid, "models": kept, "study": study}.items() if value}


def _command() -> str:
    """What was typed, where it was; a script of one's own knows itself what it called."""
    program, *words = sys.argv
    return shlex.join(("patchwords", *words)) if Path(program).name in PROGRAMS else "patchwords.study in Python"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
