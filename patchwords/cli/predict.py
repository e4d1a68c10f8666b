"""`patchwords predict MODEL IMAGE…`: the classes of pictures, with their probabilities."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from patchwords.cli.options import Device, Heads, Image, Json, Mirror, Offline, Quiet, pair
from patchwords.errors import DataError, UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.cli.predictions import Sayer
    from patchwords.data.broken import Damage
    from patchwords.data.sources.source import Source
    from patchwords.serve.prediction import Prediction
    from patchwords.serve.predictor import Predictor
    from patchwords.speed.precision import Working

MOST_PIPED = 1 << 30  # bytes


def predict(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A run folder, a weights file, an exported .onnx, or a name of `show zoo`."
        ),
    ],
    pictures: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE",
            help="Files, folders, patterns ('photos/**/*.jpg'), or - for a picture or a list of paths on stdin.",
        ),
    ],
    top: Annotated[int, typer.Option(help="How many classes to tell.")] = 5,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Draw each picture, where the model looks, and the probabilities as bars."),
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="Beside each figure a page to point at, which needs no network.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="picture,rank,label,probability on stdout, a row a class.")
    ] = False,
    image: Image = None,
    heads: Heads = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="float32, bf16, int8 (on a CPU), fp16 or fp8 (on a GPU).")] = "float32",
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the model first, which takes a while.")] = False,
    batch: Annotated[int, typer.Option(help="Pictures at a time.")] = 64,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Tell the classes of pictures, the most probable first.

    Of a folder or a pattern the pictures are taken, known by their endings; a file that is named is always tried.
    The same file is predicted once. Pictures that cannot be read are listed at the end, and the exit code is 3.
    In CSV, names that a spreadsheet would calculate are marked (./=1.png, '=1); in JSON they are not.
    """
    from functools import partial

    from patchwords.cli.output import Output
    from patchwords.data.broken import Damage
    from patchwords.serve.given import read
    from patchwords.serve.page.single import write_page
    from patchwords.serve.predictor import Predictor
    from patchwords.settings import at_least
    from patchwords.weights import store

    at_least(1, top=top)
    if as_csv and as_json:
        raise UsageError("--csv and --json both want stdout: choose one of them")
    if figure is not None:
        _check_folder(figure)
    elif html:
        raise UsageError("--html writes pages beside the figures: say where with --figure DIR")
    output = Output(as_json, quiet)
    given = read(pictures, _stdin)
    with output.download(model) as progress:
        predictor = Predictor(
            model,
            device=device,
            precision=cast("Working", precision),
            compiled=compiled,
            image=pair(image),
            heads=heads,
            batch=batch,
            fetch=partial(store.fetch, offline=offline, mirror=mirror, progress=progress),
        )
    for note in predictor.subject.notes:
        output.note(note)
    sayer = _sayer(output, predictor, given.source, top, as_csv)
    predicted, broken = 0, list(given.damages)
    with _bar(output, len(given.source), as_csv, batch) as advance:
        for number, answer in enumerate(_answers(predictor, given.source, figure, output), 1):
            if isinstance(answer, Damage):
                broken.append(answer)
            else:
                drawn = _drawn(answer, figure, number, len(given.source), top)
                sayer.say(answer, drawn)
                if html and drawn:
                    write_page(predictor, answer, drawn.with_suffix(".html"), top)
                predicted += 1
            advance(number)
    damages = [{"picture": name, "reason": reason} for name, reason in broken]
    output.json({"kind": "summary", "pictures": predicted, "broken": damages})
    if broken:
        _tell(broken, predicted)
        raise typer.Exit(DataError.exit_code)


def _stdin() -> bytes:
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise UsageError(f"more than {MOST_PIPED >> 30} GiB came through stdin: pipe in a picture, or a list of paths")
    return data


def _check_folder(folder: Path) -> None:
    """Figures of two runs are not mixed, and nothing is written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"--figure {folder}: it exists already and is no empty folder; choose another name")


def _answers(
    predictor: "Predictor", source: "Source", figure: Path | None, output: "Output"
) -> Iterator["Prediction | Damage"]:
    """The answers, with what figures need; a model that shows nothing is drawn without an overlay, and that is said."""
    draws, shows = figure is not None, predictor.model.shows != "nothing"
    if draws and not shows:
        output.note("this model cannot show where it looks: the figures have the picture and the probabilities alone")
    return predictor.predict_source(source, attention=draws and shows, pixels=draws, note=output.note)


def _drawn(answer: "Prediction", folder: Path | None, number: int, total: int, top: int) -> Path | None:
    if folder is None:
        return None
    from patchwords.serve.figure import file_name, write_figure

    path = folder / file_name(number, total, answer.name)
    write_figure(answer, path, top)
    return path


def _sayer(output: "Output", predictor: "Predictor", source: "Source", top: int, as_csv: bool) -> "Sayer":
    from patchwords.cli.predictions import Csv, JsonLines, Lines

    if as_csv:
        return Csv(top)
    if output.as_json:
        return JsonLines(output, top)
    return Lines(output, map(source.name, range(len(source))), predictor.classes, top)


@contextmanager
def _bar(output: "Output", total: int, as_csv: bool, many: int) -> Iterator[Callable[[int], None]]:
    """A bar for many pictures: below the lines where those are on the terminal, and on stderr otherwise."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    here = output.console.is_terminal
    console = output.console if here else output.talk
    hidden = output.quiet or total <= many or not console.is_terminal or (here and (as_csv or output.as_json))
    columns = (TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(
        *columns, console=console, disable=hidden, transient=True, redirect_stdout=False, redirect_stderr=False
    )  # redirected, results would go to stderr
    with progress:
        task = progress.add_task("", total=total)
        yield lambda done: progress.update(task, completed=done)


def _tell(broken: Sequence["Damage"], predicted: int) -> None:
    """On stderr, with --quiet too: it is why the exit code is not 0."""
    from patchwords.pages.markup import visible

    total = len(broken) + predicted
    lines = [f"  {visible(name, keep='')}: {visible(reason, keep='')}" for name, reason in broken]
    print(f"patchwords: {len(broken)} of {total} could not be predicted:", *lines, sep="\n", file=sys.stderr)
