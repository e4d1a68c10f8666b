"""Table 1, and the sizes that later papers gave letters to."""

from typing import NamedTuple


class Size(NamedTuple):
    depth: int
    width: int
    mlp: int
    heads: int


SIZES = {
    "Mu": Size(1, 32, 128, 2),
    "Ti": Size(12, 192, 768, 3),
    "S": Size(12, 384, 1536, 6),
    "M": Size(12, 512, 2048, 8),
    "B": Size(12, 768, 3072, 12),  # Table 1
    "L": Size(24, 1024, 4096, 16),  # Table 1
    "H": Size(32, 1280, 5120, 16),  # Table 1
    "So400m": Size(27, 1152, 4304, 16),
    "g": Size(40, 1408, 6144, 16),
    "g-opt": Size(40, 1536, 6144, 16),
    "G": Size(48, 1664, 8192, 16),
    "G-opt": Size(48, 1536, 8192, 16),
    "e": Size(56, 1792, 15360, 16),
}

# The Compact Transformers paper's ViT-Lite, by number of layers.
LITE = {
    2: Size(2, 128, 128, 2),
    4: Size(4, 128, 128, 2),
    6: Size(6, 256, 512, 4),
    7: Size(7, 256, 512, 4),
    14: Size(14, 384, 1152, 6),
}
DIGITS = Size(depth=4, width=64, mlp=128, heads=4)  # for the 8x8 digits, in 2x2 patches
