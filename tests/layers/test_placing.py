"""Tables on another grid than their own, at the stem or in the layers (Table 8)."""

from dataclasses import replace

import pytest
import torch

from patchwords.errors import UsageError
from patchwords.layers.placing import InEncoder, Layerwise
from patchwords.layers.position import (
    At,
    Fixed1D,
    Learned1D,
    Learned2D,
    NoPosition,
    Position,
    Relative,
    RelativeBias,
    SinCos2D,
    Sinusoidal1D,
)
from patchwords.layers.tokens import Tokens
from patchwords.models.vit import ViT, ViTConfig
from patchwords.ops.resampling import resample_table

WIDTH, GRID = 8, (3, 2)
CONFIG = ViTConfig(depth=3, width=8, mlp=12, heads=2, patch=(4, 4), image=(12, 8), classes=5)
IMAGES = torch.linspace(-1, 1, 2 * 3 * 12 * 8).reshape(2, 3, 12, 8)


@pytest.mark.parametrize("kind", [Learned1D(), Learned2D(), SinCos2D(), Sinusoidal1D(), Fixed1D()])
def test_another_grid_is_refused_even_of_as_many_patches(kind: Position) -> None:
    module = kind.build(WIDTH, GRID, ())
    with pytest.raises(UsageError, match=r"the picture has 2x3 patches, the positions are for 3x2: load the weights"):
        module(Tokens(torch.zeros(1, 6, WIDTH), 0, (2, 3)))


@pytest.mark.parametrize("kind", [Learned1D(), Learned2D(), SinCos2D(), SinCos2D(law="mae"), Sinusoidal1D(), Fixed1D()])
@pytest.mark.parametrize("grid", [(2, 2), (5, 3), GRID])
def test_on_another_grid_a_table_is_the_resampled_one(kind: Position, grid: tuple[int, int]) -> None:
    module = kind.build(WIDTH, GRID, ("class",))
    zeros = torch.zeros(1, 1 + grid[0] * grid[1], WIDTH)
    found = module.elsewhere(Tokens(zeros, 1, grid))
    own = module(Tokens(torch.zeros(1, 7, WIDTH), 1, GRID)).x  # the table, the class token's row with it
    torch.testing.assert_close(found.x, resample_table(own, GRID, grid, "bicubic"))
    assert (found.prefix, found.grid) == (1, grid)


def test_every_row_of_a_table_learns_on_another_grid() -> None:
    for kind in (Learned1D(), Learned2D()):
        module = kind.build(WIDTH, GRID, ("class",))
        tokens = Tokens(torch.zeros(2, 5, WIDTH), 1, (2, 2))
        (module.elsewhere(tokens).x * torch.randn(2, 5, WIDTH)).sum().backward()
        for parameter in module.parameters():
            assert parameter.grad is not None
            assert (parameter.grad.abs().sum(-1) > 0).all()


def test_no_positions_are_none_on_any_grid() -> None:
    tokens = Tokens(torch.randn(2, 5, WIDTH), 1, (2, 2))
    assert NoPosition().build(WIDTH, GRID, ("class",)).elsewhere(tokens) is tokens


@pytest.mark.parametrize("kind", [Relative(), RelativeBias(), Learned1D(at="every"), SinCos2D(at="shared")])
def test_positions_that_live_in_the_layers_refuse_another_grid(kind: Position) -> None:
    model = replace(CONFIG, position=kind).build()
    with pytest.raises(UsageError, match="one grid of patches"):
        model.glimpse(torch.zeros(1, 3, 8, 8))


def test_a_glimpse_compiles_and_is_the_model_adapted_to_that_size() -> None:
    model = CONFIG.build()
    smaller = replace(CONFIG, image=(8, 12)).build()
    table = resample_table(model.embed.position.table, GRID, (2, 3), "bicubic")
    smaller.load_state_dict(model.state_dict() | {"embed.position.table": table})
    images = torch.randn(2, 3, 8, 12)
    torch.testing.assert_close(model.glimpse(images), smaller.represent(images))
    compiled = torch.compile(model.glimpse, backend="eager", fullgraph=True)
    assert torch.equal(compiled(images), model.glimpse(images))


def test_a_matrix_that_was_first_needed_without_gradients_still_serves_them() -> None:
    module = Learned1D().build(WIDTH, (7, 7), ())
    tokens = Tokens(torch.zeros(1, 9, WIDTH), 0, (3, 3))
    with torch.inference_mode():
        module.elsewhere(tokens)
    module.elsewhere(tokens).x.square().sum().backward()
    assert module.table.grad is not None


def positioned(kind: type[Learned1D | Learned2D | SinCos2D | Sinusoidal1D], at: At) -> ViT:
    model = replace(CONFIG, position=kind(at=at)).build()
    torch.nn.init.normal_(model.head.classifier.weight)
    return model


@pytest.mark.parametrize("kind", [Learned1D, Learned2D, SinCos2D, Sinusoidal1D])
@pytest.mark.parametrize(("at", "inside"), [("stem", 0), ("every", 3), ("shared", 1)])
def test_tables_stand_at_the_stem_or_in_every_layer_or_are_shared(kind: type, at: At, inside: int) -> None:
    model = positioned(kind, at)
    assert isinstance(model.embed.position, InEncoder) == (at != "stem")
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
