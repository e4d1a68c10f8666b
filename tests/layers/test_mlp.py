"""Dense, GELU, Dense, with the GELU that the weights were trained with."""

import math

import torch

from patchwords.layers.mlp import MLP


def test_gelu_tanh_is_the_approximation_and_gelu_the_error_function() -> None:
    x = torch.linspace(-4, 4, 101, dtype=torch.float64)
    tanh = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    exact = 0.5 * x * (1 + torch.special.erf(x / math.sqrt(2)))
    torch.testing.assert_close(MLP(2, 2, "gelu-tanh", 0.0).activation(x), tanh)
    torch.testing.assert_close(MLP(2, 2, "gelu", 0.0).activation(x), exact)
    assert (tanh - exact).abs().max() > 1e-4


def test_an_mlp_is_local_to_its_token() -> None:
    mlp = MLP(6, 10, "gelu-tanh", 0.0).double()
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    by_token = torch.stack([mlp(x[:, token]) for token in range(5)], 1)
    torch.testing.assert_close(mlp(x), by_token)


def test_an_mlp_is_two_dense_layers_around_the_activation() -> None:
    mlp = MLP(6, 10, "gelu", 0.0).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    hidden = x @ mlp.fc1.weight.T + mlp.fc1.bias
    hidden = 0.5 * hidden * (1 + torch.special.erf(hidden / math.sqrt(2)))
    torch.testing.assert_close(mlp(x), hidden @ mlp.fc2.weight.T + mlp.fc2.bias)
