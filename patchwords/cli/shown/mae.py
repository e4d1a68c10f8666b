"""Pictures, what a masked autoencoder is shown of them, and what it makes of that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchwords import settings
from patchwords.cli.output import Output
from patchwords.cli.shown.page import check_page, write_page
from patchwords.data.loader import Prepare
from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.data.sheet import visible
from patchwords.data.sources.source import Pixels, Source
from patchwords.data.transforms import normalise
from patchwords.errors import DataError, UsageError
from patchwords.inspection.figures.reconstructions import Restored, reconstructions
from patchwords.inspection.pictures import Shot
from patchwords.objectives.mae import MaskedAutoencoder
from patchwords.pages.wording import plural
from patchwords.serve.given import read
from patchwords.weights.autoencoder import open_autoencoder

MOST = 100  # pictures of a page
TOGETHER = 16  # pictures at a time
AWAY = (176, 196, 222)  # the colour of a patch that was taken away, which grey pictures do not have
BELOW = {
    "patch": "each patch has its own mean and deviation back",  # which the model does not predict
    "none": "pixels are predicted as they are",
}


@dataclass(frozen=True)
class Painter:
    """Pictures through an autoencoder; the seed and a picture's place in the list decide what is taken away."""

    objective: MaskedAutoencoder
    preprocess: Preprocess
    seed: int

    @property
    def numbers(self) -> dict[str, Any]:
        """What decides how a page looks."""
        objective = self.objective
        return {
            "size": list(self.preprocess.size),
            "seed": self.seed,
            "normalise": objective.settings.normalise,
            "patches": objective.patches,
            "kept": objective.kept,
        }

    @torch.inference_mode()
    def __call__(self, images: Pixels, places: Indices) -> Iterator[list[Pixels]]:
        """uint8 (n, channels, height, width): a picture, where it is hidden (not 0), and what was made of the rest."""
        objective, shown = self.objective, torch.from_numpy(images)
        x = normalise(shown, self.preprocess)
        noise = torch.from_numpy(objective.drawn(self.seed, np.zeros_like(places), places)["noise"])
        prediction, mask, _ = objective.reconstruct({"image": x, "noise": noise})
        painted = torch.from_numpy(visible(objective.paint(x, prediction), self.preprocess))
        rows, cols = objective.model.config.grid
        tall, wide = objective.cell
        hidden = mask.bool().reshape(-1, 1, rows, cols).repeat_interleave(tall, 2).repeat_interleave(wide, 3)
        made = torch.where(hidden, painted, shown)
        yield from map(list, zip(images, hidden.to(torch.uint8).numpy(), made.numpy(), strict=True))


def show_mae(
    output: Output, words: Sequence[str], out: Path, changes: settings.Table, *, seed: int, heads: int | None
) -> None:
    """Writes the page."""
    if len(words) < 2:
        raise UsageError("say which autoencoder and which pictures: patchwords show mae runs/photos-1 photo.jpg")
    check_page(out)
    given, source = words[0], _pictures(output, words[1:])
    autoencoder = open_autoencoder(given, heads=heads, change=changes)
    for note in autoencoder.checkpoint.notes:
        output.note(note)
    painter = Painter(autoencoder.build(), autoencoder.checkpoint.card.preprocess, seed)
    rows = list(_rows(output, painter, source))
    if not rows:
        raise DataError(f"{', '.join(words[1:])}: no picture can be read; give files, folders or patterns of some")
    numbers, name = painter.numbers, Path(given).resolve().name
    seen = f"{numbers['kept']} of {numbers['patches']} patches"
    below = f"{BELOW[numbers['normalise']]}; seed {seed}"
    write_page(out, reconstructions(rows, heading=f"{seen} are seen", below=below))
    output.json({"name": given, "page": str(out), **numbers, "pictures": [row.name for row in rows]})
    output.text(f"{out}: {plural(len(rows), 'picture')}, of which {name} was shown {seen}")


def _pictures(output: Output, words: Sequence[str]) -> Source:
    given = read(words, _no_stdin)
    for damage in given.damages:
        output.note(f"{damage.name} is left out: {damage.reason}")
    if len(given.source) > MOST:
        output.note(f"a page holds {MOST} pictures: the other {len(given.source) - MOST} are left out")
    return given.source


def _no_stdin() -> bytes:
    raise UsageError("a page is not made of what is piped in: name files, folders or patterns")


def _rows(output: Output, painter: Painter, source: Source) -> Iterator[Restored]:
    prepare = Prepare(source, painter.preprocess, painter.objective.model.config.channels)
    for start in range(0, min(len(source), MOST), TOGETHER):
        some = prepare(np.arange(start, min(start + TOGETHER, len(source), MOST)))
        for damage in some.damages:
            output.note(f"{damage.name} cannot be read ({damage.reason}); it is left out")
        if not len(some.images):
            continue
        for index, looks in zip(some.indices, painter(some.images, some.indices), strict=True):
            name = source.name(int(index))
            picture, hidden, made = (Shot(name=name, image=look).pixels for look in looks)
            left = np.where(hidden > 0, np.array(AWAY, dtype=np.uint8), picture)
            yield Restored(original=picture, masked=left, reconstructed=made, name=name)
