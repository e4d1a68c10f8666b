"""`patchwords evaluate MODEL [DATA]`: how good a model is, or how good it becomes by the paper's protocol."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchwords.cli.options import Device, Heads, Image, Json, Mirror, Offline, Quiet, Set, numbers, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars

PROTOCOLS = {"table-5": "pictures to fine-tune on", "vtab-1k": "a TOML file with a [[task]] for each data set"}


def evaluate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run folder, a weights file, or a name of `show zoo`.")
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of class folders, a list, an archive or a known set.",
            show_default="what the run learned from",
        ),
    ] = "",
    split: Annotated[str | None, typer.Option(metavar="PART", help="train, val, test or all.")] = None,
    few_shot: Annotated[
        str | None, typer.Option(metavar="N,N", help="Accuracy from so few pictures of each class, as 1,5,10,25.")
    ] = None,
    penalty: Annotated[
        str | None, typer.Option(metavar="X,X", help="Of --few-shot; the first is the one reported.")
    ] = None,
    knn: Annotated[str | None, typer.Option(metavar="N,N", help="Accuracy by so many nearest neighbours.")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Accuracy of a linear probe.")] = False,
    real: Annotated[
        Path | None, typer.Option(metavar="FILE", help="ReaL labels.", show_default="DATA's own real.json")
    ] = None,
    by_order: Annotated[
        bool, typer.Option("--by-order", help="Take the model's outputs in the order of DATA's classes.")
    ] = False,
    protocol: Annotated[
        str | None, typer.Option(metavar="NAME", help="Fine-tune by table-5 (on DATA) or vtab-1k (DATA: a TOML file).")
    ] = None,
    recipe: Annotated[str | None, typer.Option(metavar="NAME|FILE", help="Of the protocol's trainings.")] = None,
    setting: Set = [],  # noqa: B006
    rates: Annotated[str | None, typer.Option(metavar="X,X", help="Learning rates that the protocol tries.")] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N,N", help="One of the protocol's trainings each.")] = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Go on with the protocol there.")] = None,
    image: Image = None,
    heads: Heads = None,
    batch: Annotated[int | None, typer.Option(help="Pictures at a time.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bf16 or fp16.")] = None,
    broken: Annotated[
        float | None, typer.Option(metavar="SHARE", help="More unreadable pictures than this are an error.")
    ] = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder to write.", show_default="runs/evaluate-<data>-<n>")
    ] = None,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Judge a model by pictures that it did not learn from.

    Leaves a folder with report.html, the numbers and every prediction. Without --split it takes the test pictures,
    else those for validation, else all of data that has no parts; without DATA what the run itself held out.
    --few-shot, --knn and --probe judge the features, also of models that know other classes.
    """
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars

    output = Output(as_json, quiet)
    judging = {
        "--split": split,
        "--few-shot": numbers("--few-shot", few_shot, int),
        "--penalty": numbers("--penalty", penalty, float),
        "--knn": numbers("--knn", knn, int),
        "--probe": probe or None,
        "--real": real,
        "--by-order": by_order or None,
        "--image": pair(image),
        "--heads": heads,
        "--batch": batch,
        "--precision": precision,
        "--broken": broken,
    }
    tuning = {
        "--recipe": recipe,
        "--set": setting or None,
        "--rates": numbers("--rates", rates, float),
        "--seeds": numbers("--seeds", seeds, int),
        "--resume": resume,
    }
    place: dict[str, Any] = {"device": device, "out": out, "offline": offline, "mirror": mirror}
    bars = Bars(output)
    try:
        if protocol is None:
            _refuse(tuning, "applies to --protocol, which fine-tunes the model; plain evaluation leaves it as it is")
            told = _judge(output, bars, model, data, _named(judging), place)
        else:
            advice = "tell its trainings by --set, as image=224 or batch=64"
            _refuse(judging, f"does not apply to --protocol {protocol}: {advice}")
            told = _tune(output, bars, protocol, model, data, _named(tuning), place)
    finally:
        bars.close()
    told()


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """An option that would be ignored is refused."""
    if wrong := [option for option, value in given.items() if value is not None]:
        raise UsageError(f"{wrong[0]} {reason}")


def _named(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, as arguments in Python."""
    return {key.removeprefix("--").replace("-", "_"): value for key, value in given.items() if value is not None}


def _judge(
    output: "Output", bars: "Bars", model: str, data: str, asked: dict[str, Any], place: dict[str, Any]
) -> Callable[[], None]:
    """Does it, and gives back what tells the result."""
    from patchwords.cli.judged import tell
    from patchwords.evaluation.evaluate import evaluate as judge

    if "penalty" in asked:
        asked["penalties"] = asked.pop("penalty")
    done = judge(model, data, **asked, **place, note=output.note, working=bars.working)
    return lambda: tell(output, done)


def _tune(
    output: "Output", bars: "Bars", protocol: str, model: str, data: str, asked: dict[str, Any], place: dict[str, Any]
) -> Callable[[], None]:
    """The same for a protocol."""
    from patchwords.cli.judged import tell_table_5, tell_vtab
    from patchwords.settings import assignments, nearest
    from patchwords.studies.protocols.table5 import table_5
    from patchwords.studies.protocols.vtab import vtab

    if protocol not in PROTOCOLS:
        raise UsageError(f"--protocol {protocol!r} is not known; {nearest(protocol, PROTOCOLS)}")
    if not data:
        raise UsageError(f"--protocol {protocol} needs DATA: {PROTOCOLS[protocol]}")
    changes = assignments(asked.pop("set", []))
    options = asked | place | {"change": changes, "watcher": bars}
    if protocol == "vtab-1k":
        tasks = vtab(model, Path(data), **options)
        return lambda: tell_vtab(output, tasks)
    done = table_5(model, data, **options)
    return lambda: tell_table_5(output, done)
