"""The page as one file for one picture, to send to somebody: nothing in it asks a network."""

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Literal

from patchwords.data.sources.source import Pixels
from patchwords.serve.examine import attentions, described, examine, packed, positions, table
from patchwords.serve.page.assets import INDEX, STYLE, text
from patchwords.serve.prediction import Prediction
from patchwords.serve.predictor import Predictor
from patchwords.weights.files import writing

MODULES = (
    "words.js",
    "matrix.js",
    "paint.js",
    "plot.js",
    "pointing.js",
    "exhibit.js",
    "kept.js",
)  # later ones use earlier
MOST_BYTES = 8 << 20  # of attention: every head of ViT-B/16 at 224, or the means of ViT-L/16 at 384
NAMED = '<p class="called"><bdi id="called"></bdi></p>'

Kept = Literal["heads", "means", "nothing"]


def write_page(predictor: Predictor, prediction: Prediction, path: Path, top: int) -> None:
    """The page of a prediction that has its pixels."""
    data = single(predictor, prediction, top).encode()
    with writing(path, len(data)) as aside:
        aside.write_bytes(data)


def single(predictor: Predictor, prediction: Prediction, top: int) -> str:
    """Its HTML: the page of the service without what takes pictures in, its files and all answers inlined."""
    assert prediction.pixels is not None, "the page shows what the model saw"
    known = contents(predictor, prediction.pixels.transpose(2, 0, 1), prediction.name, top)
    style, script = text(STYLE), joined()
    page = re.sub(r"<!-- live -->.*?<!-- /live -->", lambda _: NAMED, text(INDEX), flags=re.DOTALL)
    for given, instead in {
        '<link rel="stylesheet" href="page/page.css">': f"<style>{style}</style>",
        '<script type="module" src="page/page.js"></script>': f'<script type="module">{script}</script>',
        '<meta charset="utf-8">': f'<meta charset="utf-8">\n{_policy(style, script)}',
        "<body>": f'<body class="kept">\n<script type="application/json" id="kept">{_embedded(known)}</script>',
        'data-word="private"': 'data-word="privateKept"',
    }.items():
        assert page.count(given) == 1, f"index.html has {given} once"
        page = page.replace(given, instead)
    return page


def contents(predictor: Predictor, seen: Pixels, name: str, top: int) -> dict[str, Any]:
    """All that the page can be asked about a prepared picture (channels, height, width), as its script reads it."""
    model = described(predictor)
    kept = _kept(model)
    found = attentions(predictor, seen, kept) if kept != "nothing" else ()
    alike = positions(predictor) if model["at_once"] else None
    return {
        "name": Path(name).name or name,  # whoever gets the page need not know where the picture lay
        "model": {key: value for key, value in model.items() if key != "labels"},
        "found": table(examine(predictor, seen, name), top),
        "kept": kept,
        "attention": [[packed(head) for head in layer] for layer in found],
        "positions": None if alike is None else packed(alike),
    }


def joined() -> str:
    """The script as one module: its parts in their order, which then need not import one another."""
    return "\n".join(re.sub(r"^(import .*;\n|export )", "", text(name), flags=re.MULTILINE) for name in MODULES)


def _kept(model: dict[str, Any]) -> Kept:
    """How much of the attention fits: every head, the mean over them in each layer, or nothing."""
    if not model["layers"] or not model["at_once"]:
        return "nothing"
    rows, cols = model["grid"]
    layer = (rows * cols) ** 2
    if sum(model["heads"]) * layer <= MOST_BYTES:
        return "heads"
    return "means" if model["layers"] * layer <= MOST_BYTES else "nothing"


def _policy(style: str, script: str) -> str:
    """Lets this style and this script run, and nothing else in."""
    hashes = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (style, script))
    allowed = "style-src 'sha256-{}'; script-src 'sha256-{}'".format(*hashes)
    policy = f"default-src 'none'; img-src data:; {allowed}; base-uri 'none'; form-action 'none'"
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _embedded(value: dict[str, Any]) -> str:
    """JSON that no name in it can end or turn into markup."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", r"\u003c")
