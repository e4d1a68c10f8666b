"""`patchwords inspect MODEL`: the paper's figures of what a model learned to see and where it looks."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from patchwords.cli.options import Device, Heads, Image, Json, Mirror, Offline, Quiet, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars
    from patchwords.data.sources.source import Data
    from patchwords.data.sources.split import Split
    from patchwords.inspection.inspect import Inspected
    from patchwords.inspection.pictures import Stock
    from patchwords.inspection.studio import Wish
    from patchwords.weights.subject import Subject

# Which options each figure heeds.
HEEDED = {
    "distance": ("pictures", "against"),
    "rollout": ("count",),
    "patch": ("count", "picture", "patch", "layer", "head"),
}


def inspect(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run folder, a weights file, published weights, or a mere name.")
    ],
    images: Annotated[
        list[str],
        typer.Option(
            metavar="DIR|FILE|DATA",
            help="Pictures to look at; may be repeated.",
            show_default="what the run held out",
        ),
    ] = [],  # noqa: B006
    only: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Of filters,positions,distance,rollout,patch.", show_default="all"),
    ] = None,
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Another model, to set its attention distance beside.")
    ] = None,
    pictures: Annotated[
        int | None, typer.Option(help="How many the distance is the mean of.", show_default="128")
    ] = None,
    count: Annotated[int | None, typer.Option(help="How many have their attention shown.", show_default="8")] = None,
    picture: Annotated[
        str | None, typer.Option(metavar="FILE|N", help="Whose patch is asked: a file, or one of those shown.")
    ] = None,
    patch: Annotated[
        str | None, typer.Option(metavar="ROW,COL", help="Which patch, from 1.", show_default="the middle")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="In which layer, from 1.", show_default="the middle")] = None,
    head: Annotated[int | None, typer.Option(help="With which head, from 1.", show_default="all")] = None,
    image: Image = None,
    heads: Heads = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write.", show_default="runs/inspect-<model>-<n>")
    ] = None,
    offline: Offline = False,
    mirror: Mirror = "",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw what a model learned to see and where it looks: PNG and JSON for each figure, and index.html with all.

    filters: principal components of the patch embedding; positions: how alike the position embeddings are;
    distance: how far each head looks; rollout: where the output comes from; patch: where one patch looks.
    """
    from patchwords.cli.output import Output
    from patchwords.cli.progress import Bars
    from patchwords.inspection.inspect import inspect as draw
    from patchwords.inspection.pictures import Stock
    from patchwords.pages.folder import fresh
    from patchwords.speed.device import choose

    asked = {"pictures": pictures, "count": count, "picture": picture, "patch": patch, "layer": layer, "head": head}
    wish = _wish(only, asked | {"against": against}, images)
    where = choose(device)
    bars = Bars(Output(as_json, quiet))
    place: dict[str, Any] = {"offline": offline, "mirror": mirror}
    try:
        subject = _subject(model, bars, image=pair(image), heads=heads, **place)
        other = _subject(against, bars, **place) if against else None
        stock = _stock(images, subject, bars, **place) if wish.pictured else Stock(source=None)
        with fresh(out, f"inspect-{subject.name}") as folder:
            done = draw(subject, stock, folder, bars, wish=wish, against=other, device=where)
    finally:
        bars.close()
    _tell(bars.output, done)


def _wish(only: str | None, asked: dict[str, Any], images: list[str]) -> "Wish":
    """What the options ask for; one that no chosen figure heeds is refused."""
    from patchwords.inspection.exhibits.patch import Query
    from patchwords.inspection.studio import NAMES, Wish

    names = NAMES if only is None else tuple(word.strip() for word in only.split(","))
    given = {key: value for key, value in asked.items() if value is not None}
    heeded = {option for name in names for option in HEEDED.get(name, ())}
    wrong = [option for option in given if option not in heeded]
    numbers = {key: given[key] for key in ("pictures", "count", "picture") if key in given}
    query = Query(layer=asked["layer"], head=asked["head"], place=_place(asked["patch"]))
    wish = Wish(only=names, query=query, **numbers)
    if images and not wish.pictured:
        wrong.append("images")
    if wrong:
        raise UsageError(f"--{wrong[0]} changes nothing in {', '.join(names)}: leave it out, or change --only")
    return wish


def _place(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+),(\d+)", text, re.ASCII)
    if not match:
        raise UsageError(f"--patch {text!r} is no place: write its row and column, counted from 1, as 7,7")
    return int(match[1]), int(match[2])


def _subject(given: str, bars: "Bars", *, offline: bool, mirror: str, **options: Any) -> "Subject":
    from functools import partial

    from patchwords.weights import store
    from patchwords.weights.subject import open_subject

    with bars.output.download(given) as progress:
        fetch = partial(store.fetch, offline=offline, mirror=mirror, progress=progress)
        subject = open_subject(given, fetch=fetch, **options)
    for note in subject.notes:
        bars.note(note)
    return subject


def _stock(images: list[str], subject: "Subject", bars: "Bars", *, offline: bool, mirror: str) -> "Stock":
    """The pictures that were named, or those of the model's run."""
    from patchwords.data.sources.door import open_pictures
    from patchwords.inspection.pictures import named, own

    with bars.output.download("pictures") as progress:

        def opening(given: str, split: "Split | None") -> "Data":
            return open_pictures(given, split=split, offline=offline, mirror=mirror, progress=progress)

        stock = named(images, opening) if images else own(subject.origin, opening)
    for note in stock.notes:
        bars.note(note)
    return stock


def _tell(output: "Output", done: "Inspected") -> None:
    for name, (png, numbers) in done.figures.items():
        output.json({"kind": "figure", "name": name, "png": str(png), "json": str(numbers)})
    output.json({"kind": "result", "page": str(done.page), "missing": done.missing})
    for name, words in done.missing.items():
        output.text(f"no {name}: {words}")
    output.text(f"{', '.join(done.figures) or 'no figure'}: look at {done.page}")
