"""A whole module that somebody pickled (DALL-E's encoder.pkl) as a table of tensors; nothing of the file is run.

torch's own restricted unpickler reads it: the classes that the file names are replaced by one that does nothing, and
any class or function beside these is refused.
"""

import io
import pickle
import pickletools
import zipfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import torch
from torch import Tensor, nn

from patchwords.weights.rules import State

# What DALL-E's encoder is made of, by the names in the pickle.
CLASSES = (
    "dall_e.encoder.Encoder",
    "dall_e.encoder.EncoderBlock",
    "dall_e.utils.Conv2d",
    "torch.nn.modules.container.Sequential",
    "torch.nn.modules.activation.ReLU",
    "torch.nn.modules.pooling.MaxPool2d",
    "torch.nn.modules.linear.Identity",
)
FIRST = "patchwords.first"  # a name of our own in a pickle that was rewritten
CALL = pickle.GLOBAL + FIRST.replace(".", "\n").encode() + b"\n"
HEADERS = 3  # pickles before the module in a file of before torch 1.6: a magic number, a version, the machine


class Inert:
    """Stands where the file has a module: it keeps what it is given and can do nothing."""

    def __setstate__(self, state: object) -> None:
        vars(self)["state"] = state


def first(kind: str, container: type, *source: object) -> type:
    """What old files wrap a class in: the word "module", the class, and its source, which nobody looks at."""
    return container


def read(path: Path, device: str, mapped: bool) -> State:
    """The parameters of a pickled module by their dotted names; the zip of today, and what torch wrote before 1.6."""
    with torch.serialization.safe_globals([*((Inert, name) for name in CLASSES), (first, FIRST)]):
        if zipfile.is_zipfile(path):
            module = torch.load(path, map_location=device, weights_only=True, mmap=mapped)
        else:
            module = torch.load(io.BytesIO(_unwrapped(path.read_bytes())), map_location=device, weights_only=True)
    return dict(_parameters(module, "", set()))


def _parameters(module: object, prefix: str, seen: set[int]) -> Iterator[tuple[str, Tensor]]:
    """Those of a module and of all within, each of which stands in one place only: a knot would have no end."""
    state = vars(module).get("state") if isinstance(module, Inert) else None
    if not isinstance(state, dict) or id(module) in seen:
        raise ValueError(f"{prefix.rstrip('.') or 'the file'} is no module of DALL-E's encoder")
    seen.add(id(module))
    for name, parameter in state.get("_parameters", {}).items():
        yield f"{prefix}{name}", parameter.detach() if isinstance(parameter, nn.Parameter) else parameter
    for name, child in state.get("_modules", {}).items():
        yield from _parameters(child, f"{prefix}{name}.", seen)


def _unwrapped(data: bytes) -> bytes:
    """An old file with `first` called on each wrapped class, since torch's restricted unpickler takes none of these."""
    stream = io.BytesIO(data)
    try:
        for _ in range(HEADERS):
            deque(pickletools.genops(stream), maxlen=0)
    except ValueError as error:
        raise ValueError("of pickles that of DALL-E's encoder alone is read: ask for safetensors") from error
    pieces, copied = [], 0
    for mark, end in _wrapped(stream):
        pieces += [data[copied:mark], CALL, data[mark:end], pickle.REDUCE]
        copied = end + len(pickle.BINPERSID)
    return b"".join([*pieces, data[copied:]])


def _wrapped(stream: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Where each ("module", class, …) of a pickle begins, and where it is handed to the unpickler's owner."""
    words: dict[object, object] = {}  # what was memoised
    marks: list[tuple[int, object]] = []  # that are open: the place, and the first thing after it
    made: tuple[int, object] = (0, None)
    last: object = None
    for step, value, at in pickletools.genops(stream):
        place = at or 0  # of a stream that knows where it is, it always does
        match step.name:
            case "MARK":
                marks.append((place, None))
                continue
            case "TUPLE":
                made = marks.pop()
            case "SETITEMS" | "APPENDS":
                marks.pop()
            case "BINPUT" | "LONG_BINPUT":
                words[value] = last
            case "BINGET" | "LONG_BINGET":
                value = words.get(value)
            case "BINPERSID" if made[1] == "module":
                yield made[0], place
        last = value
        if marks and marks[-1][1] is None:
            marks[-1] = (marks[-1][0], last)
