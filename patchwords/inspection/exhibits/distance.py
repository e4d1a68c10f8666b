"""Figure 7, right, and Figure 11: how far each head looks, in one model or in two beside each other."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from patchwords.inspection.distance import Distances, attention_distance
from patchwords.inspection.exhibits.exhibit import Exhibit, refuse_non_finite
from patchwords.inspection.figures import distance as figure
from patchwords.inspection.viewer import Viewer
from patchwords.inspection.words import fewer, means, other_sizes
from patchwords.pages.both import Both
from patchwords.pages.wording import plural


def distance(viewers: Sequence[Viewer], pictures: int, progress: Callable[[int, int], None]) -> Exhibit:
    """The mean over the same pictures for each; `progress` hears how many of all are done."""
    found: list[Distances] = []
    for number, viewer in enumerate(viewers):
        found.append(_measured(viewer, pictures, number * pictures, len(viewers) * pictures, progress))
    reaches = [
        figure.Reach(name=viewer.subject.name, pixels=each.pixels, even=each.uniform)
        for viewer, each in zip(viewers, found, strict=True)
    ]
    sizes = dict.fromkeys(_size(viewer) for viewer in viewers)
    below = f"mean over {plural(found[0].pictures, 'picture')} of {' and '.join(sizes)} pixels"
    numbers: dict[str, Any] = {"models": [_written(*pair) for pair in zip(viewers, found, strict=True)]}
    if len(found) == 2:
        numbers["difference"] = difference(*found)
    return Exhibit(
        words="distance",
        png=figure.distance(reaches, heading="How far each head looks", below=below),
        numbers=numbers,
        remarks=tuple(_remarks(viewers, found, pictures)),
    )


def _measured(
    viewer: Viewer, pictures: int, before: int, total: int, progress: Callable[[int, int], None]
) -> Distances:
    found = attention_distance(
        viewer.model, viewer.batches(pictures), progress=lambda done: progress(before + done, total)
    )
    refuse_non_finite(found.pixels, f"attention weights of {viewer.subject.name}")
    return found


def _written(viewer: Viewer, found: Distances) -> dict[str, Any]:
    return {
        "model": viewer.subject.name,
        "pixels": found.pixels.tolist(),
        "mean": found.pixels.mean(1).tolist(),
        "uniform": found.uniform,
        "pictures": found.pictures,
        "image": list(viewer.size),
        "grid": list(found.grid),
        "patch": list(found.cell),
    }


def difference(first: Distances, second: Distances) -> dict[str, Any]:
    """The second less the first, in pixels: of all heads, and of each layer where both have as many."""
    layers: dict[str, Any] = {}
    if len(first.pixels) == len(second.pixels):
        layers["by_layer"] = (second.pixels.mean(1) - first.pixels.mean(1)).tolist()
    return {"mean": float(second.pixels.mean() - first.pixels.mean()), **layers}


def _remarks(viewers: Sequence[Viewer], found: Sequence[Distances], pictures: int) -> Iterator[Both]:
    """Whether there were too few pictures; how far the second looks beyond the first, and in which pixels."""
    if found[0].pictures < pictures:
        yield fewer(found[0].pictures, pictures)
    if len(found) == 2:
        first, second = (viewer.subject.name for viewer in viewers)
        yield means(first, second, (float(found[0].pixels.mean()), float(found[1].pixels.mean())))
        if viewers[0].size != viewers[1].size:
            yield other_sizes(_size(viewers[0]), _size(viewers[1]))


def _size(viewer: Viewer) -> str:
    return f"{viewer.size[0]}×{viewer.size[1]}"
