"""BEiT: what its name stands for, and how a bias between patches acts in the whole model."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.pool import Mean
from patchwords.layers.position import RelativeBias
from patchwords.models.build import blank, build
from patchwords.models.names import Config, read
from patchwords.models.vit import ViT, ViTConfig

NAMES = ["beit", "beit shared", "relative bias without special tokens"]
beits = pytest.mark.parametrize("small_config", NAMES, indirect=True)


@pytest.fixture
def model(small_config: ViTConfig) -> ViT:
    """With a bias that shows."""
    made = small_config.build().eval()
    for name, parameter in made.named_parameters():
        if name.endswith("table") or parameter.min() == parameter.max():
            nn.init.normal_(parameter)
    return made


def pictures(config: Config) -> Tensor:
    return torch.randn(2, config.channels, *config.image)


@pytest.mark.parametrize(("name", "scale"), [("BEiT-B/16", 0.1), ("BEiT-L/16", 1e-5), ("BEiT-L/16@512", 1e-5)])
def test_a_name_is_the_vit_of_that_size_with_beits_parts(name: str, scale: float) -> None:
    plain = read(name.replace("BEiT", "ViT"))
    parts = {"position": RelativeBias(), "biases": "qv", "pool": Mean(norm="after")}
    assert read(name) == replace(plain, **parts, activation="gelu", layer_scale=scale)


@beits
def test_the_weights_that_gaze_shows_are_those_the_forward_uses(model: ViT) -> None:
    looks = model.gaze(pictures(model.config)).looks
    for block, tokens in looks:
        attention = block.attention
        q, k, v = attention.split(block.norm1(tokens.x))
        weights = (q @ k.mT * q.shape[-1] ** -0.5 + attention.offsets(q)).softmax(-1)
        torch.testing.assert_close(block.weights(tokens.x), weights)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        mixed = attention.out((weights @ v).transpose(1, 2).flatten(2))
        torch.testing.assert_close(attention(block.norm1(tokens.x)), mixed)
    assert model.shows == "gaze"


@beits
def test_pieces_of_the_weights_are_the_weights(model: ViT) -> None:
    for look in model.gaze(pictures(model.config)).looks:
        whole = torch.zeros_like(look.weights())
        for heads, rows, weights in look.pieces(40):
            whole[:, heads, rows] = weights
        torch.testing.assert_close(whole, look.weights())


@beits
def test_only_the_biases_know_where_a_patch_is(model: ViT) -> None:
    """Without them patches may stand in any order; with them they may not."""
    x = model.embed(pictures(model.config))
    order = torch.arange(x.x.shape[1])
    order[x.prefix :] = order[x.prefix :].flip(0)
    order[x.prefix + 1 :] = order[x.prefix + 1 :].roll(1)
    moved = x.replace(x.x[:, order])
    assert not torch.allclose(model.encoder(moved).x, model.encoder(x).x[:, order], atol=1e-3)
    for name, parameter in model.named_parameters():
        if name.endswith("table"):
            nn.init.zeros_(parameter)
    torch.testing.assert_close(model.encoder(moved).x, model.encoder(x).x[:, order])


@beits
def test_a_picture_moved_within_a_wider_one_keeps_its_biases(small_config: ViTConfig) -> None:
    """Offsets count, not places: the biases among some patches are the same wherever they stand together."""
    model = build(small_config)
    bias = model.encoder.blocks[0].attention.offsets
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    tokens, prefix, (rows, cols) = small_config.tokens, len(small_config.special), small_config.grid
    added = bias(torch.zeros(1, small_config.heads, tokens, 1))[0][:, prefix:, prefix:]
    added = added.unflatten(2, (rows, cols)).unflatten(1, (rows, cols))  # (heads, row, col, row, col)
    assert torch.equal(added[:, 1:, 1:, 1:, 1:], added[:, :-1, :-1, :-1, :-1])


@beits
def test_every_parameter_gets_a_gradient_and_training_changes_the_biases(model: ViT) -> None:
    model.train()(pictures(model.config)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@beits
def test_a_model_without_memory_is_filled_whole(model: ViT) -> None:
    empty = blank(model.config)
    empty.load_state_dict(model.state_dict(), assign=True)
    x = pictures(model.config)
    assert torch.equal(empty.eval()(x), model(x))


@beits
def test_a_copy_is_its_own(model: ViT) -> None:
    x, other = pictures(model.config), copy.deepcopy(model)
    assert torch.equal(other(x), model(x))
    before = model(x).clone()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    assert torch.equal(model(x), before)
    assert not torch.equal(other(x), before)


@beits
def test_half_precision_and_double_run_through(model: ViT) -> None:
    x = pictures(model.config)
    with torch.autocast("cpu", torch.bfloat16):
        assert (model(x).float() - model(x)).abs().max() < 0.2
    assert model.bfloat16()(x.bfloat16()).isfinite().all()
    assert model.double()(x.double()).dtype == torch.float64


def test_a_shared_table_is_in_the_weights_once(small_configs: dict[str, Config]) -> None:
    model = small_configs["beit shared"].build()
    assert [name for name in model.state_dict() if name.endswith("table")] == ["encoder.position.bias.table"]
    tables = {attention.offsets.lender[0] for attention in (block.attention for block in model.encoder.blocks)}
    assert tables == {model.encoder.position.bias}


def test_one_table_computes_what_equal_tables_in_every_block_do(small_configs: dict[str, Config]) -> None:
    shared = small_configs["beit shared"].build().eval()
    nn.init.normal_(shared.encoder.position.bias.table)
    every = replace(shared.config, position=RelativeBias()).build().eval()
    state = dict(shared.state_dict())
    table = state.pop("encoder.position.bias.table")
    state |= {f"encoder.blocks.{i}.attention.offsets.table": table for i in range(shared.config.depth)}
    every.load_state_dict(state)
    x = pictures(shared.config)
    assert torch.equal(shared(x), every(x))


@beits
def test_another_grid_with_as_many_patches_is_refused(model: ViT) -> None:
    height, width = model.config.image
    turned = (width // 8 * 8, height // 8 * 8)
    with pytest.raises(UsageError, match="3x4 patches, the positions are for 4x3"):
        model(torch.randn(1, 3, *turned))


@beits
def test_there_is_nothing_to_show_of_positions(model: ViT) -> None:
    with pytest.raises(UsageError, match="positions of kind relative-bias add nothing to a patch for its place"):
        model.positions()


@beits
def test_one_graph_holds_forward_and_backward(model: ViT, randomised: Callable[[nn.Module], nn.Module]) -> None:
    x = pictures(model.config)
    wanted = model(x)
    other = copy.deepcopy(model)
    other.compile(fullgraph=True, backend="aot_eager")
    found = other(x)
    torch.testing.assert_close(found, wanted)
    found.sum().backward()
    wanted.sum().backward()
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(theirs.grad, mine.grad, msg=name)


@pytest.mark.parametrize("at", ["every", "shared"])
def test_a_picture_with_more_pairs_of_patches_than_memory_holds_is_refused_before_it_is_tried(at: str) -> None:
    config = replace(read("BEiT-B/16"), position=RelativeBias(at=at))  # type: ignore[arg-type]
    assert replace(config, image=(1024, 1024)).tokens == 4097
    with pytest.raises(UsageError, match="40001 tokens have more pairs than biases can be kept for"):
        replace(config, image=(3200, 3200))
