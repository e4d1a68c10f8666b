"""Figures 6 and 14: where a model looks in pictures, or where the evidence for its answer lies."""

from collections.abc import Callable, Sequence
from typing import Any

from patchwords.inspection.exhibits.exhibit import Exhibit, refuse_non_finite
from patchwords.inspection.figures import maps as figure
from patchwords.inspection.figures.canvas import Numbers
from patchwords.inspection.overlay import mask, overlay
from patchwords.inspection.pictures import Shot
from patchwords.inspection.sight import sight
from patchwords.inspection.viewer import Verdict, Viewer
from patchwords.inspection.words import NO_EVIDENCE
from patchwords.pages.wording import percent

TITLES = {
    "rollout": ("Where the model looks", "left: the input; right: the same in the light of attention", "attention"),
    "evidence": ("What speaks for the answer", "left: the input; right: the same in the light of evidence", "evidence"),
}


def rollout(viewer: Viewer, shots: Sequence[Shot], progress: Callable[[int, int], None]) -> Exhibit:
    """One picture at a time, since large ones fill the memory."""
    found, kind = [], "rollout"
    for number, shot in enumerate(shots, start=1):
        sees = sight(viewer.model, viewer.inputs(shot.image[None]))
        refuse_non_finite(sees.maps, f"attention weights of {viewer.subject.name}")
        found.append(sees.maps[0])
        kind = sees.kind
        progress(number, len(shots))
    verdicts = viewer.verdicts(shots)
    heading, below, what = TITLES[kind]
    seen = [_seen(*each) for each in zip(shots, found, verdicts, strict=True)]
    return Exhibit(
        words=kind,
        png=figure.maps(seen, heading=heading, below=below, scale=f"{what} (0 least, 1 most)"),
        numbers={
            "of": kind,
            "image": list(viewer.size),
            "pictures": [_written(*each) for each in zip(shots, found, verdicts, strict=True)],
        },
        remarks=() if all(map.any() for map in found) else (NO_EVIDENCE,),
    )


def _seen(shot: Shot, map: Numbers, verdict: Verdict | None) -> figure.Seen:
    pixels = shot.pixels
    said = f"{verdict.name}, {percent(verdict.probability)}" if verdict else ""
    return figure.Seen(
        pixels=pixels, overlay=overlay(pixels, mask(map, pixels.shape[:2])), name=shot.name, verdict=said
    )


def _written(shot: Shot, map: Numbers, verdict: Verdict | None) -> dict[str, Any]:
    said = {"predicted": verdict.name, "class": verdict.number, "probability": verdict.probability} if verdict else {}
    return {"name": shot.name, **said, "map": map.tolist()}
