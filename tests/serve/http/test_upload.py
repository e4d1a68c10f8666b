"""Bodies: no larger and no slower than allowed, and what they hold is given back."""

import asyncio
from typing import Any

import pytest

from patchwords.serve.http.limits import Limits
from patchwords.serve.http.refusal import Refused
from patchwords.serve.http.room import Room
from patchwords.serve.http.upload import Upload

LIMITS = Limits(body=100, patience=0.05, rate=1000, longest=0.12)


def uploaded(
    *chunks: bytes, pause: float = 0.0, room: Room | None = None, limits: Limits = LIMITS, **headers: str
) -> bytes:
    """What is read of a body in these chunks; afterwards nothing is held."""
    room = room or Room(1000, "full")
    waiting = [*chunks]

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(pause)
        chunk = waiting.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    async def read() -> bytes:
        told = {name.replace("_", "-"): text for name, text in headers.items()}
        with Upload(told, receive, limits, room) as upload:
            body = await upload.read()
            assert upload.held == room.taken == len(body)
            return body

    try:
        return asyncio.run(read())
    finally:
        assert room.taken == 0


def refused(*chunks: bytes, **options: Any) -> int:
    with pytest.raises(Refused) as error:
        uploaded(*chunks, **options)
    return error.value.status


def test_a_body_comes_whole_in_whatever_pieces() -> None:
    assert uploaded(b"abc") == uploaded(b"a", b"", b"bc") == b"abc"
    assert len(uploaded(bytes(50), bytes(50))) == 100


def test_one_byte_more_than_the_limit_is_too_much_with_a_length_and_without() -> None:
    assert refused(bytes(101), content_length="101") == 413
    assert refused(bytes(50), bytes(51)) == 413
    assert refused(bytes(50), bytes(51), content_length="10") == 413


def test_a_length_that_is_too_large_is_refused_before_anything_is_read() -> None:
    assert refused(content_length="101") == 413  # there is no chunk to read


def test_an_empty_body_a_form_and_a_packed_body_are_refused() -> None:
    assert refused(b"") == 400
    assert refused(b"x", content_type="multipart/form-data; boundary=a") == 415
    assert refused(b"x", content_encoding="gzip") == 415
    assert uploaded(b"x", content_encoding="identity", content_type="application/x-www-form-urlencoded") == b"x"


def test_a_body_that_comes_too_slowly_is_dropped() -> None:
    assert refused(b"x", pause=0.2) == 408
    assert refused(*[b"x"] * 20, pause=0.02) == 408
    assert len(uploaded(*[bytes(30)] * 3, pause=0.02)) == 90  # as fast as is asked


def test_even_a_fast_body_has_an_end() -> None:
    assert refused(*[bytes(10)] * 10, pause=0.03, limits=Limits(body=100, patience=1.0, longest=0.1)) == 408


def test_all_bodies_together_are_bounded() -> None:
    room = Room(50, "full")
    assert refused(bytes(30), bytes(30), room=room) == 429
    room.take(30)
    with pytest.raises(Refused, match="full"):
        room.take(21)
    room.give(30)


def test_one_who_goes_away_leaves_nothing() -> None:
    room = Room(100, "full")
    messages = [{"type": "http.request", "body": b"abc", "more_body": True}, {"type": "http.disconnect"}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    async def read() -> None:
        with Upload({}, receive, LIMITS, room) as upload:
            await upload.read()

    with pytest.raises(Refused):
        asyncio.run(read())
    assert room.taken == 0
