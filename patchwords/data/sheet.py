"""A page of pictures: what evaluation sees of some, beside what training will see of them."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from patchwords.data.broken import Damage
from patchwords.data.finish import Finish
from patchwords.data.loader import Cut, Pictures, Prepare
from patchwords.data.mix import Mix, mix
from patchwords.data.order import Order
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.source import Pixels
from patchwords.errors import DataError

ROWS, VIEWS, MIXED = 8, 7, 3  # pictures; times each is shown; how many of those are mixed, where the recipe mixes
TRIES = 1000  # steps among which mixed ones are looked for
ENLARGED, REDUCED = 128, 256  # smaller pictures are enlarged in whole steps up to this side, larger ones reduced to it
GAP, LINE, TITLE = 8, 15, 24  # pixels
PAPER, INK, FAINT = (255, 255, 255), (20, 20, 20), (110, 110, 110)


class Column(NamedTuple):
    """One look at every picture of the page, uint8 (rows, channels, height, width), and the lines beneath each."""

    heading: str
    images: Pixels
    captions: list[list[str]]


@dataclass(frozen=True)
class Seen:
    """The names of the pictures, the looks at them, and what could not be read on the way."""

    names: list[str]
    columns: list[Column]
    damages: list[Damage]


def look(cut: Cut, finish: Finish, classes: Sequence[str]) -> Seen:
    """The first pictures of the first pass, as evaluation sees them and then view by view as training does."""
    whole, damages = _first(cut)
    plain = [[_called(classes, int(label))] for label in whole.labels]
    columns = [Column("evaluation", whole.images, plain)]
    views = max(1, VIEWS // sum(part.crops for part in cut.glimpses.parts(cut.crop, cut.preprocess.size)))
    steps = dict(zip(reversed(range(views)), _mixing(finish), strict=False))  # the last views are mixed
    for view in range(views):
        step, kind = steps.get(view, (view, ""))
        chosen = finish if kind else replace(finish, mix=Mix())
        columns += _view(cut, chosen, whole, view, step, f"view {view}{kind and f', {kind}'}", classes)
    return Seen([cut.source.name(int(index)) for index in whole.indices], columns, damages)


def _first(cut: Cut) -> tuple[Pictures, list[Damage]]:
    """The first pictures in the order of training that can be read."""
    prepare, samples = Prepare(cut.source, cut.preprocess, cut.channels), len(cut.source)
    order, damages = Order(cut.seed, samples), []
    kept: list[int] = []
    for place in range(samples):
        indices, _ = order.take(place, place + 1)
        found = prepare(indices)
        damages += found.damages
        kept += found.indices.tolist()
        if len(kept) == ROWS:
            break
    if not kept:
        raise DataError(f"none of the {samples} pictures can be read: {damages[0].name} ({damages[0].reason})")
    return prepare(np.array(kept, dtype=np.int64)), damages


def _mixing(finish: Finish) -> list[tuple[int, str]]:
    """Some steps of the training that mix, in turn by each way that there is; none where none of many does."""
    ways = [way for way, number in (("Mixup", finish.mix.mixup), ("CutMix", finish.mix.cutmix)) if number]
    found: list[tuple[int, str]] = []
    for step in range(TRIES if ways else 0):
        if len(found) < MIXED and _way(finish, step) == ways[len(found) % len(ways)]:
            found.append((step, ways[len(found) % len(ways)]))
    return found


def _way(finish: Finish, step: int) -> str:
    """How a step mixes, seen on a black and a white picture: Mixup alone makes grey of them."""
    pair = torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1).expand(2, 1, *finish.preprocess.size)
    mixed, _ = mix(pair, torch.eye(2), finish.mix, seed=finish.seed, step=step, progress=0.0)
    if torch.equal(mixed, pair):
        return ""
    return "CutMix" if torch.equal(mixed, mixed.round()) else "Mixup"


def _view(
    cut: Cut, finish: Finish, whole: Pictures, view: int, step: int, heading: str, classes: Sequence[str]
) -> Iterator[Column]:
    """The pictures as the batch of one step of the training; each of several crops in a column of its own."""
    views = np.full_like(whole.indices, view)
    shown = cut((whole.indices, views))
    batch = finish(
        torch.from_numpy(shown.images),
        torch.from_numpy(shown.labels),
        indices=shown.indices,
        views=views,
        step=step,
        progress=0.0,
        further={name: torch.from_numpy(crops) for name, crops in shown.further.items()},
    )
    captions = [list(_shares(row, classes)) for row in batch["target"].tolist()]
    if not finish.glimpses.gives:
        yield Column(heading, visible(batch["image"], finish.preprocess), captions)
    for part in finish.glimpses.gives:
        for number, crops in enumerate(batch[part].unbind(1), start=1):
            yield Column(f"{heading}, {part} {number}", visible(crops, finish.preprocess), captions)


def visible(images: torch.Tensor, preprocess: Preprocess) -> Pixels:
    """The model's input as pixels again; what lies beyond black and white, such as noise, is cut off."""
    mean, deviation = (torch.tensor(numbers)[:, None, None] for numbers in (preprocess.mean, preprocess.deviation))
    pixels: Pixels = (255 * (images * deviation + mean)).round().clamp(0, 255).to(torch.uint8).numpy()
    return pixels


