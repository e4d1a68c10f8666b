"""Models made ready once for inference on a CPU: a copy whose linear layers are packed for oneDNN, or is compiled."""

import copy
import logging
import shutil
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.attention import KeylessProjection
from patchwords.layers.block import Block
from patchwords.layers.encoder import GlobalEncoder
from patchwords.layers.mlp import MLP
from patchwords.layers.pool import Pooling
from patchwords.ops.attention import attention
from patchwords.speed.packed import Int8, Packed, Then, then
from patchwords.speed.precision import Working

logger = logging.getLogger("patchwords")

Make = Callable[[Tensor, Tensor | None, Then], nn.Module]


def ready_cpu(model: nn.Module, precision: Working, compiled: bool) -> Callable[[Tensor], Tensor]:
    """Standardised pictures to logits in single precision; the model itself is left as it is."""
    _check(precision)
    if compiled:
        _check_compiler(precision)
    dtype = torch.float32 if precision == "float32" or (precision == "int8" and not has_bf16()) else torch.bfloat16
    prepared = copy.deepcopy(model).eval().requires_grad_(False)
    _shorten(prepared)
    if precision == "int8":
        if not _pack(prepared, partial(Int8, dtype=dtype)):
            raise UsageError(
                "precision int8 is for linear layers, and this model has none but in its head: choose bf16"
            )
    elif not compiled and _packs(dtype):
        _pack(prepared, partial(Packed, dtype=dtype))
    elif not compiled:
        logger.warning("oneDNN has no kernels for %s here: linear layers stay as they are", precision)
    _narrow(prepared, dtype)
    if compiled:
        prepared.compile()

    @torch.inference_mode()
    def answer(images: Tensor) -> Tensor:
        return prepared(images.to(dtype))

    @torch.inference_mode()
    def each(images: Tensor) -> Tensor:
        """One by one, so that no answer depends on the company of a picture: its scales are its own."""
        return torch.cat([answer(image[None]) for image in images])

    return each if precision == "int8" else answer


def _check(precision: Working) -> None:
    if precision in ("fp16", "fp8"):
        raise UsageError(f"precision {precision} needs a GPU: choose float32, bf16 or int8 on a CPU")
    if precision == "int8" and not torch.backends.mkldnn.is_available():
        raise UsageError("precision int8 needs oneDNN, which this torch was built without: choose float32 or bf16")
    if precision == "bf16" and not has_bf16():
        logger.warning("torch knows no bf16 instructions of this processor: bf16 works, but float32 may be faster")


def _check_compiler(precision: Working) -> None:
    if precision == "int8":
        raise UsageError(
            "layers in int8 are packed, and the compiler cannot take them: leave out compile, or choose bf16"
        )
    from torch._inductor import config as inductor  # late: it takes a second, and few compile

    wanted = [name for name in inductor.cpp.cxx if name]
    if not any(map(shutil.which, wanted)):
        raise UsageError(
            f"compile needs a C++ compiler, and there is no {' or '.join(wanted)} here: install one (g++ on Linux, the "
            "Xcode command line tools on macOS), or leave out compile"
        )


def has_bf16() -> bool:
    """Whether torch knows bf16 instructions of this processor."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _packs(dtype: torch.dtype) -> bool:
    """Whether there is oneDNN, and it has kernels for such numbers."""
    known = torch.backends.mkldnn.is_available()
    return known and (dtype == torch.float32 or torch.ops.mkldnn._is_mkldnn_bf16_supported())


class Wide(nn.Module):
    """A head that stays in single precision: in bf16 logits that are near one another would be the same."""

    def __init__(self, head: nn.Module):
        super().__init__()
        self.head = head

    def forward(self, y: Tensor) -> Tensor:
        return self.head(y.float())


def _narrow(model: nn.Module, dtype: torch.dtype) -> None:
    for name, part in model.named_children():
        if name == "head":
            model.head = Wide(part)
        else:
            part.to(dtype)


def _pack(module: nn.Module, make: Make) -> int:
    """Gives every linear layer but those of the head its packed twin, and tells how many; a GELU is done with one."""
    done = 0
    for name, part in module.named_children():
        if isinstance(part, MLP) and isinstance(part.activation, nn.GELU):
            part.fc1 = make(part.fc1.weight, part.fc1.bias, then(part.activation))  # type: ignore[assignment]
            part.activation = nn.Identity()
            done += 1
        if isinstance(part, nn.Linear):
            setattr(module, name, make(part.weight, part.bias, Then()))
            done += 1
        elif isinstance(part, KeylessProjection):
            bias = torch.cat([part.q_bias, torch.zeros_like(part.q_bias), part.v_bias])
            setattr(module, name, make(part.weight, bias, Then()))
            done += 1
        elif name != "head":
            done += _pack(part, make)
    return done


def _shorten(model: nn.Module) -> None:
    """Where only the first tokens of the last layer are read, it makes no others; the logits stay what they were."""
    parts = dict(model.named_children())
    encoder, pool = parts.get("encoder"), parts.get("pool")
    if isinstance(encoder, GlobalEncoder) and isinstance(pool, Pooling) and pool.front is not None:
        last = encoder.blocks[-1]
        if isinstance(last, Block):
            vars(last)["forward"] = partial(_first, last, slice(pool.front))


def _first(block: Block, rows: slice, x: Tensor) -> Tensor:
    """`Block.forward` for the queries of these rows alone: (batch, tokens, width) to (batch, rows, width)."""
    heads = block.attention
    q, k, v = heads.split(block.norm1(x))
    seen = attention(q[..., rows, :], k, v, heads.offsets(q, slice(None), rows))
    x = x[:, rows] + block.scale1(heads.out(seen.transpose(-2, -3).flatten(-2)))  # eq. 2
    return x + block.scale2(block.mlp(block.norm2(x)))  # eq. 3
