"""Where every request comes in and every answer goes out: counted, guarded, and under headers that keep pages apart."""

import time

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from patchwords.serve.http import parameter
from patchwords.serve.http.door import Asked, Door
from patchwords.serve.http.guard import Guard
from patchwords.serve.http.linger import Reading, send_response
from patchwords.serve.http.refusal import refusal
from patchwords.serve.http.router import Router
from patchwords.serve.http.service import Service

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
NOWHERE = "none"  # the route of what is refused before it is found


class Front:
    """The service as an ASGI application."""

    def __init__(self, service: Service, guard: Guard, router: Router):
        self.service, self.guard, self.router = service, guard, router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "the server runs without lifespan and web sockets"
        start, tally = time.perf_counter(), self.service.tally
        headers = _headers(scope)
        reading = Reading(headers, receive)
        tally.now += 1
        try:
            path, response = await self._answer(scope, headers, reading)
            response.headers.update(HEADERS)
            if self.service.leaving:
                response.headers["Connection"] = "close"
            method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
            tally.requests.add(path, method, str(response.status_code))
            tally.seconds.add(time.perf_counter() - start, path)
            await send_response(response, reading, send, self.service.limits.linger)
        finally:
            tally.now -= 1

    async def _answer(self, scope: Scope, headers: dict[str, str], reading: Reading) -> tuple[str, Response]:
        """The path as the table has it, and what is said there."""
        door: Door | None = None
        try:
            self.guard.check_place(headers)
            door, words = self.router.find(scope["method"], scope["path"])
            self.guard.check_token(headers, door.open_to_all)
            values = parameter.read(scope["query_string"], door.takes)
            return door.path, await door.handler(self.service, Asked({**values, **words}, headers, reading))
        except Exception as error:
            return door.path if door else NOWHERE, refusal(error)


def _headers(scope: Scope) -> dict[str, str]:
    """By name in small letters; of one that came twice both, so that neither is believed alone."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found
