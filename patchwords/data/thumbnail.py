"""Small pictures for pages."""

import io

from PIL import Image

from patchwords.data.picture import decode
from patchwords.data.sources.source import Pixels

SIDE = 160
TINY = 48  # pictures up to this size are enlarged in whole steps, so that their pixels can be seen


def thumbnail(raw: bytes | Pixels, side: int = SIDE) -> bytes:
    """A JPEG, or of a tiny picture a PNG, no larger than `side` on either side."""
    image = decode(_visible(raw), 3, least=(side, side))
    if max(image.size) <= min(TINY, side):
        times = side // max(image.size)
        return _encoded(image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST), "PNG")
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    return _encoded(image, "JPEG")


def _visible(raw: bytes | Pixels) -> bytes | Pixels:
    """Of an array with other channels than grey or red, green and blue the first three, or the first."""
    if isinstance(raw, bytes) or raw.shape[2] in (1, 3):
        return raw
    return raw[:, :, : 3 if raw.shape[2] > 3 else 1]


def _encoded(image: Image.Image, kind: str) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, quality=85)
    return data.getvalue()
