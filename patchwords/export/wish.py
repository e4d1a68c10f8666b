"""What is asked of an exported file."""

from dataclasses import dataclass
from typing import Literal

from patchwords.settings import check

Input = Literal["images", "pixels"]
Sizes = Literal["fixed", "any"]
Precision = Literal["float32", "int8"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """`images` are standardised floats (batch, channels, height, width), as the model takes them; `pixels` are uint8
    (batch, height, width, channels), as decoders give them, which the file standardises itself."""

    input: Input = "images"
    sizes: Sizes = "fixed"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        check(self)
