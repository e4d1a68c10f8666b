"""`patchwords show NAME`: a model, a weights file, or the lists of both."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchwords.cli.options import Heads, Image, Json, Quiet, Set, pair
from patchwords.errors import UsageError

if TYPE_CHECKING:
    from patchwords.cli.output import Output
    from patchwords.models.cost import Cost
    from patchwords.models.names import Config


def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A model (ViT-B/16@384), weights, `models` or `zoo`."),
    ],
    classes: Annotated[int | None, typer.Option(help="Number of classes; 0 for no head.")] = None,
    channels: Annotated[int | None, typer.Option(help="Channels of the pictures.")] = None,
    image: Image = None,
    heads: Heads = None,
    setting: Set = [],  # noqa: B006
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show a model, a weights file, or lists of both.

    Of a model: parameters, multiply-adds, memory, layers. Of a file: what it holds, without loading it whole.
    --set changes a part of a model: pool.kind=mean special=[] position.kind=sincos-2d head.kind=mlp width=384 …
    """
    from patchwords import settings
    from patchwords.cli.output import Output
    from patchwords.models import names
    from patchwords.models.build import configure
    from patchwords.settings import nearest
    from patchwords.weights.zoo import ZOO

    output = Output(as_json, quiet)
    given = {"--classes": classes, "--channels": channels, "--image": image, "--heads": heads, "--set": setting or None}
    if name in ("models", "zoo"):
        _refuse(given, "a list")
        (_models if name == "models" else _zoo)(output)
    elif name and Path(name).exists():
        _refuse(given, "a file, which says it itself", allowed=("--image", "--heads"))
        _file(output, Path(name), heads, pair(image))
    elif name in ZOO:
        _refuse(given, "published weights")
        _entry(output, name)
    elif not names.GRAMMAR.fullmatch(name):
        near = nearest(name, [*names.NAMES, *ZOO])
        lists = "`patchwords show models` and `patchwords show zoo` list them"
        advice = near if near.startswith("did you mean") else lists
        raise UsageError(f"{name!r} does not exist, as a file, a model or published weights; {advice}")
    else:
        _refuse(given, "a model; write --set heads=…", allowed=("--classes", "--channels", "--image", "--set"))
        config = configure(name, classes=classes, channels=channels, image=pair(image))
        _model(output, name, settings.change(config, settings.assignments(setting)))


def _refuse(given: Mapping[str, object], what: str, allowed: tuple[str, ...] = ()) -> None:
    """An option that would be ignored is refused."""
    if wrong := [option for option, value in given.items() if value is not None and option not in allowed]:
        raise UsageError(f"{wrong[0]} does not apply to {what}")


def _model(output: "Output", name: str, config: "Config") -> None:
    from patchwords import settings
    from patchwords.cli.output import count, size
    from patchwords.models.cost import cost

    costs = cost(config)
    output.json({"name": name} | _numbers(costs) | {"config": settings.write(config)})
    height, width = config.image
    output.text(f"{name}: {config.channels} channels of {height}x{width}, {config.classes} classes")
    output.text(f"  parameters     {count(costs.parameters)}")
    output.text(f"  multiply-adds  {costs.macs / 1e9:.3f} G a picture")
    memory = costs.memory
    output.text(
        f"  memory         {size(memory['float32'])} in float32, {size(memory['bfloat16'])} in bfloat16; "
        f"{size(memory['training'])} to train with Adam, activations aside"
    )
    output.text("")
    _layers(output, costs)


def _numbers(costs: "Cost") -> dict[str, object]:
    from dataclasses import asdict

    rows = [asdict(row) for row in costs.rows]
    return {"parameters": costs.parameters, "macs": costs.macs, "memory": costs.memory, "layers": rows}


def _layers(output: "Output", costs: "Cost") -> None:
    from patchwords.cli.output import count

    output.table(
        ("layer", "what", "output", "parameters", "multiply-adds"),
        [
            (row.name, row.kind, "x".join(map(str, row.output)), count(row.parameters), count(row.macs))
            for row in costs.rows
        ],
    )


def _models(output: "Output") -> None:
    from patchwords.cli.output import count
    from patchwords.models.cost import cost
    from patchwords.models.names import NAMES, read

    rows = []
    for name in NAMES:
        config = read(name)
        with output.talk.status(f"counting {name}"):
            costs = cost(config)
        output.json({"name": name, "image": config.image, "parameters": costs.parameters, "macs": costs.macs})
        rows.append(
            (name, str(config.image[0]), str(config.classes), count(costs.parameters), f"{costs.macs / 1e9:.3f}")
        )
    output.table(("model", "image", "classes", "parameters", "G multiply-adds"), rows)
    output.note("Any patch and size can be named: ViT-S/8@448x320, R50+ViT-L/16, ViT-B/16-gap, ViT-L/14-map.")


def _zoo(output: "Output") -> None:
    from patchwords.weights.zoo import ENTRIES

    for entry in ENTRIES:
        output.json(_public(entry.name))
    rows = [(entry.name, entry.model, str(entry.classes), f"{entry.mebibytes} MiB", entry.licence) for entry in ENTRIES]
    output.table(("name", "model", "classes", "size", "licence"), rows)


def _entry(output: "Output", name: str) -> None:
    table = _public(name)
    output.json(table)
    for key in ("name", "model", "classes", "address", "mebibytes", "sha256", "licence", "source", "cached"):
        output.text(f"  {key:<10} {table[key]}")


def _public(name: str) -> dict[str, object]:
    from dataclasses import asdict

    from patchwords.weights.store import location
    from patchwords.weights.zoo import ZOO

    place = location(ZOO[name])
    return asdict(ZOO[name]) | {"cached": str(place) if place.exists() else ""}


def _file(output: "Output", path: Path, heads: int | None, image: tuple[int, int] | None) -> None:
    from patchwords import settings
    from patchwords.cli.output import count
    from patchwords.models.cost import cost
    from patchwords.weights.checkpoint import open_checkpoint

    checkpoint = open_checkpoint(path, heads=heads, image=image, depth="shapes")
    card, costs = checkpoint.card, cost(checkpoint.card.model)
    kinds = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in checkpoint.state.values()})
    for note in checkpoint.notes:
        output.note(note)
    output.json(
        {"name": str(path), "format": checkpoint.format, "kinds": kinds, "card": settings.write(card)}
        | {"tensors": len(checkpoint.state), "notes": checkpoint.notes}
        | _numbers(costs)
    )
    model = card.model
    output.text(f"{path}: {checkpoint.format}, {count(costs.parameters)} parameters in {', '.join(kinds)}")
    output.text(f"  pictures   {model.channels} channels of {model.image[0]}x{model.image[1]}, {card.preprocess.fit}")
    output.text(f"  mean       {list(card.preprocess.mean)}, deviation {list(card.preprocess.deviation)}")
    output.text(f"  classes    {model.classes} {', '.join(card.classes[:8])}{' …' if len(card.classes) > 8 else ''}")
    for key, value in (("source", card.source), ("licence", card.licence)):
        if value:
            output.text(f"  {key:<10} {value}")
    output.text("")
    _layers(output, costs)
