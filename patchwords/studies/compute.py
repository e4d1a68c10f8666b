"""What a training costs, as Table 6 and Figure 5 count it: two operations for a multiply-add, forward and backward."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from patchwords.models.build import blank
from patchwords.models.names import Config
from patchwords.training.groups import freeze

EXA = 1e18
UNITS = {"exaFLOPs": 1.0, "PFLOPs": 1e3, "TFLOPs": 1e6, "GFLOPs": 1e9, "MFLOPs": 1e12}  # in an exaFLOP


def a_picture(config: Config, frozen: str = "") -> int:
    """Operations to learn from one picture, counted on the meta device; what is frozen needs no gradients."""
    model = blank(config).to("meta")
    freeze(model, frozen)
    images = torch.empty(1, config.channels, *config.image, device="meta")
    with FlopCounterMode(display=False) as counter:
        model(images).sum().backward()
    return counter.get_total_flops()


def training(config: Config, pictures: float, frozen: str = "") -> float:
    """ExaFLOPs of a training that is shown so many pictures, those that it sees again counted again."""
    return a_picture(config, frozen) * pictures / EXA


def unit(exaflops: float) -> tuple[str, float]:
    """The largest unit of which there is one at least, and how many of it an exaFLOP has."""
    return next((pair for pair in UNITS.items() if exaflops * pair[1] >= 1), ("MFLOPs", UNITS["MFLOPs"]))


def worded(exaflops: float) -> str:
    """Operations as people read them."""
    name, many = unit(exaflops)
    number = exaflops * many
    return f"{number:.3g} {name}" if number < 999.5 else f"{number:,.0f} {name}"  # and not 1e+03
