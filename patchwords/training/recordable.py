"""Whether a step of training can be a graph: all of it happens on one device, and nothing in it asks the host."""

from collections.abc import Callable

import torch

from patchwords.errors import UsageError
from patchwords.speed.step import Graph


def recordable(
    graph: Graph,
    *,
    device: torch.device,
    processes: int,
    scaled: bool,
    skips: bool,
    whole: bool,
    note: Callable[[str], None],
) -> Graph:
    """What was asked for where it can be done; else never, which is said, or refused where it should be always."""
    if graph == "never" or (graph == "auto" and device.type != "cuda"):
        return "never"
    reasons = {
        f"the device is {device.type}: choose cuda": device.type != "cuda",
        "several processes exchange their gradients in it": processes > 1,
        "precision fp16 looks at the gradients before it moves the weights: choose bf16": scaled,
        "nonfinite skip looks at the gradients before it moves the weights: choose stop or rollback": skips,
        "a batch is taken in pieces: set micro to the whole batch": not whole,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if not found:
        return graph
    if graph == "always":
        raise UsageError(f"graph always is not possible, {found[0]}, or set graph to auto")
    note(f"a step is not recorded as a graph, {found[0]}")
    return "never"
