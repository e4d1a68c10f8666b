"""Section 3.1 and App. D.4: where a patch is. Each kind of Table 8 is a value; `at` is the column of that table."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.tokens import Grid, Tokens
from patchwords.settings import check

At = Literal["stem", "every", "shared"]  # Table 8: at the stem, in every layer, in every layer but one table
Over = Literal["tokens", "class", "patches"]  # which tokens have a row: all, the class token and patches, patches alone


@dataclass(frozen=True, kw_only=True, slots=True)
class NoPosition:
    """A bag of patches."""

    kind: ClassVar[str] = "none"
    divides: ClassVar[int] = 1  # what must divide the width
    at: ClassVar[At] = "stem"

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> nn.Module:
        return nn.Identity()


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

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> nn.Module:
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

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> nn.Module:
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

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> nn.Module:
        quarter = width // 4
        return Fixed(sincos_2d(grid, quarter, quarter - 1 if self.law == "big_vision" else quarter), grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sinusoidal1D:
    """The original Transformer's fixed table over the whole sequence."""

    kind: ClassVar[str] = "sinusoidal-1d"
    divides: ClassVar[int] = 2
    at: At = "stem"

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> nn.Module:
        return Fixed(sinusoidal_1d(len(special) + grid[0] * grid[1], width), grid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Relative:
    """One embedding for each offset between query and key, asked by the query in every layer (`Offsets`)."""

    kind: ClassVar[str] = "relative"
    divides: ClassVar[int] = 1
    at: ClassVar[At] = "stem"
    std: float = 0.02

    def build(self, width: int, grid: Grid, special: tuple[str, ...]) -> nn.Module:
        return Expect(grid)  # nothing is added to the tokens: the attention layers hold the offsets


Position = NoPosition | Learned1D | Learned2D | SinCos2D | Sinusoidal1D | Relative


class Table1D(nn.Module):
    """E_pos of eq. 1."""

    def __init__(self, width: int, grid: Grid, special: int, std: float):
        super().__init__()
        self.grid, self.special = grid, special
        self.table = nn.Parameter(torch.empty(1, special + grid[0] * grid[1], width))
        nn.init.normal_(self.table, std=std)

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        return add_rows(tokens, self.table, self.special)


class Table2D(nn.Module):
    """App. D.4: "we concatenate the X and Y embedding to get the final positional embedding for that patch"."""

    def __init__(self, width: int, grid: Grid, std: float):
        super().__init__()
        self.grid = grid
        self.rows = nn.Parameter(torch.empty(grid[0], width // 2))
        self.cols = nn.Parameter(torch.empty(grid[1], width // 2))
        nn.init.normal_(self.rows, std=std)
        nn.init.normal_(self.cols, std=std)

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        x = self.cols[None, :].expand(*self.grid, -1)
        y = self.rows[:, None].expand(*self.grid, -1)
        return add_rows(tokens, torch.cat([x, y], -1).flatten(0, 1)[None], special=0)


class Fixed(nn.Module):
    """A table that is computed, not learned, and so is not in the weights."""

    table: Tensor

    def __init__(self, table: Tensor, grid: Grid):
        super().__init__()
        self.grid, self.special = grid, table.shape[1] - grid[0] * grid[1]
        self.register_buffer("table", table, persistent=False)

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        return add_rows(tokens, self.table, self.special)


class Expect(nn.Module):
    """Adds nothing, and lets only one grid pass: offsets of the raster index mean something else on another."""

    def __init__(self, grid: Grid):
        super().__init__()
        self.grid = grid

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        return tokens


class Layerwise(nn.Module):
    """Table 8, columns two and three: a table of its own before each block, or one table before all of them."""

    def __init__(self, tables: list[nn.Module]):
        super().__init__()
        self.tables = nn.ModuleList(tables)

    def forward(self, tokens: Tokens, layer: int) -> Tokens:
        placed: Tokens = self.tables[layer % len(self.tables)](tokens)
        return placed


class Offsets(nn.Module):
    """App. D.4, relative: "extra attention" of the query to the offset's embedding, added to the logits.

    Offsets are of the raster index, the special tokens counted in; one table a layer, the same for all heads.
    """

    def __init__(self, tokens: int, head_width: int, std: float):
        super().__init__()
        self.tokens = tokens
        self.table = nn.Parameter(torch.empty(2 * tokens - 1, head_width))
        nn.init.normal_(self.table, std=std)

    def forward(self, q: Tensor, rows: slice = slice(None)) -> Tensor:
        """What is added to the logits of the queries of these rows: (…, heads, rows, keys)."""
        if q.shape[-2] != self.tokens:
            raise UsageError(f"{q.shape[-2]} tokens came, the offsets know {self.tokens}: adapt the model to this size")
        place = torch.arange(self.tokens, device=q.device)
        offset = place[rows, None] - place[None, :] + self.tokens - 1  # (rows, keys), from 0
        logits = q[..., rows, :] @ self.table.mT * q.shape[-1] ** -0.5  # (…, heads, rows, offsets)
        return logits.gather(-1, offset.expand(*q.shape[:-2], -1, -1))


def rows_before_patches(over: Over, special: tuple[str, ...]) -> int:
    """How many of the special tokens have a row in a table."""
    return {"tokens": len(special), "class": special.count("class"), "patches": 0}[over]


def add_rows(tokens: Tokens, table: Tensor, special: int) -> Tokens:
    """Adds `special` rows to the first special tokens and the others to the patches."""
    if special != tokens.prefix:
        between = table.new_zeros(1, tokens.prefix - special, table.shape[2])
        table = torch.cat([table[:, :special], between, table[:, special:]], 1)
    return tokens.replace(tokens.x + table)


def expect(given: Grid, known: Grid) -> None:
    if given != known:
        raise UsageError(
            f"the picture has {given[0]}x{given[1]} patches, the positions are for {known[0]}x{known[1]}: "
            f"load the weights with image=(height, width), which resamples them"
        )


def sincos_2d(grid: Grid, quarter: int, steps: int) -> Tensor:
    """Rows [sin xω, cos xω, sin yω, cos yω] with ωᵢ = 10000^(-i / steps), i < quarter: (1, patches, 4 · quarter)."""
    omega = 10000.0 ** -(torch.arange(quarter, dtype=torch.float64, device="cpu") / max(steps, 1))
    y, x = torch.meshgrid(
        torch.arange(grid[0], dtype=torch.float64, device="cpu"),
        torch.arange(grid[1], dtype=torch.float64, device="cpu"),
        indexing="ij",
    )
    x, y = x.flatten()[:, None] * omega, y.flatten()[:, None] * omega
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)[None].float()


def sinusoidal_1d(tokens: int, width: int) -> Tensor:
    """Entry 2j of row i is sin(i / 10000^(2j / width)), entry 2j + 1 the cosine: (1, tokens, width)."""
    place = torch.arange(tokens, dtype=torch.float64, device="cpu")[:, None]
    angle = place / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)[None, :, :width].float()
