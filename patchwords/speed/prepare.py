"""What makes a module faster or smaller from outside, in one order; names and values stay."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from patchwords.speed.cpu import ready_cpu
from patchwords.speed.fused.choose import fuse
from patchwords.speed.gpu import ready_gpu
from patchwords.speed.graphs import Graphs
from patchwords.speed.kernels.available import Choice, chosen
from patchwords.speed.precision import Precision, Working
from patchwords.speed.recompute import recompute


def prepare(
    module: nn.Module,
    *,
    kernels: Choice,
    recomputed: bool,
    compiled: bool,
    device: torch.device,
    precision: Precision,
    note: Callable[[str], None],
) -> None:
    """For training: fused kernels first, then recomputation, so that the compiler sees it."""
    table, sentence = chosen(kernels, device, precision, compiled=compiled)
    if table is not None:
        done, every = fuse(module, table, torch.bfloat16, device)
        sentence += f" in {done} of {every} blocks"
    if device.type == "cuda":
        note(sentence)
    if recomputed:
        recompute(module)
    if compiled:
        module.compile()


def ready(
    model: nn.Module,
    *,
    device: torch.device,
    precision: Working,
    kernels: Choice = "auto",
    compiled: bool = False,
    graphs: Graphs = "auto",
) -> Callable[[Tensor], Tensor]:
    """For inference: standardised pictures to logits in single precision; the model itself is left as it is."""
    if device.type == "cpu":
        return ready_cpu(model, precision, compiled)
    graphs = graphs if device.type == "cuda" else "never"
    return ready_gpu(model, device, precision, kernels, compiled=compiled, graphs=graphs)
