"""Models prepared for inference on a GPU: a copy with weights in the precision they work in, and fused parts."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.speed.attention import fastest
from patchwords.speed.fused.eight import EightStream
from patchwords.speed.fused.embed import fuse_embed
from patchwords.speed.fused.maps import pyramid_of, stream_maps
from patchwords.speed.fused.parts import Parts, parts_of
from patchwords.speed.fused.stream import Stream
from patchwords.speed.graphs import Graphed, Graphs
from patchwords.speed.kernels.available import Choice, chosen
from patchwords.speed.kernels.table import Kernels
from patchwords.speed.precision import KINDS, Working, expect_eight_bits


def ready_gpu(
    model: nn.Module, device: torch.device, precision: Working, kernels: Choice, *, compiled: bool, graphs: Graphs
) -> Callable[[Tensor], Tensor]:
    """Standardised pictures on the device to logits in single precision."""
    table, _ = chosen(kernels, device, precision, compiled=compiled)
    parts = parts_of(model)
    _check(model, parts, device, precision, table)
    model = copy.deepcopy(model).to(device).eval().requires_grad_(False)
    parts, dtype = parts_of(model), KINDS.get(precision, torch.float32)
    rounds = True  # pictures, where they are cut into patches
    if table is not None and parts is not None and parts.whole:
        stream(model, parts, table, precision)
    elif table is not None and (pyramid := pyramid_of(model)) is not None:
        stream_maps(pyramid, table, dtype)
    else:
        model.to(dtype)
        rounds = False
    if compiled:
        model.compile()

    def answer(images: Tensor) -> Tensor:
        with fastest(device):
            return model(images if rounds else images.to(dtype)).float()

    return Graphed(answer, graphs)


def stream(model: nn.Module, parts: Parts, kernels: Kernels, precision: Working) -> None:
    """Replaces what a copy does between its pictures and its head."""
    kind = EightStream if precision == "fp8" else Stream
    made = kind(parts.blocks, parts.encoder.norm, parts.pool.front, kernels, torch.bfloat16)
    parts.encoder.blocks = nn.ModuleList()  # the stream has their weights
    parts.embed.patch.to(torch.bfloat16)
    fuse_embed(parts.embed, kernels, torch.bfloat16)
    vars(parts.embed.stem)["forward"] = _mixed(parts.embed.stem.forward)
    pool = parts.pool
    vars(model)["read"] = lambda tokens: pool(made(tokens))


def _mixed(stem: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A hybrid's convolutions, whose weights are standardised in single precision."""

    def forward(images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, torch.bfloat16):
            return stem(images)

    return forward


def _check(
    model: nn.Module, parts: Parts | None, device: torch.device, precision: Working, kernels: Kernels | None
) -> None:
    """Refuses a precision that neither the device nor the model has."""
    if precision == "int8":
        raise UsageError("precision int8 is for CPUs: choose fp8, bf16, fp16 or float32 on a GPU")
    if precision != "fp8":
        return
    expect_eight_bits(device)
    if kernels is None or parts is None or not parts.whole:
        raise UsageError(
            f"precision fp8 is for ViTs of the paper's blocks with fused kernels, and this is another "
            f"{type(model).__name__}: choose bf16"
        )
