"""What makes a module faster or smaller from outside, in one order; names and values stay."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.speed.cpu import has_bf16, ready_cpu
from patchwords.speed.fused.choose import Fused, fuse
from patchwords.speed.fused.products import Eight
from patchwords.speed.gpu import ready_gpu
from patchwords.speed.graphs import Graphs
from patchwords.speed.kernels.available import Choice, chosen
from patchwords.speed.kernels.product_cublas import missing
from patchwords.speed.precision import Precision, Working, check_precision
from patchwords.speed.recompute import Again, Recompute, recompute

MANY = 2_000_000  # parameters: what learns fewer is as fast in float32 on a CPU


def prepare(
    module: nn.Module,
    *,
    kernels: Choice,
    recomputed: Recompute,
    compiled: bool,
    device: torch.device,
    precision: Precision,
    note: Callable[[str], None],
) -> None:
    """For training: fused kernels first, then recomputation, so that the compiler sees it."""
    check_precision(precision, device)
    table, sentence = chosen(kernels, device, precision, compiled=compiled)
    narrow = Eight if precision == "fp8" else None
    again = None if isinstance(recomputed, bool) else recomputed
    done = None if table is None else fuse(module, table, torch.bfloat16, device, narrow, again)
    if done is not None:
        sentence += f" in {done.blocks} of {done.every} blocks"
    if narrow:
        sentence += _narrowed(sentence, done)
    if again:
        sentence += _remade(sentence, done, again)
    if device.type == "cuda":
        note(sentence)
    if device.type == "cpu" and precision == "float32" and has_bf16() and _size(module) >= MANY:
        note("this processor multiplies in bf16 too, about twice as fast: set precision to bf16")
    if done is not None and (reason := missing()):
        note(f"products are made as torch makes them: {reason}")
    if recomputed is True:
        recompute(module)
    if compiled:
        module.compile()


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def _narrowed(sentence: str, done: Fused | None) -> str:
    """How many blocks have products in eight bits; none is refused."""
    if done is None:
        raise UsageError(
            f'precision fp8 needs fused kernels, and there are none ("{sentence}"): '
            "set kernels to auto and compile to false, or choose bf16"
        )
    if not done.narrow:
        raise UsageError(
            "precision fp8 is for the blocks of a ViT before its last, of sides that are multiples of 16 and without "
            f"dropout, layer scale or offsets, and this model has none ({sentence}): choose bf16"
        )
    return f", products in eight bits in {done.narrow}"


def _remade(sentence: str, done: Fused | None, again: Again) -> str:
    """What fused blocks do not keep; without one it is refused."""
    if done is None or not done.blocks:
        raise UsageError(
            f'recompute "{again}" is for fused blocks, and there are none ("{sentence}"): '
            "set recompute to true, which any model can, or to false"
        )
    return ", norms made again" if again == "norms" else ", norms and hidden layers made again"


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
