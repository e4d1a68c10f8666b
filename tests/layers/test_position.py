"""Section 3.1 and App. D.4: each kind of position, its rows written out by hand."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from patchwords.errors import UsageError
from patchwords.layers.position import (
    At,
    Layerwise,
    Learned1D,
    Learned2D,
    NoPosition,
    Offsets,
    Over,
    Position,
    Relative,
    SinCos2D,
    Sinusoidal1D,
)
from patchwords.layers.tokens import Tokens
from patchwords.models.vit import ViT, ViTConfig

WIDTH, GRID = 8, (3, 2)
CONFIG = ViTConfig(depth=3, width=8, mlp=12, heads=2, patch=(4, 4), image=(12, 8), classes=5)
IMAGES = torch.linspace(-1, 1, 2 * 3 * 12 * 8).reshape(2, 3, 12, 8)


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


def test_relative_logits_are_the_query_times_the_embedding_of_the_offset() -> None:
    tokens, width = 4, 6
    offsets = Offsets(tokens, width, std=1.0).double()
    q = torch.randn(2, 3, tokens, width, dtype=torch.float64)
    logits = offsets(q)
    assert logits.shape == (2, 3, tokens, tokens)
    for i in range(tokens):
        for j in range(tokens):
            embedding = offsets.table[i - j + tokens - 1]  # offsets run from -(tokens - 1)
            expected = (q[:, :, i] * embedding).sum(-1) / math.sqrt(width)
            torch.testing.assert_close(logits[:, :, i, j], expected)


def test_there_is_one_relative_table_a_layer_and_every_offset_learns() -> None:
    model = replace(CONFIG, position=Relative()).build()
    torch.nn.init.normal_(model.head.classifier.weight)
    torch.nn.init.normal_(model.embed.special.class_token)
    model(IMAGES).square().sum().backward()
    tables = [block.attention.offsets.table for block in model.encoder.blocks]
    assert [tuple(table.shape) for table in tables] == [(13, 4)] * 3
    assert all((table.grad.abs().sum(1) > 0).all() for table in tables[:2])
    assert (tables[2].grad.abs().sum(1) > 0).tolist() == [True] * 7 + [False] * 6  # where the class token alone asks


def test_the_offsets_refuse_another_number_of_tokens() -> None:
    with pytest.raises(UsageError, match="5 tokens came, the offsets know 4: adapt the model to this size"):
        Offsets(4, 6, 0.02)(torch.zeros(1, 1, 5, 6))


@pytest.mark.parametrize("kind", [Learned1D(), Learned2D(), SinCos2D(), Sinusoidal1D()])
def test_another_grid_is_refused_even_of_as_many_patches(kind: Position) -> None:
    module = kind.build(WIDTH, GRID, ())
    with pytest.raises(UsageError, match=r"the picture has 2x3 patches, the positions are for 3x2: load the weights"):
        module(Tokens(torch.zeros(1, 6, WIDTH), 0, (2, 3)))


def positioned(kind: type[Learned1D | Learned2D | SinCos2D | Sinusoidal1D], at: At) -> ViT:
    model = replace(CONFIG, position=kind(at=at)).build()
    torch.nn.init.normal_(model.head.classifier.weight)
    return model


@pytest.mark.parametrize("kind", [Learned1D, Learned2D, SinCos2D, Sinusoidal1D])
@pytest.mark.parametrize(("at", "inside"), [("stem", 0), ("every", 3), ("shared", 1)])
def test_tables_stand_at_the_stem_or_in_every_layer_or_are_shared(kind: type, at: At, inside: int) -> None:
    model = positioned(kind, at)
    assert isinstance(model.embed.position, torch.nn.Identity) == (at != "stem")
    assert isinstance(model.encoder.position, Layerwise) == (at != "stem")
    if inside:
        assert len(model.encoder.position.tables) == inside


@pytest.mark.parametrize("kind", [Learned1D, Learned2D])
@pytest.mark.parametrize(("at", "tables"), [("stem", 1), ("every", 3), ("shared", 1)])
def test_a_shared_table_is_one_parameter_and_one_in_every_layer_is_depth_of_them(
    kind: type, at: At, tables: int
) -> None:
    names = [name for name, _ in positioned(kind, at).named_parameters() if ".position." in name]
    assert len(names) == tables * (1 if kind is Learned1D else 2)


@pytest.mark.parametrize("kind", [Learned1D, Learned2D, SinCos2D, Sinusoidal1D])
@pytest.mark.parametrize("at", ["every", "shared"])
def test_layerwise_positions_are_added_before_each_block(kind: type, at: At) -> None:
    model = positioned(kind, at)
    tokens = model.embed(IMAGES)
    for layer, block in enumerate(model.encoder.blocks):
        table = model.encoder.position.tables[layer if at == "every" else 0]
        tokens = tokens.replace(block(table(tokens).x))
    expected = model.head(model.pool(tokens.replace(model.encoder.norm(tokens.x))))
    torch.testing.assert_close(model(IMAGES), expected)


def test_a_shared_table_gets_the_gradients_of_all_layers() -> None:
    every, shared = positioned(Learned1D, "every"), positioned(Learned1D, "shared")
    state = every.state_dict()
    one = state["encoder.position.tables.0.table"]
    every.load_state_dict({name: one if ".tables." in name else tensor for name, tensor in state.items()})
    shared.load_state_dict({name: state[name] for name in shared.state_dict()})
    for model in (every, shared):
        model(IMAGES).square().sum().backward()
    gradients = [table.table.grad for table in every.encoder.position.tables]
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    torch.testing.assert_close(shared.encoder.position.tables[0].table.grad, sum(gradients))


@pytest.mark.parametrize("at", ["stem", "every", "shared"])
def test_every_row_of_a_table_learns(at: At) -> None:
    model = positioned(Learned1D, at)
    model(IMAGES).square().sum().backward()
    tables = [parameter for name, parameter in model.named_parameters() if name.endswith(".table")]
    assert all((table.grad.abs().sum(-1) > 0).all() for table in tables)
