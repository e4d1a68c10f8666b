"""Pickles are read, and never run."""

import contextlib
import os
import pickle
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources.pickles import STAND_INS, loads
from patchwords.data.sources.reading import reading
from patchwords.errors import DataError

PIXELS = np.arange(12, dtype=np.uint8).reshape(3, 4)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "array", [PIXELS, np.asfortranarray(PIXELS), PIXELS[:, 0].astype(np.int64), PIXELS.astype(">i4")]
)
def test_tables_and_arrays_come_back(protocol: int, array: np.ndarray) -> None:
    table = loads(pickle.dumps({"data": array, "labels": [1, 2], "names": ["a"], "none": None}, protocol))
    assert np.array_equal(table["data"], array)
    assert table["data"].dtype == array.dtype
    assert (table["labels"], table["names"], table["none"]) == ([1, 2], ["a"], None)


def text(value: bytes) -> bytes:
    """A text as Python 2 wrote it."""
    return b"T" + struct.pack("<i", len(value)) + value


def python2() -> bytes:
    """What Python 2 wrote of {'data': an array, 'labels': [3, 7]} in protocol 2, as CIFAR has it."""
    make = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    kind = (
        b"cnumpy\ndtype\n"
        + text(b"u1")
        + b"K\x00K\x01\x87R(K\x03"
        + text(b"|")
        + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    state = b"(K\x01K\x02K\x03\x86" + kind + b"\x89" + text(b"\x00\x01\x02\xfd\xfe\xff") + b"tb"
    return b"\x80\x02}(" + text(b"data") + make + state + text(b"labels") + b"](K\x03K\x07eu."


def test_a_pickle_of_python_2_is_read() -> None:
    assert pickle.loads(python2(), encoding="bytes")[b"data"].tolist() == [[0, 1, 2], [253, 254, 255]]
    table = loads(python2())
    assert table["data"].tolist() == [[0, 1, 2], [253, 254, 255]]
    assert table["labels"] == [3, 7]


class Calls:
    """Pickles to a call of a function."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> tuple[Any, ...]:
        function, *arguments = self.call
        return function, tuple(arguments)


@pytest.mark.parametrize(
    "value",
    [
        Calls(os.system, "touch /tmp/hostile"),
        Calls(eval, "1"),
        Calls(getattr, "", "upper"),
        Calls(__import__, "os"),
        Calls(np.load, "x.npy"),
        Calls(np.frombuffer, b"x"),
        Calls(np.memmap, "x"),
        Calls(bytearray, 1 << 50),
        OrderedDict(),
        np.float64(1),
        np.array([{}], dtype=object),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_whatever_is_asked_to_be_called_is_refused(value: Any, protocol: int) -> None:
    with pytest.raises(DataError, match=r"nothing of the kind is run|are not among"):
        loads(pickle.dumps({"data": value}, protocol))


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0csystem.popen\x93.",
        b"\x80\x02Pabc\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02]q\x00.",
        b"\x80\x02}r\xff\xff\xff\x7f.",  # to be remembered in place 2147483647
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x00.",
        b"\x80\x05\x8e\xff\xff\xff\xff\xff\xff\xff\x00.",
        b"(" * 100_000 + b".",
        b"",
    ],
)
def test_hostile_and_damaged_pickles_only_fail(content: bytes) -> None:
    with contextlib.suppress(DataError), reading("batch"):
        loads(content)


@pytest.mark.parametrize("name", [b"_codecs\nencode", b"numpy\ndtype", b"numpy.core.multiarray\n_reconstruct"])
@pytest.mark.parametrize("state", [b"}U\x05extraK\x01s", b"N}X\x09\x00\x00\x00__class__cnumpy\ndtype\ns\x86"])
def test_what_a_pickle_may_call_it_cannot_change(name: bytes, state: bytes) -> None:
    before = [(key, value, type(value), dict(vars(type(value)))) for key, value in STAND_INS.items()]
    with pytest.raises(Exception, match=r"not done|__setstate__|argument"):
        loads(b"\x80\x02c" + name + b"\n" + state + b"b.")
    assert [(key, value, type(value), dict(vars(type(value)))) for key, value in STAND_INS.items()] == before


def test_every_truncation_and_flip_fails_cleanly() -> None:
    whole = python2()
    for place in range(len(whole)):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x11]) + whole[place + 1 :]):
            with contextlib.suppress(DataError), reading("batch"):
                loads(damaged)
