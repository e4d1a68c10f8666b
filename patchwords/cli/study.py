"""`patchwords study NAME [DATA]`: one of the paper's studies, on any pictures, in a size that fits."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchwords.cli.options import Device, Json, Mirror, Offline, Quiet, Set, numbers
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output

LIST = "list"


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As data-size; `patchwords study list` names all.")],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of class folders, a list, an archive or a known set.",
            show_default="digits",
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Option(metavar="DATA", help="Pictures that judge what was learned.", show_default="half of the classes"),
    ] = "",
    weights: Annotated[
        str, typer.Option(metavar="FILE|NAME", help="What `transfer` asks about.", show_default="its own")
    ] = "",
    grid: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="digits, small, photos or a TOML file.", show_default="by DATA")
    ] = "",
    setting: Set = [],  # noqa: B006
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N", help="A training each.", show_default="the grid's")
    ] = None,
    at_once: Annotated[int, typer.Option("--at-once", metavar="N", help="Trainings at a time.")] = 1,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder.", show_default="runs/study-<name>-<data>-<n>")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with the study there.")] = None,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Re-run one of the paper's studies on your own pictures; without DATA on the built-in digits.

    Leaves a folder with report.html, the figure, the table (CSV, JSON) and every training, and says what was found in
    two sentences. Models learn from the first half of the classes and are judged by the others, or by --target.
    --set changes what the study varies, as shares=[0.1,1], or its grid, as learn.duration='200 steps'.
    """
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars
    from patchwords.settings import assignments
    from patchwords.studies.study import study as perform

    output = Output(as_json, quiet)
    if name == LIST:
        _refuse_all(
            data, target, weights, grid, setting, seeds, at_once > 1, device != "auto", out, resume, offline, mirror
        )
        _show(output)
        return
    bars = Bars(output)
    try:
        done = perform(
            name,
            data,
            target=target,
            weights=weights,
            grid=grid,
            change=assignments(setting),
            seeds=numbers("--seeds", seeds, int),
            at_once=at_once,
            device=device,
            out=out,
            resume=resume,
            offline=offline,
            mirror=mirror,
            watcher=bars,
        )
    finally:
        bars.close()
    output.json({"kind": "result", **done.numbers()})
    for words in done.finding:
        output.text(words.english)
    output.text(f"look at {done.report}")


def _refuse_all(*given: object) -> None:
    if any(given):
        raise UsageError("`patchwords study list` takes nothing more")


def _show(output: "Output") -> None:
    from patchwords.studies.catalogue import EXPERIMENTS

    for each in EXPERIMENTS.values():
        output.json({"kind": "study", "name": each.name, "of": each.of, "question": each.question.english})
    rows = [(each.name, each.of, each.question.english) for each in EXPERIMENTS.values()]
    output.table(("study", "of the paper", ""), rows)
