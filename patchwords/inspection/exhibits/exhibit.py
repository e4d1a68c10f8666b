"""What every exhibit is: a figure, the numbers in it, and what else there is to say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import ModelError
from patchwords.pages.both import Both


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """Which words explain it, its bytes, its numbers, and remarks for the page."""

    words: str
    png: bytes
    numbers: dict[str, Any]
    remarks: tuple[Both, ...] = ()


def refuse_non_finite(values: NDArray[Any], what: str) -> None:
    if not np.isfinite(values).all():
        raise ModelError(f"the {what} are not all finite numbers: the weights are damaged, get them anew")
