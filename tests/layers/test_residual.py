"""What happens to a branch: a factor for each channel, or left out as a whole while training."""

import pytest
import torch

from patchwords.layers.residual import LayerScale, StochasticDepth


def test_layer_scale_multiplies_each_channel_by_its_factor() -> None:
    scale = LayerScale(3, 0.5)
    with torch.no_grad():
        scale.weight.copy_(torch.tensor([1.0, 2.0, 3.0]))
    assert torch.equal(scale(torch.ones(2, 4, 3)), torch.tensor([1.0, 2.0, 3.0]).expand(2, 4, 3))


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 2, 2)])
def test_stochastic_depth_decides_once_for_each_sample_of_any_shape(shape: tuple[int, ...]) -> None:
    y = StochasticDepth(0.5)(torch.ones(64, *shape)).flatten(1)
    assert (y == y[:, :1]).all()
    assert set(y.unique().tolist()) == {0.0, 2.0}


def test_stochastic_depth_rests_when_evaluating_or_at_rate_zero() -> None:
    x = torch.randn(64, 3)
    assert StochasticDepth(0.5).eval()(x) is x
    assert StochasticDepth(0.0)(x) is x


def test_stochastic_depth_keeps_the_type() -> None:
    assert StochasticDepth(0.5)(torch.ones(4, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16
