"""The residual block of DALL-E's discrete VAE (arXiv 2102.12092, App. A): four convolutions, each behind a ReLU."""

from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.initialise import lecun_normal_
from patchwords.layers.unit import Unit


def conv(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    """A convolution that keeps the size of the map; variance 1 / fan in, biases at zero."""
    layer = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
    lecun_normal_(layer.weight)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


class ResidualConv(Unit):
    """x to shortcut(x) + gain · branch(x); the branch is a quarter as wide as the output."""

    def __init__(self, inputs: int, outputs: int, gain: float):
        super().__init__()
        hidden, self.gain = outputs // 4, gain
        self.shortcut = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1)
        self.conv1 = conv(inputs, hidden, 3)
        self.conv2 = conv(hidden, hidden, 3)
        self.conv3 = conv(hidden, hidden, 3)
        self.conv4 = conv(hidden, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(x))
        y = self.conv2(F.relu(y))
        y = self.conv3(F.relu(y))
        y = self.conv4(F.relu(y))
        return self.shortcut(x) + self.gain * y


class ConvGroup(nn.Module):
    """Blocks of one resolution; the first of them changes the channels."""

    def __init__(self, blocks: int, inputs: int, outputs: int, gain: float):
        super().__init__()
        first = ResidualConv(inputs, outputs, gain)
        self.blocks = nn.ModuleList([first, *(ResidualConv(outputs, outputs, gain) for _ in range(blocks - 1))])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x
