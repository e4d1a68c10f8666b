"""The body of a request: no larger than the limit, said or not, no slower than patience, and bounded all together."""

import asyncio
from collections.abc import Mapping

from starlette.types import Receive

from patchwords.serve.http.limits import Limits
from patchwords.serve.http.refusal import Refused
from patchwords.serve.http.room import Room

EMPTY = "the body is empty: send the picture itself, as with curl --data-binary @picture.jpg"
FORM = "a form is not read here: send the picture itself as the body, as with curl --data-binary @picture.jpg"
PACKED = "the body is packed ({}), and pictures are packed already: send it as it is"
SLOW = "the body came too slowly, after {:,} bytes: send it again on a faster connection, or a smaller picture"
LARGE = "the body is larger than {:,} bytes, which is the limit: send a smaller picture"
GONE = "the sender went away"


class Upload:
    """One body. Its bytes count until they are released, by whoever needs them last, or at the end of the request."""

    def __init__(self, headers: Mapping[str, str], receive: Receive, limits: Limits, room: Room):
        self.headers, self.hear, self.limits, self.room = headers, receive, limits, room
        self.held = 0

    def __enter__(self) -> "Upload":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        held, self.held = self.held, 0
        self.room.give(held)

    async def read(self) -> bytes:
        """All of it."""
        self._check()
        start = asyncio.get_running_loop().time()
        body, more = bytearray(), True  # and no list of chunks, which might be of one byte each
        while more:
            chunk, more = await self._chunk(start)
            if self.held + len(chunk) > self.limits.body:
                raise Refused(413, LARGE.format(self.limits.body))
            self.room.take(len(chunk))
            self.held += len(chunk)
            body += chunk
        if not body:
            raise Refused(400, EMPTY)
        return bytes(body)

    def _check(self) -> None:
        """What the first lines say is enough to refuse it before it is sent."""
        if int(self.headers.get("content-length", 0)) > self.limits.body:
            raise Refused(413, LARGE.format(self.limits.body))
        if self.headers.get("content-type", "").lower().startswith("multipart/"):
            raise Refused(415, FORM)
        if (packed := self.headers.get("content-encoding", "identity").lower()) != "identity":
            raise Refused(415, PACKED.format(packed[:20]))

    async def _chunk(self, start: float) -> tuple[bytes, bool]:
        limits = self.limits
        allowed = min(limits.patience + self.held / limits.rate, limits.longest)
        try:
            async with asyncio.timeout_at(start + allowed):
                message = await self.hear()
        except TimeoutError:
            raise Refused(408, SLOW.format(self.held)) from None
        if message["type"] == "http.disconnect":
            raise Refused(400, GONE)
        return message.get("body", b""), message.get("more_body", False)
