"""What travels through shared memory comes as it was sent, slots are used again, and nothing is left of them."""

import gc
import multiprocessing
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from patchwords.data.arena import SMALL, Arena, Parcel

ROOM = 1 << 16


@pytest.fixture
def arena() -> Arena:
    return Arena(2, ROOM)


def made(number: int, size: int = 20_000) -> dict[str, object]:
    large = np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)
    return {"number": number, "large": large, "turned": large.reshape(100, -1).T, "few": np.arange(5), "text": "a"}


def assert_same(one: dict[str, object], other: dict[str, object]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert np.array_equal(value, other[name]), name  # type: ignore[arg-type]


def test_a_result_comes_as_it_was_sent_and_its_arrays_lie_in_the_slot(arena: Arena) -> None:
    slot = arena.take()
    parcel = arena.write(slot, made(3))
    assert len(parcel.places) == 2  # the large ones
    assert len(parcel.content) < 2 * SMALL
    found = arena.read(slot, parcel)
    assert_same(found, made(3))
    start, stop = parcel.places[0]
    arena.memory[start:stop] = bytes(stop - start)
    assert not found["large"].any()


def test_slots_do_not_touch_each_other(arena: Arena) -> None:
    slots = [arena.take(), arena.take()]
    assert sorted(slots) == [0, 1]  # type: ignore[type-var]
    parcels = [arena.write(slot, made(number)) for number, slot in enumerate(slots)]
    for number, (slot, parcel) in enumerate(zip(slots, parcels, strict=True)):
        assert_same(arena.read(slot, parcel), made(number))


def test_a_slot_is_given_back_when_nothing_of_it_is_in_use(arena: Arena) -> None:
    slot = arena.take()
    found = arena.read(slot, arena.write(slot, made(0)))
    part = found["large"][5:9]
    del found
    gc.collect()
    assert arena.take() == 1 - (slot or 0)
    assert arena.take() is None
    del part
    gc.collect()
    assert arena.take() == slot


def test_small_arrays_do_not_keep_a_slot(arena: Arena) -> None:
    slot = arena.take()
    few = arena.read(slot, arena.write(slot, made(0)))["few"]
    gc.collect()
    assert len(arena.free) == 2
    assert few.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("size", [ROOM + 464, 200_000])
def test_what_does_not_fit_comes_too(arena: Arena, size: int) -> None:
    slot = arena.take()
    parcel = arena.write(slot, made(1, size))
    assert parcel.places == []
    assert_same(arena.read(slot, parcel), made(1, size))


def test_without_a_slot_all_of_it_is_in_the_parcel(arena: Arena) -> None:
    parcel = arena.write(None, made(1))
    assert isinstance(parcel, Parcel)
    assert_same(arena.read(None, parcel), made(1))


def test_what_was_read_outlives_the_arena() -> None:
    arena = Arena(1, ROOM)
    slot = arena.take()
    found = arena.read(slot, arena.write(slot, made(2)))
    del arena
    gc.collect()
    assert_same(found, made(2))


SCRIPT = """
import multiprocessing, sys
import numpy as np
from patchwords.data.arena import Arena

def write(arena, answers):
    answers.put(arena.write(1, np.arange(5000)))

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    arena, answers = Arena(2, 1 << 16), context.SimpleQueue()
    process = context.Process(target=write, args=(arena, answers))
    process.start()
    parcel = answers.get()
    process.join()
    print(len(parcel.places), np.array_equal(arena.read(1, parcel), np.arange(5000)))
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_another_process_writes_however_it_was_started(method: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, script, method], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"
