"""A connection: closed when the first lines of a request do not come, and refused when there are too many."""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from patchwords.serve.http.limits import Limits

BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"


class Connection(asyncio.Protocol):
    """Stands before uvicorn's protocol, which would wait for the first lines of a request for ever."""

    def __init__(
        self,
        limits: Limits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ):
        self.limits, self.state = limits, server_state
        self.inner = H11Protocol(config, server_state, app_state, _loop)
        self.loop = _loop or asyncio.get_running_loop()
        self.late: asyncio.TimerHandle | None = None
        self.refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if len(self.state.connections) >= self.limits.connections:
            self.refused = True
            transport.write(BUSY)
            transport.close()
            return
        self.inner.connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if not self.refused:
            self.inner.data_received(data)
            self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget()
        if not self.refused:
            self.inner.connection_lost(error)

    def eof_received(self) -> None:
        if not self.refused:
            self.inner.eof_received()

    def pause_writing(self) -> None:
        if not self.refused:
            self.inner.pause_writing()

    def resume_writing(self) -> None:
        if not self.refused:
            self.inner.resume_writing()

    def _watch(self) -> None:
        """Starts the clock between two requests, once, and stops it when the first lines of one are here."""
        if not self._between():
            self._forget()
        elif self.late is None:
            self.late = self.loop.call_later(self.limits.head, self._drop)

    def _between(self) -> bool:
        return self.inner.cycle is None or self.inner.cycle.response_complete

    def _forget(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def _drop(self) -> None:
        self.late = None
        if self._between():
            self.transport.abort()
