"""The pickles that CIFAR comes in, read without running any: tables, lists, texts, numbers and arrays come out.

Whatever a pickle asks to call is refused, except what arrays are made of, and there our own stand-ins are called.
"""

import pickle
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.names import printable
from patchwords.errors import DataError

KINDS = ("u1", "i1", "i2", "i4", "i8")


class _Kind:
    """Stands for numpy.dtype: remembers its word and the order of its bytes."""

    __slots__ = ("order", "word")

    def __init__(self, word: str | bytes, *_: object):
        self.word = word.decode("ascii") if isinstance(word, bytes) else word
        self.order = "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]

    def kind(self) -> np.dtype[Any]:
        if self.word not in KINDS or self.order not in ("|", "<", ">", "="):
            raise DataError(f"arrays of {self.word!r} are not among what CIFAR is made of: {', '.join(KINDS)}")
        return np.dtype(self.order + self.word)


class _Array:
    """Stands for an array that is made first and filled later."""

    __slots__ = ("state",)

    def __init__(self, *_: object):
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> NDArray[Any]:
        _, shape, kind, columns_first, content = self.state
        return np.frombuffer(content, kind.kind()).reshape(shape, order="F" if columns_first else "C")


def _unchangeable(self: object, state: object) -> None:
    raise DataError("a pickle wants to change what it may only call, and that is not done")


class _Filled:
    """Stands for the function that makes an array and fills it in one step."""

    __slots__ = ()
    __setstate__ = _unchangeable

    def __call__(self, content: bytes, kind: _Kind, shape: tuple[int, ...], order: str) -> _Array:
        made = _Array()
        made.state = (1, shape, kind, order == "F", bytes(content))
        return made


class _Bytes:
    """Stands for the function that makes bytes of a text, which is how old pickles write them."""

    __slots__ = ()
    __setstate__ = _unchangeable

    def __call__(self, text: str, encoding: str) -> bytes:
        return text.encode("latin-1")


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Kind,
    ("_codecs", "encode"): _Bytes(),
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Filled() for core in ("core", "_core")},
}


class _Reader(pickle._Unpickler):  # the one written in Python: the other believes a pickle that asks for gigabytes
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise DataError(f"a pickle asks for {printable(module)}.{printable(name)}, and nothing of the kind is run")
        return STAND_INS[module, name]

    def persistent_load(self, pid: Any) -> Any:
        raise DataError("a pickle asks for things outside of itself, and those are not given")


def loads(content: bytes) -> dict[str, Any]:
    """The table in a pickle: keys are texts, arrays are arrays, texts of Python 2 are bytes."""
    table = _Reader(BytesIO(content), encoding="bytes").load()
    if type(table) is not dict:
        raise DataError("a pickle of CIFAR holds a table, and this one does not")
    return {
        key.decode("ascii") if isinstance(key, bytes) else key: value.array() if isinstance(value, _Array) else value
        for key, value in table.items()
    }
