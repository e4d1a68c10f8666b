"""A weights file without loading it whole, published weights, and the list of those."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.cli.output import Output, count
from patchwords.cli.shown.models import numbers, show_layers
from patchwords.models.cost import cost
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.store import location
from patchwords.weights.zoo import ENTRIES, ZOO


def show_zoo(output: Output) -> None:
    for entry in ENTRIES:
        output.json(_public(entry.name))
    rows = [(entry.name, entry.model, str(entry.classes), f"{entry.mebibytes} MiB", entry.licence) for entry in ENTRIES]
    output.table(("name", "model", "classes", "size", "licence"), rows)


def show_entry(output: Output, name: str) -> None:
    table = _public(name)
    output.json(table)
    for key in ("name", "model", "classes", "address", "mebibytes", "sha256", "licence", "source", "cached"):
        output.text(f"  {key:<10} {table[key]}")


def _public(name: str) -> dict[str, Any]:
    place = location(ZOO[name])
    return asdict(ZOO[name]) | {"cached": str(place) if place.exists() else ""}


def show_file(output: Output, path: Path, heads: int | None, image: tuple[int, int] | None) -> None:
    checkpoint = open_checkpoint(path, heads=heads, image=image, depth="shapes")
    costs = cost(checkpoint.card.model)
    kinds = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in checkpoint.state.values()})
    for note in checkpoint.notes:
        output.note(note)
    output.json(
        {"name": str(path), "format": checkpoint.format, "kinds": kinds, "card": settings.write(checkpoint.card)}
        | {"tensors": len(checkpoint.state), "notes": checkpoint.notes}
        | numbers(costs)
    )
    output.text(f"{path}: {checkpoint.format}, {count(costs.parameters)} parameters in {', '.join(kinds)}")
    _show_card(output, checkpoint.card)
    output.text("")
    show_layers(output, costs)


def _show_card(output: Output, card: Card) -> None:
    model = card.model
    output.text(f"  pictures   {model.channels} channels of {model.image[0]}x{model.image[1]}, {card.preprocess.fit}")
    output.text(f"  mean       {list(card.preprocess.mean)}, deviation {list(card.preprocess.deviation)}")
    output.text(f"  classes    {model.classes} {', '.join(card.classes[:8])}{' …' if len(card.classes) > 8 else ''}")
    for key, value in (("source", card.source), ("licence", card.licence)):
        if value:
            output.text(f"  {key:<10} {value}")
