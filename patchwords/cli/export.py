"""`patchwords export MODEL OUT`: a model as a file for others to run, compared with the model before it is there."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from patchwords.cli.options import Heads, Json, Mirror, Offline, Quiet, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars
    from patchwords.export.exported import Exported
    from patchwords.export.wish import Input, Precision

ANY = "any"
FOLDER = "huggingface"
Told = Callable[[], None]


def export(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run folder, a weights file, or a name of `show zoo`.")
    ],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The .onnx or .pt2 file to write; an existing one is refused.")
    ],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="huggingface: OUT is a folder for the hub.")] = "",
    given: Annotated[
        str, typer.Option("--input", help="images (standardised floats) or pixels (uint8, standardised in the file).")
    ] = "images",
    image: Annotated[
        str | None,
        typer.Option(metavar="SIZE|HxW|any", help="The picture's size in pixels.", show_default="the model's"),
    ] = None,
    precision: Annotated[str, typer.Option(help="float32, or int8 (.onnx; linear layers).")] = "float32",
    data: Annotated[
        str, typer.Option(metavar="DATA", help="Measure its accuracy beside the model's.", show_default="none")
    ] = "",
    pictures: Annotated[int | None, typer.Option(help="Of DATA at most so many.", show_default="all")] = None,
    heads: Heads = None,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a model as ONNX or for torch.export, for batches of any size, with its card and classes inside.

    Its answers about picture files are compared with the model's, at batches of 1, 2, 7 and 33; where they differ
    nothing is written. In int8 they do: by how much is measured on --data, or on what the model's run held out.
    """
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars

    bars = Bars(Output(as_json, quiet))
    place: dict[str, Any] = {"heads": heads, "offline": offline, "mirror": mirror}
    asked = {
        "--input": given != "images",
        "--precision": precision != "float32",
        "--data": data,
        "--pictures": pictures,
    }
    try:
        if to:
            told = _folder(bars, model, out, to, image, asked, place)
        else:
            wish = {"input": cast("Input", given), "precision": cast("Precision", precision)}
            told = _file(bars, model, out, image, wish, {"data": data, "pictures": pictures, **place})
    finally:
        bars.close()
    told()


def _file(
    bars: "Bars", model: str, out: Path, image: str | None, wish: dict[str, Any], options: dict[str, Any]
) -> Told:
    """Does it, and gives back what tells the result."""
    from patchwords.export.export import export as write
    from patchwords.export.wish import Wish

    sizes = Wish(**wish, sizes="any" if image == ANY else "fixed")
    size = None if image == ANY else pair(image)
    done = write(model, out, wish=sizes, image=size, **options, note=bars.note, working=bars.working)
    return lambda: _tell(bars.output, done)


def _folder(
    bars: "Bars",
    model: str,
    out: Path,
    to: str,
    image: str | None,
    asked: dict[str, object],
    place: dict[str, Any],
) -> Told:
    """The same for a folder of Hugging Face's."""
    from functools import partial

    from patchwords.export.huggingface import write
    from patchwords.export.trained import trained
    from patchwords.settings import nearest
    from patchwords.weights import store

    if to != FOLDER:
        raise UsageError(f"--to {to!r} is not known; {nearest(to, [FOLDER])}; .onnx and .pt2 are told by OUT's ending")
    if wrong := [option for option, value in {**asked, "--image any": image == ANY}.items() if value]:
        raise UsageError(f"{wrong[0]} does not apply to --to {to}: leave it out")
    if out.exists():
        raise UsageError(f"{out} exists already: choose another name, or remove it first")
    heads = place.pop("heads")
    fetch = partial(store.fetch, progress=partial(bars.working, f"fetching {model}"), **place)
    subject = trained(model, pair(image), heads, fetch)
    notes = [*subject.notes, *write(subject, out)]
    for note in notes:
        bars.note(note)
    result = {"kind": "result", "out": str(out), "format": to, "notes": notes}

    def told() -> None:
        bars.output.json(result)
        bars.output.text(f"{out}: {to}, from {subject.name}; read back, its answers are the model's")

    return told


def _tell(output: "Output", done: "Exported") -> None:
    from patchwords.cli.output import size

    output.json({"kind": "result", **done.numbers()})
    shape = ", ".join(map(str, done.shape))
    output.text(f"{done.path}: {size(done.bytes)}, {done.wish.input} ({shape}) to {done.gives}")
    found, pictures = done.parity, sum(each.batch for each in done.parity.batches)
    batches = ", ".join(dict.fromkeys(str(each.batch) for each in found.batches))
    half = "before it was made int8: " if done.wish.precision == "int8" else ""
    near = f"at most {found.difference:.1e} from the model's ({found.allowed:.1e} is allowed)"
    output.text(f"{half}{pictures} answers at batches of {batches}, {near}")
    if measured := done.measured:
        shares = f"{_percent(measured.file)} instead of {_percent(measured.model)}"
        same = f"the same class for {_percent(measured.agreement)} of {measured.pictures:,} pictures"
        output.text(f"accuracy on {measured.data} {shares}, {same}")


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
