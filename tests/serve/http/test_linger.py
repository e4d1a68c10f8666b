"""The end of an answer: the connection closes after a body that was not read, and its sender hears why."""

import asyncio
from typing import Any

import pytest
from starlette.responses import Response

from patchwords.serve.http.linger import Reading, send_response

MORE = {"type": "http.request", "body": b"x", "more_body": True}
LAST = {"type": "http.request", "body": b"x", "more_body": False}


def answered(headers: dict[str, str], waiting: list[dict[str, Any]], read: int = 0) -> tuple[list[Any], int]:
    """What is sent for a refusal after so many messages were read, and how many are left."""
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop(0)

    async def send(message: Any) -> None:
        said.append(message)

    async def run() -> None:
        reading = Reading(headers, receive)
        for _ in range(read):
            await reading()
        await send_response(Response("no"), reading, send, 0.05)

    asyncio.run(run())
    return said, len(waiting)


def test_an_answer_to_a_whole_request_leaves_the_connection_open() -> None:
    for headers, waiting, read in (
        ({}, [], 0),
        ({"content-length": "0"}, [], 0),
        ({"content-length": "2"}, [MORE, LAST], 2),
    ):
        said, _ = answered(headers, waiting, read)
        assert (b"connection", b"close") not in said[0]["headers"]
        assert [message.get("more_body") for message in said[1:]] == [False]


@pytest.mark.parametrize("headers", [{"content-length": "3"}, {"transfer-encoding": "chunked"}])
def test_what_is_still_sent_runs_out_behind_the_refusal(headers: dict[str, str]) -> None:
    said, left = answered(headers, [MORE, MORE, LAST], 1)
    assert (b"connection", b"close") in said[0]["headers"]
    assert [(message["body"], message["more_body"]) for message in said[1:]] == [(b"no", True), (b"", False)]
    assert left == 0


def test_it_runs_out_for_a_moment_only() -> None:
    said, _ = answered({"content-length": "9"}, [MORE])
    assert said[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


def test_a_body_that_waits_to_be_asked_for_is_not_asked_for() -> None:
    said, left = answered({"content-length": "9", "expect": "100-continue"}, [MORE, LAST])
    assert left == 2
    assert (b"connection", b"close") in said[0]["headers"]


def test_who_goes_away_ends_it() -> None:
    said, left = answered({"content-length": "9"}, [MORE, {"type": "http.disconnect"}])
    assert (len(said), left) == (3, 0)
