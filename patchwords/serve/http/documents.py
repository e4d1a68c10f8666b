"""What people look at: the page, its files, and the routes as a page of their own; nothing of it lies anywhere else."""

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources

from starlette.responses import Response

from patchwords import __version__
from patchwords.pages.markup import Markup, element
from patchwords.pages.parts import facts, scroll
from patchwords.serve.http.door import Asked, Door
from patchwords.serve.http.parameter import Parameter
from patchwords.serve.http.refusal import Refused
from patchwords.serve.http.service import Service
from patchwords.serve.page.assets import Asset, assets, index

HTML, CSS = "text/html; charset=utf-8", "text/css; charset=utf-8"
TITLE = "patchwords: routes"
CURL = "curl --data-binary @picture.jpg '{}'"


async def page(service: Service, asked: Asked) -> Response:
    return _given(index())


async def file(service: Service, asked: Asked) -> Response:
    """From a table of names: no name leads to a file of the disk."""
    name = asked.values["file"]
    if name not in assets():
        raise Refused(404, f"the page has no file {name[:80]!r}")
    return _given(assets()[name])


async def docs_style(service: Service, asked: Asked) -> Response:
    return _given(Asset(CSS, _style()))


def docs(doors: Sequence[Door]) -> Response:
    """A section a route, written from the table of them."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", TITLE),
        Markup('<link rel="stylesheet" href="docs.css"><link rel="icon" href="data:,">'),
    )
    top = element(
        "header",
        element("h1", "Routes"),
        element(
            "p",
            f"patchwords {__version__}. For programs: ",
            element("a", "openapi.json", href="openapi.json"),
            "; for people: ",
            element("a", "the page", href="./"),
            ".",
        ),
    )
    body = element("body", top, element("main", *map(_section, doors)))
    return _given(Asset(HTML, f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n".encode()))


def _section(door: Door) -> Markup:
    parts = [element("h2", f"{door.method} {door.path}"), element("p", door.says)]
    if door.body != "none":
        parts.append(element("pre", element("code", CURL.format(_example(door)))))
    if door.takes:
        parts.append(facts((each.name, f"{each.says} {_otherwise(each)}") for each in door.takes))
    if door.gives is not None:
        text = json.dumps(_shape(dict(door.gives)), indent=1, ensure_ascii=False)
        parts.append(element("p", "The answer is JSON of this shape:", class_="note"))
        parts.append(scroll(element("pre", element("code", text)), says="the shape of the answer"))
    return element("section", *parts)


def _example(door: Door) -> str:
    needed = "&".join(f"{each.name}=1" for each in door.takes if each.needed)
    return f"http://127.0.0.1:8000{door.path}{'?' if needed else ''}{needed}"


def _otherwise(parameter: Parameter) -> str:
    if parameter.needed:
        return "Needed."
    return "" if parameter.otherwise is None else f"{parameter.otherwise} if left out."


def _shape(schema: dict[str, object]) -> object:
    """A schema as an example of what it allows, with kinds for values."""
    match schema:
        case {"anyOf": [first, *_]}:
            return _shape(first)  # type: ignore[arg-type]
        case {"type": "array", "items": items}:
            return [_shape(items)]  # type: ignore[arg-type]
        case {"properties": dict(parts)}:
            return {name: _shape(part) for name, part in parts.items()}
        case {"additionalProperties": dict(part)}:
            return {"…": _shape(part)}
    return schema["type"]


@cache
def _style() -> bytes:
    return resources.files("patchwords.pages").joinpath("page.css").read_bytes()


def _given(asset: Asset) -> Response:
    return Response(asset.data, headers={"Content-Type": asset.kind})
