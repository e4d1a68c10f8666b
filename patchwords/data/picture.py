"""One picture, from the bytes of a file or from an array, to upright 8-bit pixels: the only place that decodes.

`docs/pictures.md` says how each kind of picture is treated. Whatever is wrong with one comes out as BrokenPictureError.
"""

import abc
import logging
import os
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Literal, NamedTuple

import numpy as np
from PIL import (
    Image,
    JpegImagePlugin,
    TiffImagePlugin,
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401  (otherwise Pillow loads every format it knows to find this one)
)

from patchwords.data.modes import convert, flatten
from patchwords.data.sources.source import Pixels
from patchwords.errors import DataError, PatchwordsError, UsageError

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
MOST_PIXELS = 50_000_000
TOO_LARGE = f"it has more than {MOST_PIXELS // 1_000_000} million pixels: make it smaller first"
ORIENTATION = 0x0112  # the number of this tag in EXIF, which took it from TIFF
TURNS = {  # the camera's note, and what makes the picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
BACK = TURNS | {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}  # the others undo themselves
SIDEWAYS = (5, 6, 7, 8)
UPSIDE_DOWN, MIRRORED = (3, 4, 7, 8), (2, 3, 6, 7)  # whose stored end becomes the top, the left

logging.getLogger("PIL").addHandler(logging.NullHandler())  # its remarks on damaged files are not for stderr

Orientation = Literal["upright", "stored"]
Size = tuple[int, int]  # height, width


class BrokenPictureError(DataError):
    """A picture that cannot be used; the sentence is the reason, and the caller knows the name."""


class Decoded(NamedTuple):
    """One RGB or L picture, or an L picture for each of another number of channels; perhaps at a part of its size."""

    planes: tuple[Image.Image, ...]
    reduction: int = 1
    start: tuple[float, float] = (0.0, 0.0)  # row and column where it begins: before it may lie a part of a pixel


class Picture(abc.ABC):
    """A picture whose header was read, to be decoded once."""

    size: Size  # as it will be seen
    mode: str  # Pillow's word for the kind of its pixels
    transparent: bool = False
    turn: int = 1  # the camera's note
    common: bool = False  # a whole baseline JPEG in YCbCr, which every decoder of JPEG reads alike

    @abc.abstractmethod
    def decode(self, channels: int, least: Size | None = None) -> Decoded:
        """The pixels; a JPEG may come at a half, a quarter or an eighth, if that is no smaller than `least`."""


def open_picture(raw: bytes | Pixels, orientation: Orientation = "upright") -> Picture:
    """Reads the header alone, and refuses what is no picture or too large."""
    return _FilePicture(raw, orientation) if isinstance(raw, bytes) else _ArrayPicture(raw)


def decode(
    raw: bytes | Pixels, channels: int, *, orientation: Orientation = "upright", least: Size | None = None
) -> Image.Image:
    """A picture of one channel (L) or three (RGB)."""
    if channels not in (1, 3):
        raise UsageError(f"a picture of {channels} channels cannot be shown: 1 and 3 can")
    return open_picture(raw, orientation).decode(channels, least).planes[0]


def read_size(raw: bytes | Pixels, orientation: Orientation = "upright") -> Size:
    """Height and width, from the header."""
    return open_picture(raw, orientation).size


class _FilePicture(Picture):
    def __init__(self, raw: bytes, orientation: Orientation):
        if not raw:
            raise BrokenPictureError("the file is empty")
        self.orientation = orientation
        with guarded():
            self.image = Image.open(BytesIO(raw), formats=FORMATS)
            check_size(*self.image.size)
            self.mode, self.transparent = self.image.mode, self.image.has_transparency_data
            self.turn = _read_turn(self.image, raw)
            self.common = _is_common(self.image, raw)
            width, height = self.image.size
            if _turned_by_pillow(self.image) != (orientation == "upright" and self.turn in SIDEWAYS):
                width, height = height, width
            self.size = height, width

    def decode(self, channels: int, least: Size | None = None) -> Decoded:
        if channels not in (1, 3):
            raise UsageError(f"picture files give 1 or 3 channels, not {channels}: use arrays (.npz)")
        with guarded():
            reduction = self._reduce(least) if least else 1
            image = convert(flatten(self._turned()), channels)
            return Decoded((image,), reduction, self._start(image, reduction))

    def _reduce(self, least: Size) -> int:
        sideways = self.orientation == "upright" and self.turn in SIDEWAYS
        height, width = reversed(least) if sideways else least
        before = self.image.width
        drafted = self.image.draft(self.image.mode, (width, height))
        return round(before / drafted[1][2]) if drafted else 1

    def _start(self, image: Image.Image, reduction: int) -> tuple[float, float]:
        """A reduced JPEG ends with a part of a pixel if its size is no multiple; turned, it may begin with that."""
        turn = self.turn if self.orientation == "upright" else 1
        rows, cols = (side / reduction for side in self.size)
        return image.height - rows if turn in UPSIDE_DOWN else 0.0, image.width - cols if turn in MIRRORED else 0.0

    def _turned(self) -> Image.Image:
        self.image.load()
        if isinstance(self.image, TiffImagePlugin.TiffImageFile):  # Pillow has already turned these
            turn = BACK.get(self.turn) if self.orientation == "stored" else None
        else:
            turn = TURNS.get(self.turn) if self.orientation == "upright" else None
        return self.image if turn is None else self.image.transpose(turn)


class _ArrayPicture(Picture):
    def __init__(self, pixels: Pixels):
        if pixels.ndim != 3 or pixels.dtype != np.uint8 or not pixels.size:
            raise BrokenPictureError(f"{pixels.dtype} {pixels.shape} is not uint8 (height, width, channels)")
        self.pixels = pixels
        self.size = pixels.shape[0], pixels.shape[1]
        self.mode = {1: "L", 3: "RGB"}.get(pixels.shape[2], "array")

    def decode(self, channels: int, least: Size | None = None) -> Decoded:
        given = self.pixels.shape[2]
        if given == 3 and channels in (1, 3):
            return Decoded((convert(Image.fromarray(self.pixels), channels),))
        planes = tuple(Image.fromarray(self.pixels[:, :, channel]) for channel in range(given))
        if given == 1 and channels in (1, 3):
            return Decoded((convert(planes[0], channels),))
        if given != channels:
            raise DataError(f"pictures of {given} channels do not fit a model of {channels}; only 1 and 3 convert")
        return Decoded(planes)


def check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise BrokenPictureError(f"the header says {width}x{height} pixels")
    if width * height > MOST_PIXELS:
        raise BrokenPictureError(TOO_LARGE)


def _turned_by_pillow(image: Image.Image) -> bool:
    """Whether the size that Pillow tells has its sides exchanged already, as it does for this tag of TIFF."""
    return isinstance(image, TiffImagePlugin.TiffImageFile) and image.tag_v2.get(ORIENTATION) in SIDEWAYS


def _read_turn(image: Image.Image, raw: bytes) -> int:
    """The camera's note, without decoding: PNG may hold it behind the pixels, where Pillow would decode to find it."""
    if image.format == "PNG" and "exif" not in image.info and (late := _png_exif(raw)):
        image.info["exif"] = b"Exif\0\0" + late
    turn = Image.Image.getexif(image).get(ORIENTATION)
    return int(turn) if turn in TURNS else 1


def _is_common(image: Image.Image, raw: bytes) -> bool:
    """Whether it is JPEG as most files are; what was cut off lacks its end, and is left to Pillow, which refuses it."""
    if not isinstance(image, JpegImagePlugin.JpegImageFile) or image.format != "JPEG":  # MPO, which holds several
        return False
    sequential, ours = "progressive" not in image.info, [layer[0] for layer in image.layer] == [1, 2, 3]
    colours = image.bits == 8 and ours and image.info.get("adobe_transform", 1) == 1
    return sequential and colours and raw.rstrip(b"\0\r\n").endswith(b"\xff\xd9")


def _png_exif(raw: bytes) -> bytes | None:
    place = 8
    while place + 12 <= len(raw):
        length, kind = struct.unpack_from(">I4s", raw, place)
        if kind == b"eXIf":
            return raw[place + 8 : place + 8 + length]
        place += 12 + length
    return None


class _Silence:
    """No warnings of Pillow while a picture is read; counted, since filters are global and threads decode together."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.filters = warnings.catch_warnings()
                self.filters.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.filters.__exit__(None, None, None)


_SILENCE = _Silence()
os.register_at_fork(after_in_child=_SILENCE.begin)  # another thread of the parent may have been inside


@contextmanager
def guarded() -> Iterator[None]:
    """Damaged files make their decoders fail in every way there is; only our own error comes out."""
    with _SILENCE:
        try:
            yield
        except (MemoryError, PatchwordsError):
            raise
        except Image.DecompressionBombError:  # Pillow's own limit comes first where it is far exceeded
            raise BrokenPictureError(TOO_LARGE) from None
        except UnidentifiedImageError:
            raise BrokenPictureError(f"it is none of {', '.join(FORMATS)}, or its header is damaged") from None
        except Exception as error:
            reason = str(error).partition("\n")[0][:120]
            raise BrokenPictureError(f"it cannot be decoded: {reason or type(error).__name__}") from error
