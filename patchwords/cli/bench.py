"""`patchwords bench WHAT`: how fast it is here, beside whoever else is installed."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from patchwords.cli.options import Device, Heads, Image, Json, Mirror, Offline, Quiet, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    import torch

    from patchwords.bench.row import Report
    from patchwords.cli.output import Output
    from patchwords.weights.subject import Subject

COMMON = {"--batch", "--image", "--who", "--device"}
OF_MODEL = COMMON | {"--model", "--precision", "--kernels", "--compile"}
TAKES = {  # which options each bench takes
    "inference": OF_MODEL | {"--heads", "--graphs", "--hows", "--rounds", "--seconds"},
    "latency": OF_MODEL | {"--heads", "--graphs", "--hows", "--rounds", "--seconds", "DATA"},
    "training": OF_MODEL | {"--heads", "--hows", "--rounds", "--seconds"},
    "loading": COMMON | {"--pictures", "--workers", "--decoder"},
    "end-to-end": OF_MODEL | {"--pictures", "--workers", "--decoder"},
}
BATCH = {"inference": 64, "latency": 1, "training": 64, "loading": 64, "end-to-end": 64}
PICTURES = {"loading": 1024, "end-to-end": 2048}


def bench(
    what: Annotated[str, typer.Argument(metavar="WHAT", help=f"{', '.join(TAKES)}.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Pictures for the agreement of latency.", show_default="random ones")
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="A name such as ViT-B/16, a run folder or a weights file.")
    ] = "ViT-B/16",
    batch: Annotated[int | None, typer.Option(help="Pictures at a time.", show_default="64; 1 for latency")] = None,
    image: Image = None,
    heads: Heads = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="P,P",
            help="float32, bf16, fp16, fp8 (GPU); in inference and latency also int8 (CPU); several, but from files.",
            show_default="bf16 on a GPU, else float32; for latency all",
        ),
    ] = None,
    kernels: Annotated[str, typer.Option(help="Of ours: auto, plain or fused.")] = "auto",
    compiled: Annotated[bool, typer.Option("--compile", help="Ours through torch.compile, too.")] = False,
    graphs: Annotated[str, typer.Option(help="CUDA graphs of ours: auto, never or always.")] = "auto",
    who: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="ours, timm, transformers, torchvision.", show_default="all")
    ] = None,
    hows: Annotated[
        str | None,
        typer.Option(
            metavar="HOW,HOW",
            help="Of the peers: eager, compiled; in inference and latency also eager graphs, compiled graphs.",
            show_default="eager,compiled; for latency all; for training compiled",
        ),
    ] = None,
    pictures: Annotated[int | None, typer.Option(help="JPEG files that are made.", show_default="1024 or 2048")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that load, on each side.", show_default="one a core")
    ] = None,
    decoder: Annotated[
        str | None, typer.Option(help="auto, pillow, simplejpeg or nvjpeg.", show_default="each for loading")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Turns that everybody takes; the median counts.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Of each turn.")] = None,
    device: Device = "auto",
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure speed and memory, ours and the peers' that are installed, with the same weights.

    Everybody takes turns on random pictures after a warm-up; logits are compared first, and who computes something else
    is not measured. The ratio is to the fastest of the others. Latency also tells how often each of our settings
    gives the class that float32 gives: on DATA, or on random pictures.
    """
    from patchwords.cli.output import Output
    from patchwords.settings import nearest
    from patchwords.speed.device import choose

    if what not in TAKES:
        raise UsageError(f"{what!r} is no bench; {nearest(what, TAKES)}")
    given = {
        "DATA": data or None,
        "--model": None if model == "ViT-B/16" else model,
        "--heads": heads,
        "--precision": precision,
        "--kernels": None if kernels == "auto" else kernels,
        "--compile": compiled or None,
        "--graphs": None if graphs == "auto" else graphs,
        "--hows": hows,
        "--pictures": pictures,
        "--workers": workers,
        "--decoder": decoder,
        "--rounds": rounds,
        "--seconds": seconds,
    }
    _refuse(what, given)
    output, place = Output(as_json, quiet), choose(device)
    settings: dict[str, Any] = {"device": place, "batch": BATCH[what] if batch is None else batch}
    settings |= {} if who is None else {"who": _words(who)}
    if what in PICTURES:
        settings |= {"count": PICTURES[what] if pictures is None else pictures}
        settings |= {} if workers is None else {"workers": workers}
        settings |= {} if image is None else {"image": pair(image)}
        report = _loaded(what, settings, model, precision, kernels, compiled, decoder, output)
    else:
        settings |= {"kernels": kernels, "compiled": compiled, **_effort(rounds, seconds)}
        settings |= {} if hows is None else {"hows": _words(hows)}
        settings |= {} if what == "training" else {"graphs": graphs}
        subject = _subject(model, pair(image), heads, output, offline=offline, mirror=mirror)
        shown = _shown(data, subject, output, offline=offline, mirror=mirror)
        report = _asked(what, settings, subject, precision, shown, output)
    tell(output, report)


