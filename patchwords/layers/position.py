"""Section 3.1 and App. D.4: where a patch is. Each kind of Table 8 is a value; `at` is the column of that table."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from patchwords.layers.placing import Expect, Fixed, Kept, Nowhere, Placing, Table1D, Table2D
from patchwords.layers.tokens import Grid
from patchwords.ops.sinusoids import sincos_2d, sinusoidal_1d
from patchwords.settings import check

At = Literal["stem", "every", "shared"]  # Table 8: at the stem, in every layer, in every layer but one table
Over = Literal["tokens", "class", "patches"]  # which tokens have a row: all, the class token and patches, patches alone


@dataclass(frozen=True, kw_only=True, slots=True)
class NoPosition:
    """A bag of patches."""

    kind: ClassVar[str] = "none"
    divides: ClassVar[int] = 1  # what must divide the width
    at: ClassVar[At] = "stem"

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Nowhere()


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned1D:
    """One learned row for each place in raster order: the paper's default."""

    kind: ClassVar[str] = "learned-1d"
    divides: ClassVar[int] = 1
    at: At = "stem"
    over: Over = "tokens"
    std: float = 0.02

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Table1D(width, grid, rows_before_patches(self.over, special), self.std)


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned2D:
    """A learned half row for each column (X) and each row (Y), side by side; the special tokens have none."""

    kind: ClassVar[str] = "learned-2d"
    divides: ClassVar[int] = 2
    at: At = "stem"
    std: float = 0.02

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Table2D(width, grid, self.std)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinCos2D:
    """Fixed sines and cosines of column and row; `law` says whose frequencies."""

    kind: ClassVar[str] = "sincos-2d"
    divides: ClassVar[int] = 4
    at: At = "stem"
    law: Literal["big_vision", "mae"] = "big_vision"

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        quarter = width // 4
        return Fixed(sincos_2d(grid, quarter, quarter - 1 if self.law == "big_vision" else quarter), grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixed1D:
    """MAE's table: its sines and cosines, zeros for special tokens; kept with the weights, and never trained."""

    kind: ClassVar[str] = "fixed-1d"
    divides: ClassVar[int] = 4
    at: ClassVar[At] = "stem"

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Kept(width, grid, len(special))


@dataclass(frozen=True, kw_only=True, slots=True)
class Sinusoidal1D:
    """The original Transformer's fixed table over the whole sequence."""

    kind: ClassVar[str] = "sinusoidal-1d"
    divides: ClassVar[int] = 2
    at: At = "stem"

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Fixed(sinusoidal_1d(len(special) + grid[0] * grid[1], width), grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Relative:
    """One embedding for each offset between query and key, asked by the query in every layer (`Offsets`)."""

    kind: ClassVar[str] = "relative"
    divides: ClassVar[int] = 1
    at: ClassVar[At] = "stem"
    std: float = 0.02

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Expect(grid)  # nothing is added to the tokens: the attention layers hold the offsets


@dataclass(frozen=True, kw_only=True, slots=True)
class RelativeBias:
    """BEiT: learned logits for each offset between two patches and each head, in every block or one table for all."""

    kind: ClassVar[str] = "relative-bias"
    divides: ClassVar[int] = 1
    at: Literal["every", "shared"] = "every"

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> Placing:
        return Expect(grid)  # nothing is added to the tokens: the attention layers hold the biases (`Bias`)


Position = NoPosition | Learned1D | Learned2D | SinCos2D | Fixed1D | Sinusoidal1D | Relative | RelativeBias


def rows_before_patches(over: Over, special: tuple[str, ...]) -> int:
    """How many of the special tokens have a row in a table."""
    return {"tokens": len(special), "class": special.count("class"), "patches": 0}[over]
