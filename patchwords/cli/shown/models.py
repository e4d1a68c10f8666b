"""A model by name: parameters, multiply-adds, memory and layers; and the list of names."""

from dataclasses import asdict
from typing import Any

from patchwords import settings
from patchwords.cli.output import Output, count, size
from patchwords.models.cost import Cost, cost
from patchwords.models.names import NAMES, Config, read


def show_model(output: Output, name: str, config: Config) -> None:
    costs = cost(config)
    output.json({"name": name} | numbers(costs) | {"config": settings.write(config)})
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
    show_layers(output, costs)


def numbers(costs: Cost) -> dict[str, Any]:
    rows = [asdict(row) for row in costs.rows]
    return {"parameters": costs.parameters, "macs": costs.macs, "memory": costs.memory, "layers": rows}


def show_layers(output: Output, costs: Cost) -> None:
    output.table(
        ("layer", "what", "output", "parameters", "multiply-adds"),
        [
            (row.name, row.kind, "x".join(map(str, row.output)), count(row.parameters), count(row.macs))
            for row in costs.rows
        ],
    )


def show_models(output: Output) -> None:
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
    output.note("Any patch and size can be named: ViT-S/8@448x320, ViT-B/16-gap, BEiT-S/8, Swin-T@256.")
