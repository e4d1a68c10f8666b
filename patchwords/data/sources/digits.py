"""The built-in data set: scikit-learn's 1797 handwritten digits of 8x8 grey pixels."""

import numpy as np

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.parts import assemble
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split

NAME = "digits"


def read(settings: Split | None) -> Data:
    """The digits, their 17 shades of grey spread over 0 to 255."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.round(bunch.images * (255 / 16)).astype(np.uint8)[..., None]  # (n, 8, 8, 1)
    source = Arrays(images, bunch.target.astype(np.int64), NAME)
    return assemble(NAME, [str(digit) for digit in range(10)], {"train": source}, settings, channels=1)
