"""How long something lasts, in the words of a recipe: "300 epochs", "20k steps", "5%" of the whole training."""

import math
import re
from typing import Literal, NamedTuple

from patchwords.errors import UsageError

PATTERN = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<thousands>k?)\s*(?P<unit>%|(?:step|epoch)s?)", re.ASCII)


class Duration(NamedTuple):
    amount: float
    unit: Literal["steps", "epochs", "%"]


def parse(text: str) -> Duration:
    """An amount and its unit."""
    match = PATTERN.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{text!r} is no duration: write 300 epochs, 20k steps or 5%")
    amount = float(match["number"]) * (1000 if match["thousands"] else 1)
    unit: Literal["steps", "epochs", "%"] = "%"
    if match["unit"] != "%":
        unit = "steps" if match["unit"].startswith("step") else "epochs"
    if unit == "steps" and _whole(amount) != round(amount, 6):
        raise UsageError(f"{text!r} is no duration: there is no part of a step, only of an epoch")
    return Duration(amount, unit)


def steps(text: str, *, per_epoch: float, total: int | None) -> int:
    """The duration in updates: an epoch has samples / batch of them, a fraction, and a step that is begun is made.

    `total` is the length of the whole training, of which "5%" is a share; None where the text itself says that length.
    """
    amount, unit = parse(text)
    if unit == "steps":
        return _whole(amount)
    if unit == "epochs":
        return _whole(amount * per_epoch)
    if total is None:
        raise UsageError(f"{text!r} is a share of the whole training, and this is its length: write epochs or steps")
    return _whole(amount * total / 100)


def _whole(number: float) -> int:
    """Rounded up, but 7.000000001 is 7: a fraction of an epoch is no exact float."""
    return math.ceil(round(number, 6))
