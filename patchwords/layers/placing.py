"""The E_pos of eq. 1 and Table 8: what is added to the tokens for their places, at the stem or before each block."""

import abc

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.tokens import Grid, Tokens
from patchwords.ops.resampling import stretch_table
from patchwords.ops.sinusoids import sincos_2d

ONE_GRID = (
    "positions that live in the layers are for one grid of patches, and small crops have another: "
    'set parts.position to "learned-1d", "learned-2d", "sincos-2d" or "none", which are added at the stem'
)


class Placing(nn.Module, abc.ABC):
    """Adds to the tokens what their places are worth."""

    @abc.abstractmethod
    def forward(self, tokens: Tokens) -> Tokens: ...

    @abc.abstractmethod
    def elsewhere(self, tokens: Tokens) -> Tokens:
        """The same on another grid than its own, by resampling; refused where that has no meaning."""


class Rows(Placing):
    """A table with a row for each patch of its grid, and for the first `special` tokens."""

    table: Tensor  # (1, special + patches, width)

    def __init__(self, grid: Grid, special: int):
        super().__init__()
        self.grid, self.special = grid, special

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        return add_rows(tokens, self.table, self.special)

    def elsewhere(self, tokens: Tokens) -> Tokens:
        return add_stretched(tokens, self.table, self.grid, self.special)


class Table1D(Rows):
    """E_pos of eq. 1."""

    def __init__(self, width: int, grid: Grid, special: int, std: float):
        super().__init__(grid, special)
        self.table = nn.Parameter(torch.empty(1, special + grid[0] * grid[1], width))
        nn.init.normal_(self.table, std=std)


class Table2D(Placing):
    """App. D.4: "we concatenate the X and Y embedding to get the final positional embedding for that patch"."""

    def __init__(self, width: int, grid: Grid, std: float):
        super().__init__()
        self.grid = grid
        self.rows = nn.Parameter(torch.empty(grid[0], width // 2))
        self.cols = nn.Parameter(torch.empty(grid[1], width // 2))
        nn.init.normal_(self.rows, std=std)
        nn.init.normal_(self.cols, std=std)

    @property
    def table(self) -> Tensor:
        """(1, patches, width)."""
        x = self.cols[None, :].expand(*self.grid, -1)
        y = self.rows[:, None].expand(*self.grid, -1)
        return torch.cat([x, y], -1).flatten(0, 1)[None]

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        return add_rows(tokens, self.table, special=0)

    def elsewhere(self, tokens: Tokens) -> Tokens:
        return add_stretched(tokens, self.table, self.grid, special=0)


class Fixed(Rows):
    """A table that is computed, not learned, and so is not in the weights."""

    def __init__(self, table: Tensor, grid: Grid):
        super().__init__(grid, table.shape[1] - grid[0] * grid[1])
        self.register_buffer("table", table, persistent=False)


class Kept(Rows):
    """A table that is computed once and then kept with the weights: files hold it, and another size resamples it."""

    def __init__(self, width: int, grid: Grid, special: int):
        super().__init__(grid, special)
        self.table = nn.Parameter(torch.zeros(1, special + grid[0] * grid[1], width), requires_grad=False)
        if self.table.device.type != "meta":  # there is no memory for it: a file will fill it
            self.table[:, special:] = sincos_2d(grid, width // 4, width // 4)


class Expect(Placing):
    """Adds nothing, and lets only one grid pass: offsets of the raster index mean something else on another."""

    def __init__(self, grid: Grid):
        super().__init__()
        self.grid = grid

    def forward(self, tokens: Tokens) -> Tokens:
        expect(tokens.grid, self.grid)
        return tokens

    def elsewhere(self, tokens: Tokens) -> Tokens:
        raise UsageError(ONE_GRID)


class Nowhere(Placing):
    """Adds nothing, on any grid."""

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens

    def elsewhere(self, tokens: Tokens) -> Tokens:
        return tokens


class InEncoder(Placing):
    """Adds nothing at the stem: the encoder's layers do, on their one grid."""

    def forward(self, tokens: Tokens) -> Tokens:
        return tokens

    def elsewhere(self, tokens: Tokens) -> Tokens:
        raise UsageError(ONE_GRID)


class Layerwise(nn.Module):
    """Table 8, columns two and three: a table of its own before each block, or one table before all of them."""

    def __init__(self, tables: list[nn.Module]):
        super().__init__()
        self.tables = nn.ModuleList(tables)

    def forward(self, tokens: Tokens, layer: int) -> Tokens:
        placed: Tokens = self.tables[layer % len(self.tables)](tokens)
        return placed


def add_rows(tokens: Tokens, table: Tensor, special: int) -> Tokens:
    """Adds `special` rows to the first special tokens and the others to the patches."""
    if special != tokens.prefix:
        between = table.new_zeros(1, tokens.prefix - special, table.shape[2])
        table = torch.cat([table[:, :special], between, table[:, special:]], 1)
    return tokens.replace(tokens.x + table)


def add_stretched(tokens: Tokens, table: Tensor, grid: Grid, special: int) -> Tokens:
    """Adds a table that is for another grid, resampled to that of the tokens."""
    return add_rows(tokens, stretch_table(table, grid, tokens.grid), special)


def expect(given: Grid, known: Grid) -> None:
    if given != known:
        raise UsageError(
            f"the picture has {given[0]}x{given[1]} patches, the positions are for {known[0]}x{known[1]}: "
            f"load the weights with image=(height, width), which resamples them"
        )
