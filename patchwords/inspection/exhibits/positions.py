"""Figure 7, centre: how alike the position embeddings are."""

from dataclasses import asdict
from typing import Any

from patchwords.inspection.exhibits.exhibit import Exhibit, refuse_non_finite
from patchwords.inspection.figures import positions as figure
from patchwords.inspection.positions import similarity, structure
from patchwords.inspection.viewer import Viewer
from patchwords.inspection.words import near_and_far

LISTED = 256  # patches whose similarities are all written down


def positions(viewer: Viewer) -> Exhibit:
    table = viewer.model.positions().cpu().double()  # there: not all devices know double precision
    refuse_non_finite(table.numpy(), "position embeddings")
    alike = similarity(table)
    rows, cols = alike.shape[:2]
    found = structure(alike)
    numbers: dict[str, Any] = {"grid": [rows, cols], **asdict(found)}
    if rows * cols <= LISTED:
        numbers["similarity"] = alike.numpy().round(6).tolist()
    remarks = () if found.near is None or found.far is None else (near_and_far(found.near, found.far),)
    return Exhibit(words="positions", png=figure.positions(alike.numpy()), numbers=numbers, remarks=remarks)
