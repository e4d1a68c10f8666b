"""A picture as Python gives it, a path, bytes, an array or one of Pillow's: as the file or the pixels that it is."""

import os
import stat

import numpy as np
from PIL import Image, ImageOps

from patchwords.data.modes import flatten
from patchwords.data.picture import BrokenPictureError, Orientation, check_size, guarded
from patchwords.data.sources.files import MOST_BYTES
from patchwords.data.sources.names import printable
from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError

Picture = str | os.PathLike[str] | bytes | Pixels | Image.Image


def name_of(picture: Picture, otherwise: str) -> str:
    """What to call a picture: its path, where it has one."""
    match picture:
        case str() | os.PathLike():
            return printable(os.fspath(picture))
        case _:
            return otherwise


def is_one(given: object) -> bool:
    """Whether this is a single picture, where many are wanted; an array of four axes is a stack of them."""
    if isinstance(given, np.ndarray):
        return given.ndim < 4
    return isinstance(given, str | os.PathLike | bytes | Image.Image)


def raw(picture: Picture, orientation: Orientation = "upright") -> bytes | Pixels:
    """The bytes of a file, or uint8 pixels (height, width, channels)."""
    match picture:
        case str() | os.PathLike():
            return read_file(os.fspath(picture))
        case bytes() | np.ndarray():
            return picture
        case Image.Image():
            return _pixels(picture, orientation)
        case _:
            raise UsageError(
                f"{type(picture).__name__} is no kind of picture: give a path, the bytes of a file, a uint8 array "
                "(height, width, channels) or an image of Pillow; predict_many takes many of them"
            )


def read_file(path: str) -> bytes:
    """All of a file; what is none, such as a pipe, which might never end, is not opened."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise BrokenPictureError(f"it is a {'folder' if stat.S_ISDIR(status.st_mode) else 'pipe or a device'}")
        if status.st_size > MOST_BYTES:
            raise BrokenPictureError(f"it is larger than {MOST_BYTES >> 30} GiB, which no picture is")
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise BrokenPictureError(f"the file cannot be read ({reason})") from error


def _pixels(image: Image.Image, orientation: Orientation) -> Pixels:
    """As the same picture comes out of a file: upright, on white, 8 bits a channel; Pillow itself turns every TIFF."""
    check_size(*image.size)
    with guarded():  # one that was opened lazily is decoded here
        pixels = np.asarray(flatten(ImageOps.exif_transpose(image) if orientation == "upright" else image))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]
