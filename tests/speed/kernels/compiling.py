"""Compiles every kernel of Triton's for a GPU that is not there, and tells of each what the compiler made of it.

A program of its own. Interpreted, a kernel may do what no GPU can. Whether it can is known to the compiler, which needs
no GPU.
"""

import json
import re
import subprocess
import sys
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from patchwords.data import stack_triton
from patchwords.data.augment import rounds_triton
from patchwords.data.augment.rounds import Round
from patchwords.speed.kernels import (
    eight_triton,
    few_triton,
    gelu_triton,
    norm_triton,
    pack_triton,
    patches_triton,
    sequence_triton,
    short_triton,
    windowed_triton,
)

TARGET = GPUTarget("cuda", int(sys.argv[1]), 32)  # the capability of a GPU: 90 is Hopper
SHARED, BESIDES = 228 << 10, 1 << 10  # bytes of memory that a multiprocessor's programs share; and what each takes more
HOPPER = 90
WAITS = re.compile(r"async_wait [^{]*\{num = (\d+)")  # while so many copies that were asked for later are on their way
COMPILED: dict[str, dict[str, int]] = {}
LAUNCH = JITFunction.run


class Absent:
    """As much of a driver as the compiler asks for."""

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return TARGET


def compiled(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **settings: Any) -> Any:
    """Instead of a launch."""
    made = LAUNCH(kernel, *arguments, grid=grid, warmup=True, **settings)
    assert made.asm["cubin"]
    told = COMPILED.setdefault(f"{kernel.fn.__module__.rpartition('.')[2]}.{kernel.fn.__name__}", {})
    room = SHARED // (made.metadata.shared + BESIDES)
    told["programs"] = min(room, told.get("programs", room))
    told["shared"] = max(made.metadata.shared, told.get("shared", 0))
    if kernel.is_gluon():
        told["spilled"] = max(spilled(made), told.get("spilled", 0))
        told["asked"] = made.asm["ptx"].count("wgmma.wait_group")
        told["waits"] = made.asm["sass"].count("WARPGROUP.DEPBAR")
    told["ahead"] = max([told.get("ahead", 0), *map(int, WAITS.findall(made.asm["ttgir"]))])
    return made


def spilled(made: Any) -> int:
    """Bytes of a thread's registers that lie in memory."""
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        words = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return int(re.search(r"STACK:(\d+)", told)[1])


def rows(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16)


def training(tokens: int, heads: int) -> None:
    """What a block of ViT-S or B launches, and the last one of a distilled DeiT."""
    width = 64 * heads
    x, values, keep = rows(2 * tokens, width), torch.zeros(width), torch.zeros(2)
    normed = norm_triton.norm(x, values, values, 1e-6)
    norm_triton.add_norm(x, x, keep, values, values, 1e-6)
    norm_triton.add(x, x, None)
    norm_triton.between_backward(x, normed, values, x, keep, keep)
    norm_triton.norm_backward(x, normed, values, None)
    h = rows(2 * tokens, 4 * width)
    for bias in (None, rows(4 * width)):
        gelu_triton.gelu(h, bias, "tanh")
        gelu_triton.gelu_backward(h.clone(), h, bias, "none")
    qkv = rows(2, tokens, 3 * width)
    out, total = short_triton.short(qkv, heads)
    short_triton.short_eight(qkv, heads, values)
    short_triton.short_backward(out, qkv, out, total, heads)
    q, kv = rows(2, 2, width), rows(2, tokens, 2 * width)
    out, total = few_triton.few(q, kv, heads)
    few_triton.few_backward(out, q, kv, out, total, heads)
    pack_triton.pack(x, x, x)
    patches_triton.patches(torch.zeros(2, 3, 224, 224), (16, 16), torch.bfloat16)
    sequence_triton.sequence(rows(2, tokens - 1, width), rows(1, width), rows(tokens - 1, width), torch.bfloat16)


def products_on_their_way(tokens: int, heads: int) -> None:
    """What only a Hopper has."""
    from patchwords.speed.kernels import short_gluon

    width = 64 * heads
    qkv, out = rows(2, tokens, 3 * width), rows(2, tokens, width)
    short_gluon.short(qkv, heads)
    short_gluon.short_eight(qkv, heads, torch.zeros(width))
    short_gluon.short_backward(out, qkv, out, torch.zeros(2, heads, tokens), heads)


def windows() -> None:
    qkv, bias = rows(1, 14, 14, 3 * 96), torch.zeros(3, 49, 49)
    out = windowed_triton.windowed(qkv, bias, (7, 7), (3, 3))
    windowed_triton.windowed_backward(out, qkv, bias, (7, 7), (3, 3))


def eight() -> None:
    x, values = rows(10, 768), torch.zeros(768)
    norm_triton.norm_eight(x, x, values, values, values, 1e-6)
    gelu_triton.gelu_eight(rows(10, 3072), rows(3072), "tanh")
    gelu_triton.eight(x)
    norm_triton.norm_both(x, values, values, 1e-6)
    norm_triton.add_norm_both(x, x, torch.zeros(2), values, values, 1e-6)
    h = rows(10, 3072)
    for form in ("tanh", "none"):
        gelu_triton.gelu_backward_both(h.clone(), h, rows(3072), form)
    for matrix in (torch.zeros(3072, 768), rows(768, 3072)):
        gelu_triton.eight(matrix)
        eight_triton.turned(matrix)


def pictures() -> None:
    every = [torch.zeros(3, 30, 40, dtype=torch.uint8)] * 2
    boxes = np.array([[0.0, 0.0, 30.0, 40.0]] * 2)
    stack_triton.cut_pictures(every, boxes, (16, 16), "bicubic")
    for levels in (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), torch.zeros(2, 3, 16, 16)):
        drawn = Round.empty(2)
        drawn.put(np.arange(1), "equalise")
        rounds_triton.run(levels, [drawn])


def main() -> None:
    driver.set_active(Absent())
    JITFunction.run = compiled
    training(197, 6)
    if TARGET.arch == HOPPER:
        products_on_their_way(197, 6)
    windows()
    eight()
    pictures()
    print(json.dumps(COMPILED))


if __name__ == "__main__":
    main()
