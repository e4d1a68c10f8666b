"""What an exported file says of itself: the card, the classes, what it takes; and a hash of all of it."""

import hashlib
import json
from collections.abc import Mapping

import onnx

from patchwords import __version__, settings
from patchwords.errors import ModelError, UsageError
from patchwords.export.wish import Wish
from patchwords.weights.card import DIGEST, KEY, Card

INPUT, SIZES, PRECISION = "patchwords.input", "patchwords.sizes", "patchwords.precision"
VERSION, CLASSES = "patchwords.version", "classes"
BLANK = b"0" * 64  # where the hash will stand, while it is made
PLACE = DIGEST.encode() + b"\x12\x40"  # the property's name, and that 64 bytes of text follow
UNKNOWN = (
    "the file was not written by `patchwords export`, or is cut off: nothing says how pictures are prepared for it, "
)
UNKNOWN += "or what its outputs are called; export the model again"


def label(card: Card, wish: Wish) -> dict[str, str]:
    """All but the hash, as text in ASCII, since names of classes may be no text at all."""
    return {
        KEY: json.dumps(settings.write(card)),
        CLASSES: json.dumps(card.classes),
        INPUT: wish.input,
        SIZES: wish.sizes,
        PRECISION: wish.precision,
        VERSION: __version__,
    }


def labelled(model: onnx.ModelProto, table: Mapping[str, str]) -> bytes:
    """The file: the model with these properties, and the hash of its bytes."""
    del model.metadata_props[:]
    for key, value in (table | {DIGEST: BLANK.decode()}).items():  # type: ignore[operator]
        model.metadata_props.add(key=key, value=value)
    data = bytearray(model.SerializeToString(deterministic=True))
    start = _place(data)
    data[start : start + len(BLANK)] = _hash(data).encode()
    return bytes(data)


def verify(data: bytes) -> None:
    """Refuses a file that says nothing of itself, and one whose bytes are not those that were written."""
    start = _place(data)
    if start < 0:
        raise ModelError(UNKNOWN)
    if data[start : start + len(BLANK)] != _hash(data).encode():
        raise ModelError("the file is damaged, or was changed after it was exported: export it again")


def told(model: onnx.ModelProto) -> tuple[dict[str, str], Wish]:
    """The properties, and what was asked for when it was exported."""
    table = {each.key: each.value for each in model.metadata_props}
    if missing := [key for key in (KEY, INPUT, SIZES, PRECISION) if key not in table]:
        raise ModelError(f"{UNKNOWN} ({missing[0]} is missing)")
    try:
        wish = settings.read({"input": table[INPUT], "sizes": table[SIZES], "precision": table[PRECISION]}, Wish)
    except UsageError as error:
        raise ModelError(f"it asks for what is not known here: {error}") from None
    return table, wish


def _place(data: bytes | bytearray) -> int:
    """Where the hash stands, or -1; the properties come last in the file."""
    found = data.rfind(PLACE)
    return found + len(PLACE) if 0 <= found <= len(data) - len(PLACE) - len(BLANK) else -1


def _hash(data: bytes | bytearray) -> str:
    """SHA-256 of everything, with zeros for the hash itself."""
    start, view = _place(data), memoryview(data)
    total = hashlib.sha256(view[:start])
    total.update(BLANK)
    total.update(view[start + len(BLANK) :])
    return total.hexdigest()
