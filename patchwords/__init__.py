"""patchwords, the Vision Transformer system. Importing it loads no torch: each name loads its room when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patchwords.evaluation.evaluate import evaluate as evaluate
    from patchwords.models.build import build as build
    from patchwords.serve.predictor import Predictor as Predictor
    from patchwords.studies.study import study as study
    from patchwords.training.train import train as train
    from patchwords.weights.load import load as load
    from patchwords.weights.load import save as save

__version__ = "0.1.0"

_HOMES = {
    "build": "patchwords.models.build",
    "evaluate": "patchwords.evaluation.evaluate",
    "load": "patchwords.weights.load",
    "Predictor": "patchwords.serve.predictor",
    "save": "patchwords.weights.load",
    "study": "patchwords.studies.study",
    "train": "patchwords.training.train",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'patchwords' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "__version__"])