def _shares(target: Sequence[float], classes: Sequence[str]) -> Iterator[str]:
    """The classes that a picture is said to be, the larger share first."""
    held = sorted((label for label, share in enumerate(target) if share > 0), key=lambda label: -target[label])
    for label in held:
        yield f"{100 * target[label]:.0f} % {_called(classes, label)}" if len(held) > 1 else _called(classes, label)


def _called(classes: Sequence[str], label: int) -> str:
    """A class by name, or by number where the font has no letters for the name."""
    name = classes[label]
    return name if name.isprintable() and _has_letters(name) else f"class {label}"


def _has_letters(text: str) -> bool:
    return all(ord(letter) < 256 for letter in text)


def draw(seen: Seen, title: str) -> bytes:
    """The page as a PNG."""
    font = ImageFont.load_default()
    whole = max(seen.columns[0].images.shape[2:])
    cells = [[_picture(image, whole) for image in column.images] for column in seen.columns]
    height = cells[0][0].height
    lines = max(len(caption) for column in seen.columns for caption in column.captions)
    across, down = [max(column[0].width, 6 * LINE) + GAP for column in cells], height + lines * LINE + GAP
    page = Image.new("RGB", (GAP + sum(across), GAP + TITLE + LINE + down * len(cells[0])), PAPER)
    pen = ImageDraw.Draw(page)
    pen.text((GAP, GAP), "".join(letter if ord(letter) < 256 else "?" for letter in title), INK, font)
    for number, column in enumerate(seen.columns):
        left, top = GAP + sum(across[:number]), GAP + TITLE
        pen.text((left, top), column.heading, FAINT, font)
        for cell, caption in zip(cells[number], column.captions, strict=True):
            page.paste(cell, (left, top + LINE))
            for line, text in enumerate(caption):
                pen.text((left, top + LINE + height + line * LINE), _short(pen, text, across[number] - GAP), INK, font)
            top += down
    return _encoded(page)


def _picture(image: Pixels, whole: int) -> Image.Image:
    """One cell: grey, or the first three channels; tiny ones with their pixels as squares.

    All are drawn at the scale at which those with sides up to `whole` fit.
    """
    channels, height, width = image.shape
    planes = image[:1].repeat(3, axis=0) if channels < 3 else image[:3]
    picture = Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)))
    times = ENLARGED // whole
    if times > 1:
        return picture.resize((width * times, height * times), Image.Resampling.NEAREST)
    most = max(1, REDUCED * max(height, width) // max(REDUCED, whole))
    picture.thumbnail((most, most), Image.Resampling.LANCZOS)
    return picture


def _short(pen: ImageDraw.ImageDraw, text: str, width: float) -> str:
    """As much of a caption as its picture is wide."""
    if pen.textlength(text) <= width:
        return text
    while text and pen.textlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text}..."


def _encoded(page: Image.Image) -> bytes:
    data = io.BytesIO()
    page.save(data, "PNG")
    return data.getvalue()
