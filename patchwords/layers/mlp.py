"""The MLP of eq. 3: two layers with a GELU between them."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn

from patchwords.layers.initialise import dense

Activation = Literal["gelu-tanh", "gelu"]

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "gelu-tanh": partial(nn.GELU, approximate="tanh"),  # what JAX computes, and so the official code
    "gelu": nn.GELU,  # timm, transformers, torchvision
}


class MLP(nn.Module):
    """Dense, GELU, Dense; dropout after each dense layer."""

    def __init__(self, width: int, hidden: int, activation: Activation, dropout: float):
        super().__init__()
        self.fc1 = dense(width, hidden)
        self.activation = ACTIVATIONS[activation]()
        self.fc2 = dense(hidden, width)
        self.drop = nn.Dropout(dropout)
        nn.init.normal_(self.fc1.bias, std=1e-6)
        nn.init.normal_(self.fc2.bias, std=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.activation(self.fc1(x)))
        return self.drop(self.fc2(x))
