"""App. B.1: dropout after every dense layer but q, k, v and right after the positions; and layers left out whole."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers import attention as attention_layer
from patchwords.layers.pool import Mean
from patchwords.layers.residual import StochasticDepth
from patchwords.layers.tokens import Tokens
from patchwords.models.hybrid import ResNetStem
from patchwords.models.vit import ViT, ViTConfig

CONFIG = ViTConfig(depth=3, width=16, mlp=24, heads=2, patch=(8, 8), image=(16, 16), classes=4, dropout=0.5)
IMAGES = torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)


@pytest.fixture
def model() -> ViT:
    return CONFIG.build().train()


def recorded(model: ViT) -> tuple[dict[str, list[Tensor]], dict[str, list[Tensor]]]:
    """What went into each dropout, and what came out of everything else, by name of the module."""
    inputs: dict[str, list[Tensor]] = {}
    outputs: dict[str, list[Tensor]] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_pre_hook(lambda _, args, name=name: inputs.setdefault(name, []).append(args[0]))
        else:
            module.register_forward_hook(
                lambda _, args, out, name=name: outputs.setdefault(name, []).append(
                    out.x if isinstance(out, Tokens) else out
                )
            )
    model(IMAGES)
    return inputs, outputs


def places(depth: int) -> Iterator[tuple[str, str]]:
    """Each dropout with the module right before it."""
    yield "embed.drop", "embed.position"
    for layer in range(depth):
        block = f"encoder.blocks.{layer}"
        yield f"{block}.attention.drop", f"{block}.attention.out"
        yield f"{block}.mlp.drop", f"{block}.mlp.activation"
        yield f"{block}.mlp.drop", f"{block}.mlp.fc2"


def test_dropout_stands_after_the_positions_the_output_projection_and_both_dense_layers_and_nowhere_else(
    model: ViT,
) -> None:
    inputs, outputs = recorded(model)
    expected: dict[str, list[Tensor]] = {}
    for drop, before in places(CONFIG.depth):
        expected.setdefault(drop, []).extend(outputs[before])
    assert inputs.keys() == expected.keys()
    for name, tensors in expected.items():
        assert [id(tensor) for tensor in inputs[name]] == [id(tensor) for tensor in tensors]


def test_no_function_drops_values_besides_those_modules(model: ViT, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    plain = F.dropout

    def counting(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        rates.append(p)
        return plain(x, p, training, inplace)

    monkeypatch.setattr(F, "dropout", counting)
    model(IMAGES)
    assert rates == [0.5] * (1 + 3 * CONFIG.depth)


def test_a_hybrid_stem_drops_nothing() -> None:
    config = replace(CONFIG, stem=ResNetStem(units=(1,), width=32), patch=(2, 2))
    stem = config.build().embed.stem
    assert not any(isinstance(module, nn.Dropout) for module in stem.modules())


def test_dropout_of_one_leaves_nothing_after_eq_1_and_nothing_of_a_branch(model: ViT) -> None:
    for drop in (module for module in model.modules() if isinstance(module, nn.Dropout)):
        drop.p = 1.0
    tokens = model.embed(IMAGES)
    assert not tokens.x.any()
    x = torch.randn(2, 5, 16)
    assert torch.equal(model.encoder.blocks[0](x), x)


@pytest.mark.parametrize(("mode", "rate"), [("train", 0.25), ("eval", 0.0)])
def test_weight_dropout_is_asked_of_the_kernel_in_training_alone(
    monkeypatch: pytest.MonkeyPatch, mode: str, rate: float
) -> None:
    rates: list[float] = []

    def recording(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        rates.append(dropout)
        return v

    monkeypatch.setattr(attention_layer, "attention", recording)
    replace(CONFIG, weight_dropout=0.25).build().train(mode == "train")(IMAGES)
    assert rates == [rate] * CONFIG.depth


def test_weight_dropout_changes_what_training_sees_by_chance() -> None:
    block = replace(CONFIG, dropout=0.0, weight_dropout=0.5).build().encoder.blocks[0]
    x = torch.randn(2, 5, 16)
    assert not torch.equal(block.train()(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


def test_stochastic_depth_rises_linearly_from_zero_over_the_layers() -> None:
    blocks = replace(CONFIG, depth=5, stochastic_depth=0.4).build().encoder.blocks
    assert [block.drop.rate for block in blocks] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_stochastic_depth_rises_linearly_over_the_pairs_of_an_axial_encoder() -> None:
    config = replace(CONFIG, encoder="axial", special=(), pool=Mean(), depth=3, stochastic_depth=0.4)
    pairs = config.build().encoder.blocks
    assert [pair.along_rows.drop.rate for pair in pairs] == pytest.approx([0.0, 0.2, 0.4])
    assert [pair.along_cols.drop.rate for pair in pairs] == pytest.approx([0.0, 0.2, 0.4])


def test_the_only_layer_of_a_model_is_never_left_out() -> None:
    (block,) = replace(CONFIG, depth=1, stochastic_depth=0.4).build().encoder.blocks
    assert block.drop.rate == 0.0


def test_stochastic_depth_keeps_the_expectation_and_drops_whole_samples() -> None:
    x = torch.ones(20_000, 3, 2)
    y = StochasticDepth(0.3).train()(x)
    assert (y == y[:, :1, :1]).all()
    assert y.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert y.mean().item() == pytest.approx(1.0, abs=0.02)
    assert (y[:, 0, 0] == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)


def test_dropout_keeps_the_expectation(model: ViT) -> None:
    x = torch.ones(40_000)
    for drop in (model.embed.drop, model.encoder.blocks[0].attention.drop, model.encoder.blocks[0].mlp.drop):
        assert drop(x).mean().item() == pytest.approx(1.0, abs=0.02)


def test_both_branches_of_a_layer_are_left_out_each_by_itself() -> None:
    config = replace(CONFIG, dropout=0.0, depth=2, stochastic_depth=0.5)
    block = config.build().encoder.blocks[1].train()
    x = torch.randn(1, 5, 16).expand(400, -1, -1)
    kinds = block(x).detach().flatten(1).unique(dim=0)
    assert len(kinds) == 4  # neither, the one, the other, both


def test_when_evaluating_nothing_is_left_out() -> None:
    regular = replace(CONFIG, weight_dropout=0.5, stochastic_depth=0.5).build()
    nn.init.normal_(regular.head.classifier.weight)
    plain = replace(CONFIG, dropout=0.0).build()
    plain.load_state_dict(regular.state_dict())
    assert torch.equal(regular.eval()(IMAGES), plain.eval()(IMAGES))
    assert torch.equal(regular(IMAGES), plain.train()(IMAGES))
    assert not torch.equal(regular.train()(IMAGES), plain(IMAGES))
