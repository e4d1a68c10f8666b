"""A small model, a stand-in for timm with its names and its own GELU, and little effort."""

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.bench.measure import Effort
from patchwords.bench.values import randomised
from patchwords.models.build import build
from patchwords.models.model import Model

CPU = torch.device("cpu")


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, bias: bool):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int, bias: bool):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = Attention(width, heads, bias), MLP(width, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    def __init__(self, channels: int, width: int, patch: int):
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, patch)

    def forward(self, images: Tensor) -> Tensor:
        return self.proj(images).flatten(2).mT


class VisionTransformer(nn.Module):
    """What timm's is for a class token and nothing else."""

    scale = 1.0  # of the logits; another one would be a mistake

    def __init__(
        self, *, img_size: Any, patch_size: int, in_chans: int, num_classes: int, embed_dim: int, **given: Any
    ):
        super().__init__()
        tokens = 1 + (img_size[0] // patch_size) * (img_size[1] // patch_size)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens, embed_dim))
        self.patch_embed = Patches(in_chans, embed_dim, patch_size)
        hidden = int(embed_dim * given["mlp_ratio"])
        self.blocks = nn.ModuleList(
            Block(embed_dim, hidden, given["num_heads"], given["qkv_bias"]) for _ in range(given["depth"])
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch_embed(images)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.scale * self.head(self.norm(x)[:, 0])


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """In the place of timm, with a class of its own to spoil."""

    class Own(VisionTransformer):
        pass

    every = {name: ModuleType(name) for name in ("timm", "timm.models", "timm.models.vision_transformer", "timm.data")}
    for name, module in every.items():
        monkeypatch.setitem(sys.modules, name, module)
    vars(every["timm"])["__version__"] = "9.9"
    vars(every["timm.models.vision_transformer"])["VisionTransformer"] = Own
    return every["timm.models.vision_transformer"]


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else is installed."""
    for name in ("timm", "transformers", "torchvision"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def model() -> Model:
    return randomised(build("ViT-Mu/8", image=16, classes=5))


@pytest.fixture
def effort() -> Effort:
    return Effort(rounds=2, seconds=0.002, warm=1)


@pytest.fixture
def heard() -> list[str]:
    """What was remarked: `heard.append` is the note."""
    return []


@pytest.fixture(autouse=True)
def compile_leaves_nothing() -> Iterator[None]:
    yield
    torch.compiler.reset()


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """torch.compile gives the module back: what is tested here is not the compiler, which takes its time."""
    monkeypatch.setattr(torch, "compile", lambda module, **_: module)
    return torch.compile
