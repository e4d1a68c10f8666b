"""What a model costs: parameters, multiply-adds and memory, counted on the meta device without computing anything."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from patchwords.layers.tokens import Tokens
from patchwords.layers.unit import Unit
from patchwords.models.build import blank
from patchwords.models.names import Config


@dataclass(frozen=True)
class Row:
    """One part of a model, or `times` equal ones."""

    name: str
    kind: str
    output: tuple[int, ...]
    parameters: int
    macs: int
    times: int = 1


@dataclass(frozen=True)
class Cost:
    """`macs` are multiply-adds of matrix products and convolutions for one picture."""

    parameters: int
    macs: int
    rows: tuple[Row, ...]

    @property
    def memory(self) -> dict[str, int]:
        """Bytes: the weights in two precisions, and weights, gradients and Adam's two moments in float32."""
        return {"float32": 4 * self.parameters, "bfloat16": 2 * self.parameters, "training": 16 * self.parameters}


def cost(config: Config) -> Cost:
    model = blank(config).to("meta").eval().requires_grad_(False)
    outputs: dict[nn.Module, tuple[int, ...]] = {}

    def note(module: nn.Module, _: Any, output: Tensor | Tokens) -> None:
        outputs[module] = tuple((output.x if isinstance(output, Tokens) else output).shape[1:])

    parts = dict(_parts("", model))
    for part in parts.values():
        part.register_forward_hook(note)
    with FlopCounterMode(display=False) as counter:
        saved = _count_once({name: part for name, part in parts.items() if isinstance(part, Unit)}, counter)
        model(torch.empty(1, config.channels, *config.image, device="meta"))
    counts = saved.copy()
    counts.update({name.partition(".")[2]: sum(ops.values()) for name, ops in counter.get_flop_counts().items()})
    rows = [
        Row(name, type(part).__name__, outputs.get(part, ()), _parameters(part), counts[name] // 2)
        for name, part in parts.items()
    ]
    return Cost(_parameters(model), (counter.get_total_flops() + saved.total()) // 2, tuple(_merged(rows)))


def _count_once(units: Mapping[str, Unit], counter: FlopCounterMode) -> Counter[str]:
    """Lets one of several equal units run, and the others only say what comes out; by name, what these would cost."""
    known: dict[Hashable, tuple[int, Tensor]] = {}
    saved: Counter[str] = Counter()

    def once(name: str, unit: Unit, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        kind = (_likeness(unit), x.shape)
        if kind in known:
            flops, output = known[kind]
            saved[name] += flops
            return torch.empty_like(output)
        before = counter.get_total_flops()
        output = run(x)
        known[kind] = counter.get_total_flops() - before, output
        return output

    for name, unit in units.items():
        unit.forward = partial(once, name, unit, unit.forward)
    return saved


def _likeness(module: nn.Module) -> Hashable:
    """The same for modules that cost the same: what they are, are set to and consist of, whatever their weights."""
    own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    settings = ((key, repr(value)) for key, value in vars(module).items() if key[0] != "_" and key != "forward")
    return (
        type(module),
        tuple(sorted(settings)),
        tuple((name, tensor.shape) for name, tensor in own.items()),
        tuple((name, _likeness(child)) for name, child in module.named_children()),
    )


def _parts(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The modules that make a row: repeated units, what has parameters of its own, and the rest two names deep."""
    for child_name, child in module.named_children():
        full = f"{name}.{child_name}".lstrip(".")
        whole = isinstance(child, Unit) or any(True for _ in child.parameters(recurse=False))
        repeated = any(isinstance(inner, Unit) for inner in child.modules())
        if not whole and (repeated or "." not in full):
            yield from _parts(full, child)
        elif _parameters(child):
            yield full, child


def _merged(rows: list[Row]) -> Iterator[Row]:
    """Equal neighbours as one row."""
    for _, group in groupby(rows, key=lambda row: (row.kind, row.output, row.parameters, row.macs)):
        first, *others = group
        last = others[-1].name.rpartition(".")[2] if others else ""
        name = f"{first.name}…{last}" if others else first.name
        times = 1 + len(others)
        yield Row(name, first.kind, first.output, times * first.parameters, times * first.macs, times)


def _parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
