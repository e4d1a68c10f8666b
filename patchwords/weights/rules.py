"""The engine behind every foreign format: a table of rules, read forwards to take weights and backwards to give them.

In a name `{i}` stands for a number and `{i+1}`, `{2i+1}` or `{i+1:02}` for the same number as they count and write it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from patchwords.errors import ModelError

State = dict[str, Tensor]
FIELD = re.compile(r"\{(\d*)([a-z]\w*)(?:\+(\d+))?(?::0(\d))?\}")  # factor, field, shift, digits


@dataclass(frozen=True)
class Change:
    """A reversible change of layout: some of their tensors to one of ours, and back."""

    take: Callable[..., Tensor]
    give: Callable[[Tensor], tuple[Tensor, ...]]


SAME = Change(lambda x: x, lambda x: (x,))
JOIN = Change(lambda *x: torch.cat(x), lambda x: tuple(x.chunk(3)))  # q, k, v by themselves and fused


@dataclass(frozen=True)
class Rule:
    """One of our parameters and what it is called elsewhere; of several rules for one of ours, the first is written."""

    theirs: str | tuple[str, ...]
    ours: str
    change: Change = SAME

    @property
    def names(self) -> tuple[str, ...]:
        return (self.theirs,) if isinstance(self.theirs, str) else self.theirs


def pair(theirs: str, ours: str) -> list[Rule]:
    """The weight and the bias of a layer, as torch's libraries name them."""
    return [Rule(f"{theirs}.weight", f"{ours}.weight"), Rule(f"{theirs}.bias", f"{ours}.bias")]


def take(rules: Sequence[Rule], state: Mapping[str, Tensor], ignore: Sequence[str] = ()) -> State:
    """Their state in our names: every tensor of theirs is named by a rule or by `ignore`."""
    ours: State = {}
    origin: dict[str, str] = {}
    used: set[str] = set()
    for rule in rules:
        places = [(key, numbers) for key in state if (numbers := _place(rule, key)) is not None]
        for key, numbers in places:
            names = [write(name, numbers) for name in rule.names]
            if absent := [name for name in names if name not in state]:
                raise ModelError(f"{key} is there, but {', '.join(absent)} is not: {rule.ours} needs all of them")
            if key != names[0]:
                continue  # its rule was followed with the first of them
            target = write(rule.ours, numbers)
            if target in ours:
                raise ModelError(f"{key} and {origin[target]} both hold {target}: keep one of them")
            ours[target] = _changed(rule, names, [state[name] for name in names])
            origin[target] = key
            used.update(names)
    left = [key for key in state if key not in used and not any(parse(name, key) is not None for name in ignore)]
    if left:
        raise ModelError(f"no rule knows {listed(left)}: the file holds more than this format has names for")
    return ours


def _place(rule: Rule, key: str) -> dict[str, int] | None:
    """The numbers of a key that any of a rule's names describes."""
    return next((numbers for name in rule.names if (numbers := parse(name, key)) is not None), None)


def _changed(rule: Rule, names: list[str], tensors: list[Tensor]) -> Tensor:
    """Their tensors in our layout, in memory of their own: a transposed view would compute otherwise, and slower."""
    try:
        return rule.change.take(*tensors).contiguous()
    except (RuntimeError, IndexError, ValueError) as error:
        seen = ", ".join(f"{name} {shape(tensor)}" for name, tensor in zip(names, tensors, strict=True))
        raise ModelError(f"{seen}: such shapes cannot be {rule.ours}") from error


def give(rules: Sequence[Rule], state: Mapping[str, Tensor], format: str) -> State:
    """Our state in their names; what their format has no name for is refused."""
    theirs: State = {}
    left = []
    for key, tensor in state.items():
        for rule in rules:
            if (numbers := parse(rule.ours, key)) is not None:
                parts = rule.change.give(tensor)
                theirs |= {write(n, numbers): p.contiguous() for n, p in zip(rule.names, parts, strict=True)}
                break
        else:
            left.append(key)
    if left:
        raise ModelError(
            f"the {format} format has no place for {listed(left)}: choose another, native holds everything"
        )
    return theirs


def compare(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuses weights that do not fit a model, with both sides listed."""
    missing = [f"{key} {shape(wanted[key])}" for key in wanted if key not in found]
    surplus = [f"{key} {shape(found[key])}" for key in found if key not in wanted]
    both = [key for key in wanted if key in found and found[key].shape != wanted[key].shape]
    wrong = [f"{key} is {shape(found[key])} in the file and {shape(wanted[key])} in the model" for key in both]
    sides = {"missing in the file": missing, "not in the model": surplus, "of another shape": wrong}
    if any(sides.values()):
        said = "; ".join(f"{side}: {listed(names)}" for side, names in sides.items() if names)
        raise ModelError(f"the weights do not fit the model. {said}")


def listed(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "scalar"


def parse(template: str, key: str) -> dict[str, int] | None:
    """The numbers of a key that a template describes, or nothing if it does not."""
    match = _pattern(template).fullmatch(key)
    if match is None:
        return None
    said = {field: int(number) for field, number in match.groupdict().items()}
    counts = FIELD.findall(template)
    numbers = {field: (said[field] - int(shift or 0)) // int(factor or 1) for factor, field, shift, _ in counts}
    readable = min(numbers.values(), default=0) >= 0 and write(template, numbers) == key  # 01 is not how 1 is written
    return numbers if readable else None


def write(template: str, numbers: Mapping[str, int]) -> str:
    return FIELD.sub(lambda m: f"{int(m[1] or 1) * numbers[m[2]] + int(m[3] or 0):0{m[4] or 1}d}", template)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    pieces = FIELD.split(template)  # text, factor, field, shift, digits, text, …
    texts, fields = pieces[::5], pieces[2::5]
    numbers = [rf"(?P<{field}>\d{{1,9}})" for field in fields] + [""]  # Python does not read thousands of digits
    return re.compile("".join(re.escape(text) + number for text, number in zip(texts, numbers, strict=True)))