def tell(output: "Output", report: "Report") -> None:
    """A line for the machine, one for every row; or a table and a line beneath."""
    from patchwords.bench.table import caption, cells

    output.json({"kind": "machine", "bench": report.bench, **report.machine})
    for row in report.rows:
        output.json({"kind": "row", **asdict(row)})
    output.text(caption(report.rows))
    output.table(*cells(report.rows))
    for remark in report.notes:
        output.json({"kind": "note", "note": remark})
        output.note(remark)
    output.text(", ".join(f"{name} {_short(value)}" for name, value in report.machine.items()))


def _asked(
    what: str, settings: dict[str, Any], subject: "Subject", precision: str | None, shown: Any, output: "Output"
) -> "Report":
    """Answers or steps of a model."""
    settings["precisions"] = _words(precision) if precision else _usual(what, settings["device"])
    if what == "training":
        from patchwords.bench import training

        return training.training(subject.name, subject.model, training.Asked(**settings), output.note)
    from patchwords.bench import inference

    if what == "latency":
        settings.setdefault("hows", get_args(inference.How))  # a peer's best may be a graph
    asked = inference.Asked(**settings)
    if what == "latency":
        from patchwords.bench import latency

        return latency.latency(subject.name, subject.model, asked, shown, output.note)
    return inference.inference(subject.name, subject.model, asked, output.note)


def _loaded(
    what: str,
    settings: dict[str, Any],
    model: str,
    precision: str | None,
    kernels: str,
    compiled: bool,
    decoder: str | None,
    output: "Output",
) -> "Report":
    """From files."""
    if what == "loading":
        from patchwords.bench import loading

        settings |= {} if decoder is None else {"decoders": _words(decoder)}
        return loading.loading(loading.Asked(**settings), output.note)
    from patchwords.bench import end_to_end
    from patchwords.models.build import configure

    settings.setdefault("image", configure(model).image)
    settings |= {"model": model, "precision": _one(precision, settings["device"])}
    settings |= {"kernels": kernels, "compiled": compiled}
    settings |= {} if decoder is None else {"decoder": decoder}
    return end_to_end.end_to_end(end_to_end.Asked(**settings), output.note)


def _subject(
    model: str, image: tuple[int, int] | None, heads: int | None, output: "Output", *, offline: bool, mirror: str
) -> "Subject":
    """The model; of a mere name with values where weights begin as zeros."""
    from functools import partial

    from patchwords.bench.values import randomised
    from patchwords.weights import store
    from patchwords.weights.subject import RANDOM, open_subject

    with output.download(model) as progress:
        fetch: Callable[..., Any] = partial(store.fetch, offline=offline, mirror=mirror, progress=progress)
        subject = open_subject(model, image=image, heads=heads, fetch=fetch)
    if subject.card.source == RANDOM:
        randomised(subject.model)
    else:
        for note in subject.notes:
            output.note(note)
    return subject


def _shown(data: str, subject: "Subject", output: "Output", *, offline: bool, mirror: str) -> Any:
    from patchwords.bench.shown import shown

    return shown(data, subject.card, output.note, offline=offline, mirror=mirror) if data else None


def _refuse(what: str, given: Mapping[str, object]) -> None:
    """An option that would be ignored is refused."""
    if wrong := [option for option, value in given.items() if value is not None and option not in TAKES[what]]:
        fitting = ", ".join(name for name, options in TAKES.items() if wrong[0] in options)
        raise UsageError(f"{wrong[0]} does not apply to bench {what}, but to {fitting}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _one(precision: str | None, place: "torch.device") -> str:
    """The one that a training from files is made in."""
    if precision and "," in precision:
        raise UsageError(f"--precision {precision}: from files a training is made in one of them; give one")
    return precision or ("bf16" if place.type == "cuda" else "float32")


def _usual(what: str, place: "torch.device") -> tuple[str, ...]:
    if what != "latency":
        return ("bf16",) if place.type == "cuda" else ("float32",)
    return ("float32", "bf16", "fp8") if place.type == "cuda" else ("float32", "bf16", "int8")


def _effort(rounds: int | None, seconds: float | None) -> dict[str, Any]:
    from patchwords.bench.measure import Effort

    given: dict[str, Any] = {} if rounds is None else {"rounds": rounds}
    given |= {} if seconds is None else {"seconds": seconds}
    return {"effort": Effort(**given)} if given else {}


def _short(value: object) -> str:
    """Operations a second as people say them; else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value / 1e12:.1f} TFLOP/s" if value >= 1e12 else f"{value / 1e9:.0f} GFLOP/s"
