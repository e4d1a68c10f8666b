"""Section 3.1 and App. D.4: each kind of position, its rows written out by hand."""

import math

import pytest
import torch
from torch import Tensor

from patchwords.layers.position import (
    Fixed1D,
    Learned1D,
    Learned2D,
    NoPosition,
    Over,
    Position,
    Relative,
    SinCos2D,
    Sinusoidal1D,
)
from patchwords.layers.tokens import Tokens

WIDTH, GRID = 8, (3, 2)


def added(position: Position, special: tuple[str, ...] = ("class",)) -> Tensor:
    """What a kind of position adds to a sequence of zeros: (special + patches, width)."""
    tokens = len(special) + GRID[0] * GRID[1]
    before = Tokens(torch.zeros(1, tokens, WIDTH), len(special), GRID)
    after = position.build(WIDTH, GRID, special)(before)
    assert (after.prefix, after.grid) == (before.prefix, before.grid)
    return after.x[0].detach()


def big_vision_row(x: int, y: int) -> list[float]:
    omega = [10000 ** (-i / (WIDTH / 4 - 1)) for i in range(WIDTH // 4)]
    return sincos_row(x, y, omega)


def mae_row(x: int, y: int) -> list[float]:
    omega = [10000 ** (-i / (WIDTH / 4)) for i in range(WIDTH // 4)]
    return sincos_row(x, y, omega)


def sincos_row(x: int, y: int, omega: list[float]) -> list[float]:
    row = [math.sin(x * w) for w in omega] + [math.cos(x * w) for w in omega]
    return row + [math.sin(y * w) for w in omega] + [math.cos(y * w) for w in omega]


@pytest.mark.parametrize("special", [(), ("class",), ("class", "register")])
@pytest.mark.parametrize("law", ["big_vision", "mae"])
def test_sincos_2d_is_the_law_of_its_code_base_and_leaves_special_tokens_alone(
    law: str, special: tuple[str, ...]
) -> None:
    row = {"big_vision": big_vision_row, "mae": mae_row}[law]
    rows = [[0.0] * WIDTH] * len(special) + [row(col, line) for line in range(GRID[0]) for col in range(GRID[1])]
    torch.testing.assert_close(added(SinCos2D(law=law), special), torch.tensor(rows))


def test_big_visions_law_is_the_default() -> None:
    assert torch.equal(added(SinCos2D()), added(SinCos2D(law="big_vision")))
    assert not torch.equal(added(SinCos2D()), added(SinCos2D(law="mae")))


def test_sincos_2d_of_the_smallest_width_has_one_frequency() -> None:
    after = SinCos2D().build(4, GRID, ())(Tokens(torch.zeros(1, 6, 4), 0, GRID))
    x, y = 1, 2  # the last patch
    expected = torch.tensor([math.sin(x), math.cos(x), math.sin(y), math.cos(y)])
    torch.testing.assert_close(after.x[0, -1], expected)


def test_sinusoidal_1d_is_the_table_of_the_original_transformer_over_the_whole_sequence() -> None:
    rows = torch.zeros(7, WIDTH)
    for place in range(7):
        for j in range(WIDTH // 2):
            angle = place / 10000 ** (2 * j / WIDTH)
            rows[place, 2 * j], rows[place, 2 * j + 1] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(added(Sinusoidal1D()), rows)


@pytest.mark.parametrize("kind", [SinCos2D(), Sinusoidal1D()])
def test_fixed_tables_are_neither_learned_nor_saved(kind: Position) -> None:
    module = kind.build(WIDTH, GRID, ("class",))
    assert list(module.parameters()) == []
    assert module.state_dict() == {}


@pytest.mark.parametrize("special", [(), ("class",), ("class", "distillation", "register")])
def test_fixed_1d_is_maes_law_with_rows_of_zeros_for_special_tokens(special: tuple[str, ...]) -> None:
    rows = added(Fixed1D(), special)
    assert not rows[: len(special)].any()
    wanted = torch.tensor([mae_row(x, y) for y in range(GRID[0]) for x in range(GRID[1])])
    torch.testing.assert_close(rows[len(special) :], wanted)


def test_fixed_1d_is_saved_as_a_learned_table_is_but_never_learns() -> None:
    module = Fixed1D().build(WIDTH, GRID, ("class",))
    (parameter,) = module.parameters()
    assert not parameter.requires_grad
    learned = Learned1D().build(WIDTH, GRID, ("class",)).state_dict()
    assert {name: x.shape for name, x in module.state_dict().items()} == {name: x.shape for name, x in learned.items()}


def test_fixed_1d_draws_no_random_numbers_and_needs_no_memory_where_there_is_none() -> None:
    before = torch.random.get_rng_state()
    Fixed1D().build(WIDTH, GRID, ("class",))
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.device("meta"):
        assert all(parameter.is_meta for parameter in Fixed1D().build(WIDTH, GRID, ("class",)).parameters())


def test_learned_1d_has_a_row_for_each_place() -> None:
    module = Learned1D().build(WIDTH, GRID, ("class",))
    assert module.table.shape == (1, 7, WIDTH)
    x = torch.randn(2, 7, WIDTH)
    torch.testing.assert_close(module(Tokens(x, 1, GRID)).x, x + module.table)


@pytest.mark.parametrize(("over", "rows"), [("tokens", 3), ("class", 1), ("patches", 0)])
def test_a_table_may_leave_out_registers_or_all_special_tokens(over: Over, rows: int) -> None:
    special = ("class", "register", "register")
    module = Learned1D(over=over).build(WIDTH, GRID, special)
    assert module.table.shape == (1, rows + 6, WIDTH)
    after = module(Tokens(torch.zeros(1, 9, WIDTH), 3, GRID)).x
    assert torch.equal(after[:, :rows], module.table[:, :rows])
    assert not after[:, rows:3].any()
    assert torch.equal(after[:, 3:], module.table[:, rows:])


def test_a_table_over_class_and_patches_has_no_class_row_where_there_is_no_class_token() -> None:
    module = Learned1D(over="class").build(WIDTH, GRID, ("register",))
    assert module.table.shape == (1, 6, WIDTH)


def test_learned_2d_puts_the_column_embedding_before_the_row_embedding() -> None:
    module = Learned2D().build(WIDTH, GRID, ("class",))
    assert module.cols.shape == (2, WIDTH // 2)
    assert module.rows.shape == (3, WIDTH // 2)
    after = module(Tokens(torch.zeros(1, 7, WIDTH), 1, GRID)).x
    assert not after[:, 0].any()
    for y in range(3):
        for x in range(2):
            assert torch.equal(after[0, 1 + 2 * y + x], torch.cat([module.cols[x], module.rows[y]]))


@pytest.mark.parametrize("kind", [NoPosition(), Relative()])
def test_no_position_and_relative_positions_add_nothing_to_the_tokens(kind: Position) -> None:
    assert not added(kind).any()
