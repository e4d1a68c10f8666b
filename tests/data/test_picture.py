"""Every kind of picture becomes upright 8-bit pixels, and whatever is wrong with one is our own error."""

import io
import re
import struct
import threading
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from patchwords.data.picture import BACK, TURNS, BrokenPictureError, decode, open_picture, read_size
from patchwords.errors import DataError, UsageError

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "pictures.md"
ROWS, COLS = 24, 40


def gradient() -> np.ndarray:
    """A smooth picture that no flip or turn leaves alone, (rows, cols, 3)."""
    rows, cols = np.mgrid[0:ROWS, 0:COLS]
    return np.stack([rows * 10, cols * 6, (rows + cols) * 2], axis=2).astype(np.uint8)


def written(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def picture(mode: str = "RGB") -> Image.Image:
    return Image.fromarray(gradient()).convert(mode)


def pixels(raw: bytes, channels: int = 3) -> np.ndarray:
    return np.asarray(decode(raw, channels)).astype(int)


def close(found: np.ndarray, wanted: np.ndarray, levels: float = 0) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted.astype(float)).max() <= levels


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, bits: int, kind: int, lines: bytes, late: bytes = b"") -> bytes:
    """A PNG by hand, for what Pillow reads but does not write."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(lines)) + late + chunk(b"IEND", b"")


def exif(turn: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = turn
    return tags.tobytes()


# What the document says, kind by kind.


def turned_by_the_camera() -> None:
    for format, levels in (("JPEG", 6), ("PNG", 0), ("WEBP", 8), ("TIFF", 0)):
        for turn, upright in TURNS.items():
            stored = Image.fromarray(gradient()).transpose(BACK[turn])
            options = {"tiffinfo": {0x0112: turn}} if format == "TIFF" else {"exif": exif(turn)}
            raw = written(stored, format, quality=100, **options)
            close(pixels(raw), gradient(), levels)
            assert read_size(raw) == (ROWS, COLS)
            as_stored = decode(raw, 3, orientation="stored")
            assert read_size(raw, "stored") == (as_stored.height, as_stored.width) == (stored.height, stored.width)
            close(np.asarray(as_stored.transpose(upright)).astype(int), gradient(), levels)


def grey() -> None:
    raw = written(picture("L"), "PNG")
    close(pixels(raw), np.repeat(np.asarray(picture("L"))[:, :, None], 3, axis=2))
    close(pixels(raw, 1), np.asarray(picture("L")))
    close(pixels(written(picture(), "PNG"), 1), gradient() @ [0.299, 0.587, 0.114], 1)


def black_and_white() -> None:
    bits = gradient()[:, :, 0] > 100
    for format in ("PNG", "TIFF", "BMP"):
        close(pixels(written(Image.fromarray(bits), format), 1), bits * 255)


def palette() -> None:
    image = picture().quantize(16)
    for format in ("PNG", "GIF", "BMP", "TIFF"):
        close(pixels(written(image, format)), np.asarray(image.convert("RGB")))


def alpha() -> None:
    cover = np.full((ROWS, COLS), 255, np.uint8)
    cover[:, :20], cover[:4] = 128, 0
    share = cover[:, :, None] / 255
    for format in ("PNG", "WEBP", "TIFF"):
        image = picture("RGBA")
        image.putalpha(Image.fromarray(cover))
        options = {"lossless": True, "exact": True} if format == "WEBP" else {}
        close(pixels(written(image, format, **options)), gradient() * share + 255 * (1 - share), 1)
    both = picture("LA")
    both.putalpha(Image.fromarray(cover))
    close(pixels(written(both, "PNG"), 1), np.asarray(picture("L")) * share[:, :, 0] + 255 * (1 - share[:, :, 0]), 1)
    indexed = picture().quantize(16)
    index = np.asarray(indexed)
    wanted = np.where((index == 3)[:, :, None], 255, np.asarray(indexed.convert("RGB")))
    close(pixels(written(indexed, "PNG", transparency=3)), wanted)
    close(pixels(written(indexed, "GIF", transparency=3, optimize=False)), wanted)
    close(pixels(written(indexed, "PNG", transparency=bytes(0 if i == 3 else 255 for i in range(16)))), wanted)
    colour = tuple(int(level) for level in gradient()[5, 5])
    there = (gradient() == colour).all(axis=2)[:, :, None]
    close(pixels(written(picture(), "PNG", transparency=colour)), np.where(there, 255, gradient()))
    deep = Image.fromarray(gradient()[:, :, 0].astype(np.uint16) * 257)
    raw = written(deep, "PNG", transparency=100 * 257)
    assert (pixels(raw, 1)[10] == 255).all()
    assert (pixels(raw, 1)[11] == 110).all()


def cmyk() -> None:
    image = picture("CMYK")
    close(pixels(written(image, "TIFF")), np.asarray(image.convert("RGB")))
    close(
        pixels(written(image, "JPEG", quality=100)), np.asarray(image.convert("RGB")), 8
    )  # written inverted, as Adobe


def ycbcr() -> None:
    close(pixels(written(picture("YCbCr"), "TIFF")), gradient(), 3)


def lab() -> None:
    for lab, rgb in (((255, 128, 128), (255, 255, 255)), ((138, 209, 198), (255, 0, 0)), ((0, 128, 128), (0, 0, 0))):
        raw = written(Image.new("LAB", (4, 3), lab), "TIFF")  # 128 is neither red nor green, yellow nor blue
        close(pixels(raw), np.broadcast_to(rgb, (3, 4, 3)), 6)


def sixteen_bits() -> None:
    values = gradient()[:, :, 0].astype(np.uint16) * 256 + 77
    close(pixels(written(Image.fromarray(values), "PNG"), 1), gradient()[:, :, 0])
    close(pixels(written(Image.fromarray(values), "TIFF"), 1), gradient()[:, :, 0])
    big_endian = Image.frombytes("I;16B", (COLS, ROWS), values.astype(">u2").tobytes())
    close(pixels(written(big_endian, "TIFF"), 1), gradient()[:, :, 0])
    colours = (gradient().astype(np.uint16) * 256 + 200).astype(">u2")
    lines = b"".join(b"\0" + line.tobytes() for line in colours)
    close(pixels(png(COLS, ROWS, 16, 2, lines)), gradient())


def whole_numbers() -> None:
    levels = gradient()[:, :, 0].astype(np.int32)
    for factor, found in ((1, 1.0), (257, 1.0), (100_000, 255 / 230)):  # the brightest row has 230
        raw = written(Image.fromarray(levels * factor), "TIFF")
        assert open_picture(raw).mode == "I"
        close(pixels(raw, 1), levels * found, 0.6)
    assert pixels(written(Image.fromarray(levels - 1000), "TIFF"), 1).max() == 0


def floating_point() -> None:
    levels = gradient()[:, :, 0].astype(np.float32)
    for factor in (1 / 255, 1, 257):
        close(pixels(written(Image.fromarray(levels * np.float32(factor)), "TIFF"), 1), levels, 0.6)
    levels[0, :3] = np.nan, np.inf, -np.inf
    assert (pixels(written(Image.fromarray(levels / 255), "TIFF"), 1)[0, :3] == 0).all()


def animation() -> None:
    frames = [Image.fromarray(gradient()), Image.fromarray(255 - gradient())]
    for format, options in (
        ("GIF", {}),
        ("PNG", {}),
        ("TIFF", {}),
        ("WEBP", {"lossless": True}),
        ("MPO", {"quality": 100}),
    ):
        raw = written(frames[0], format, save_all=True, append_images=frames[1:], **options)
        close(pixels(raw), gradient(), {"GIF": 40, "MPO": 6}.get(format, 0))


def colour_profile() -> None:
    close(pixels(written(picture(), "PNG", icc_profile=b"not a profile at all")), gradient())


def array() -> None:
    close(np.asarray(decode(gradient(), 3)), gradient())
    close(np.asarray(decode(gradient(), 1)), np.asarray(picture("L")))
    one = gradient()[:, :, :1]
    close(np.asarray(decode(one, 1)), one[:, :, 0])
    close(np.asarray(decode(one, 3)), np.repeat(one, 3, axis=2))
    five = np.concatenate([gradient(), gradient()[:, :, :2]], axis=2)
    planes = open_picture(five).decode(5).planes
    close(np.stack([np.asarray(plane) for plane in planes], axis=2), five)
    assert read_size(five) == (ROWS, COLS)
    with pytest.raises(DataError, match="5 channels do not fit a model of 3"):
        decode(five, 3)
    with pytest.raises(BrokenPictureError, match="float64"):
        decode(five / 255, 3)  # type: ignore[arg-type]


KINDS: dict[str, Callable[[], None]] = {
    "turned by the camera": turned_by_the_camera,
    "grey": grey,
    "black and white, 1 bit": black_and_white,
    "palette": palette,
    "alpha": alpha,
    "CMYK": cmyk,
    "YCbCr": ycbcr,
    "LAB": lab,
    "16 bits a channel": sixteen_bits,
    "32-bit whole numbers": whole_numbers,
    "floating point": floating_point,
    "animation or several pages": animation,
    "colour profile": colour_profile,
    "array in memory": array,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_is_right_about(kind: str) -> None:
    KINDS[kind]()


def test_every_kind_in_the_document_is_tested() -> None:
    table = DOCUMENT.read_text(encoding="utf-8").split("| kind |")[1].split("\n\n")[0]
    assert re.findall(r"^\| ([^|]+?) \|", table, flags=re.MULTILINE) == list(KINDS)


def test_a_png_may_hold_its_orientation_behind_its_pixels() -> None:
    lines = b"".join(b"\0" + line.tobytes() for line in gradient())
    raw = png(COLS, ROWS, 8, 2, lines, late=chunk(b"eXIf", exif(6).removeprefix(b"Exif\0\0")))
    assert read_size(raw) == (COLS, ROWS)
    close(pixels(raw), np.rot90(gradient(), -1))


def test_a_jpeg_is_decoded_smaller_but_not_below_what_is_asked() -> None:
    raw = written(Image.fromarray(gradient()).resize((400, 240)), "JPEG", exif=exif(6))
    assert decode(raw, 3).size == (240, 400)
    assert decode(raw, 3, least=(100, 60)).size == (60, 100)
    assert decode(raw, 3, least=(101, 60)).size == (120, 200)
    assert decode(raw, 3, least=(10, 6)).size == (30, 50)
    assert decode(raw, 3, least=(1000, 600)).size == (240, 400)
    assert open_picture(raw).decode(3, (100, 60)).reduction == 4
    assert decode(written(picture(), "PNG"), 3, least=(2, 2)).size == (COLS, ROWS)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"])
def test_a_file_that_was_cut_off_is_an_error(format: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    raw = written(Image.fromarray(noise), format)
    for share in (0.02, 0.3, 0.6, 0.9):
        with pytest.raises(BrokenPictureError):
            decode(raw[: int(share * len(raw))], 3)
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate"])
def test_a_compressed_tiff_with_a_hole_is_an_error(compression: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    raw = written(Image.fromarray(noise), "TIFF", compression=compression)
    with pytest.raises(BrokenPictureError):
        decode(raw[:200] + bytes(len(raw) - 700) + raw[-500:], 3)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b"Roses are red", "none of JPEG, PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "none of JPEG, PNG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "none of JPEG, PNG"),
        (b"P6\n1 1\n255\n\0\0\0", "none of JPEG, PNG"),
        (b"\xff\xd8\xff\xe0", "none of JPEG, PNG"),
        (b"\x89PNG\r\n\x1a\n", "none of JPEG, PNG"),
    ],
)
def test_what_is_no_picture_is_refused_with_the_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(BrokenPictureError, match=reason):
        read_size(raw)


def enlarged(format: str) -> bytes:
    """A small file whose header says 30,000 x 30,000, or WebP's largest."""
    raw = bytearray(written(picture(), format))
    if format == "JPEG":
        place = raw.index(b"\xff\xc0")
        raw[place + 5 : place + 9] = struct.pack(">HH", 30000, 30000)
    elif format == "PNG":
        return png(30000, 30000, 8, 2, bytes(1000))
    elif format == "BMP":
        raw[18:26] = struct.pack("<ii", 30000, 30000)
    elif format == "GIF":
        raw[6:10] = struct.pack("<HH", 30000, 30000)
    elif format == "WEBP":
        place = raw.index(b"VP8 ") + 14
        raw[place : place + 4] = struct.pack("<HH", 16383, 16383)
    else:
        tags = re.finditer(rb"[\x00\x01]\x01[\x03\x04]\x00\x01\x00\x00\x00", bytes(raw))  # width, then length
        for match in list(tags)[:2]:
            raw[match.end() : match.end() + 2] = struct.pack("<H", 30000)
    return bytes(raw)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"])
