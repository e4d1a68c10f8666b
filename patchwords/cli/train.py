"""`patchwords train [DATA]`: train or fine-tune, or go on with a run."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchwords.cli.options import Device, Image, Json, Mirror, Offline, Quiet, Set, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.training.train import Run


def train(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A folder of class folders, a list, an archive or a known set.",
            show_default="digits",
        ),
    ] = "",
    recipe: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="`patchwords show recipes` lists them.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="As ViT-B/16; `patchwords show models`.")] = None,
    weights: Annotated[str | None, typer.Option(metavar="FILE|NAME", help="What to fine-tune.")] = None,
    epochs: Annotated[float | None, typer.Option(help="How often the data is seen.")] = None,
    batch: Annotated[str | None, typer.Option(metavar="N|auto", help="Pictures in an update.")] = None,
    image: Image = None,
    lr: Annotated[float | None, typer.Option("--lr", help="The highest learning rate.")] = None,
    freeze: Annotated[str | None, typer.Option(metavar="backbone|'blocks N'", help="What does not learn.")] = None,
    seed: Annotated[int | None, typer.Option(help="Another one gives another run.")] = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The run folder.", show_default="runs/<data>-<n>")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with the run in this folder.")] = None,
    find_lr: Annotated[bool, typer.Option("--find-lr", help="Look for a learning rate instead of training.")] = False,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Same bits or an error, on a GPU too; slower.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write the metrics for it, too.")] = False,
    setting: Set = [],  # noqa: B006
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on a folder of pictures, or fine-tune one; without DATA on the built-in digits.

    Leaves a folder with the model, its checkpoints, the metrics and report.html. Under torchrun it uses all processes.
    --set changes any setting of the recipe: optimizer.lr=3e-4 data.cache=device duration='20k steps' …
    """
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars
    from patchwords.settings import assignments
    from patchwords.training.find_rate import find_rate
    from patchwords.training.recipe import asked
    from patchwords.training.train import train as run

    output = Output(as_json, quiet)
    bars = Bars(output)
    changes = asked(model, weights, epochs, _batch(batch), pair(image), lr, freeze, seed) | assignments(setting)
    place: dict[str, Any] = {"offline": offline, "mirror": mirror}
    try:
        _fetch(weights, output, place)
        if find_lr:
            _refuse({"--resume": resume, "--deterministic": deterministic, "--tensorboard": tensorboard})
            rate = find_rate(data, recipe=recipe, change=changes, device=device, out=out, watcher=bars, **place)
            output.json({"kind": "rate", "suggestion": rate.suggestion, "picture": str(rate.picture)})
            output.text(f"suggested: --lr {rate.suggestion:g}; the picture is {rate.picture}")
            return
        done = run(
            data,
            recipe=recipe,
            change=changes,
            device=device,
            out=out,
            resume=resume,
            deterministic=deterministic,
            tensorboard=tensorboard,
            watcher=bars,
            **place,
        )
    finally:
        bars.close()
    if os.environ.get("RANK", "0") != "0":
        return  # under torchrun the first process speaks for all
    _tell(output, done)


def _tell(output: "Output", done: "Run") -> None:
    """The result, and what to look at."""
    test = {"test": done.tested.numbers} if done.tested else {}
    output.json({"kind": "result", "run": str(done.folder), "report": str(done.report), **done.result.numbers, **test})
    scores = done.result.scores
    if scores:
        output.text(f"accuracy {100 * scores.accuracy:.2f} % on {scores.count} pictures it did not learn from")
    else:
        output.text(f"loss {done.result.numbers['loss']:.4f} on pictures it did not learn from; no labels were used")
    if done.test:
        output.text(f"accuracy {100 * done.test.accuracy:.2f} % on {done.test.count} pictures put aside for the test")
    output.text(
        f"the model is {done.folder / 'model.safetensors'}; look at {done.report}, or `patchwords show {done.folder}`"
    )
    if done.following:
        output.text(done.following)


def _refuse(given: dict[str, Any]) -> None:
    """An option that would be ignored is refused."""
    if wrong := [option for option, value in given.items() if value]:
        raise UsageError(f"{wrong[0]} does not apply to --find-lr, which keeps nothing but a picture")


def _batch(text: str | None) -> int | str | None:
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]+", text) else text


def _fetch(weights: str | None, output: "Output", place: dict[str, Any]) -> None:
    """Published weights come with a progress bar, before anything else is begun."""
    from patchwords.weights import store
    from patchwords.weights.zoo import ZOO

    if weights in ZOO and not Path(weights).exists():
        with output.download(weights) as progress:
            store.fetch(weights, progress=progress, **place)
