"""The head of a model card, which the Hub reads: licence, library, task, what it was made from, and how good it is."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from patchwords.export.training import Training
from patchwords.weights.card import Card
from patchwords.weights.subject import Subject
from patchwords.weights.zoo import ZOO

HUB = "https://huggingface.co/"
LICENCES = (  # as the Hub writes those that it knows
    *("apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "unlicense", "mpl-2.0", "isc"),
    *("gpl-3.0", "lgpl-3.0", "agpl-3.0"),
    *(f"cc-by{kind}-4.0" for kind in ("", "-sa", "-nc", "-nc-sa", "-nd", "-nc-nd")),
)

Library = Literal["transformers", "patchwords"]


@dataclass(frozen=True)
class Told:
    """What a card is made of; `address` is OWNER/NAME, or a folder's name."""

    subject: Subject
    library: Library
    address: str
    training: Training | None

    @property
    def card(self) -> Card:
        return self.subject.card

    @property
    def task(self) -> str:
        return "image-classification" if self.card.model.classes else "image-feature-extraction"


def front_matter(told: Told) -> str:
    """YAML, of which JSON is a part: so every text is quoted as JSON quotes it."""
    table: dict[str, Any] = {}
    if told.card.licence:
        known = told.card.licence.lower() in LICENCES
        table |= {"license": told.card.licence.lower() if known else "other"}
        table |= {} if known else {"license_name": told.card.licence}
    table |= {"library_name": told.library, "pipeline_tag": told.task}
    table["tags"] = ["patchwords", "vision", told.card.model.kind, *_base(told).get("tags", ())]
    table |= {key: value for key, value in _base(told).items() if key != "tags"}
    if told.training and told.training.scores:
        table["model-index"] = [_index(told, told.training)]
    return "\n".join(["---", *(f"{key}: {json.dumps(value)}" for key, value in table.items()), "---"])


def _base(told: Told) -> dict[str, Any]:
    """The published weights that it was fine-tuned from, where the Hub has them."""
    entry = ZOO.get(told.training.weights) if told.training else None
    address = entry.address.removeprefix(HUB) if entry else ""
    if not entry or address == entry.address:
        return {}
    return {"base_model": address.partition("/resolve/")[0], "tags": ["finetune"]}


def _index(told: Told, training: Training) -> dict[str, Any]:
    results = [
        {
            "task": {"type": told.task},
            "dataset": {"name": training.data, "type": training.data, "split": split},
            "metrics": [{"type": "accuracy", "value": scores["accuracy"]}],
        }
        for split, scores in training.scores.items()
    ]
    return {"name": told.subject.name, "results": results}