def test_a_picture_bomb_is_refused_by_its_header(format: str) -> None:
    with pytest.raises(BrokenPictureError, match="more than 50 million pixels"):
        read_size(enlarged(format))


def test_just_above_the_limit_is_refused_and_just_below_is_read() -> None:
    with pytest.raises(BrokenPictureError, match="more than 50 million pixels"):
        read_size(png(7072, 7072, 8, 2, b""))
    assert read_size(png(7000, 7072, 8, 2, b"")) == (7072, 7000)


def test_neither_warnings_nor_prints_of_pillow_are_heard(capfd: pytest.CaptureFixture[str]) -> None:
    image = picture().quantize(16)
    odd = [
        png(9000, 9000, 8, 2, b""),  # Pillow would only warn
        written(image, "PNG", transparency=bytes(range(16))),
        written(picture(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"),
        written(picture(), "JPEG", exif=exif(6)[:-9]),
        written(picture(), "TIFF", compression="tiff_lzw").replace(b"\x01\x00\x03\x00", b"\x07\x00\x03\x00"),
    ]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for raw in odd:
            with suppress(BrokenPictureError):
                decode(raw, 3)
    assert heard == []
    assert capfd.readouterr() == ("", "")


def test_threads_that_decode_together_leave_the_filters_of_warnings_as_they_were() -> None:
    before = list(warnings.filters)
    raw = written(picture(), "PNG")
    threads = [threading.Thread(target=lambda: [decode(raw, 3) for _ in range(30)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"])
def test_damage_of_any_kind_gives_pixels_or_our_error(format: str, capfd: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(3)
    options = {"tiffinfo": {0x0112: 6}, "compression": "tiff_lzw"} if format == "TIFF" else {"exif": exif(6)}
    raw = written(picture(), format, **options)
    for _ in range(150):
        damaged = bytearray(raw)
        places = random.integers(0, min(len(raw), random.choice([64, len(raw)])), random.integers(1, 8))
        for place in places:
            damaged[place] = random.integers(0, 256)
        try:
            size, image = read_size(bytes(damaged)), decode(bytes(damaged), 3)
        except BrokenPictureError:
            continue
        assert image.mode == "RGB"
        assert size == (image.height, image.width)
    assert format == "TIFF" or capfd.readouterr() == ("", "")  # libtiff itself writes to stderr


def test_files_give_one_or_three_channels() -> None:
    with pytest.raises(UsageError, match="1 or 3 channels, not 4"):
        open_picture(written(picture(), "PNG")).decode(4)
    with pytest.raises(UsageError, match="4 channels"):
        decode(gradient(), 4)
