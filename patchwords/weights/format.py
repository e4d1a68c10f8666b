"""What there is to know of a format: which keys betray it, whose rules name its tensors, how its library computes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from patchwords.data.preprocess import Preprocess
from patchwords.layers.bottleneck import POST, PRE, Form
from patchwords.layers.position import Position
from patchwords.models.names import Config
from patchwords.weights.rules import Rule


@dataclass(frozen=True, kw_only=True)
class Format:
    """One layout of one family of models; `families` are of `family(config)`."""

    name: str
    families: tuple[str, ...]
    rules: Callable[[int], list[Rule]]
    signs: tuple[str, ...]  # any of these keys is enough
    without: tuple[str, ...] = ()  # but not with any of these
    said: str = ""  # the model_type that config.json has
    bare: tuple[str, ...] = ()  # keys that are a sign only where config.json says so
    ignore: tuple[str, ...] = ()
    tableless: Position | None = None  # what no position table means; nothing: it is missing
    table: Literal["learned-1d", "fixed-1d"] = "learned-1d"  # what its position table is
    asks: Literal["both", "class"] = "both"  # the tokens that a head sees where one of them is for distillation
    heads: str = ""  # the tensor whose second axis is the heads
    computes: dict[str, Any] = field(default_factory=dict)  # the fields of a configuration that the library decides
    forms: dict[str, Form] = field(default_factory=lambda: {"pre": PRE, "post": POST})
    attends: Literal["tokens", "patches"] = "tokens"  # what an attention pool asks where there are special tokens
    preprocess: Preprocess | None = None  # where all published files agree on it
    refuses: Callable[[Config], str] = lambda config: ""  # what the names could hold but the library would not compute
    prefix: str = ""
    suffixes: tuple[str, ...] = (".safetensors", ".pth", ".pt", ".bin")
