"""The end of an answer; a refused upload runs out for a moment, since who still sends would not hear the refusal."""

import asyncio
from collections.abc import Mapping

from starlette.responses import Response
from starlette.types import Message, Receive, Send


class Reading:
    """What comes of a request's body, and whether all of it did."""

    def __init__(self, headers: Mapping[str, str], receive: Receive):
        self.hear = receive
        self.whole = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        self.invited = "expect" not in headers  # or else it is sent once it is asked for

    async def __call__(self) -> Message:
        self.invited = True
        message = await self.hear()
        self.whole = self.whole or not message.get("more_body", False)  # also when the sender went away
        return message


async def send_response(response: Response, reading: Reading, send: Send, seconds: float) -> None:
    """The answer; after one that came before the body's end the connection is closed."""
    if not reading.whole:
        response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": not reading.whole})
    if not reading.whole:
        await _run_out(reading, seconds)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _run_out(reading: Reading, seconds: float) -> None:
    if not reading.invited:
        return
    try:
        async with asyncio.timeout(seconds):
            while not reading.whole:
                await reading()
    except TimeoutError:
        return
