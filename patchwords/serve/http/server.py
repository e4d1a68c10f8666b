"""Listens, serves until a signal comes, and leaves when all that had come in by then is answered."""

import asyncio
import ipaddress
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn

from patchwords.errors import UsageError
from patchwords.serve.http import process
from patchwords.serve.http.connection import Connection
from patchwords.serve.http.front import Front
from patchwords.serve.http.limits import Limits

BACKLOG = 2048  # connections that the system keeps until they are accepted
SPARE = 128  # open files besides connections
ROUNDS, ROUND = 6, 0.05  # of the loop, in seconds each: by then it has read what had arrived before the signal
STUCK = 30_000  # ms after which a client that takes no bytes is given up


def listen(host: str, port: int) -> socket.socket:
    """A socket at the first address that the host's name stands for."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--host {host!r} is no address of this machine ({error}): choose 127.0.0.1") from None
    # The protocol must be said: asyncio sends small answers at once (TCP_NODELAY) only where it is, 40 ms later if not.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK)  # connections inherit it
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"{host} port {port} cannot be listened at ({error.strerror}): choose another --port, or 0 for a free one"
        ) from None
    return listening


def is_for_this_machine(listening: socket.socket) -> bool:
    """Whether nobody else can reach it."""
    return ipaddress.ip_address(listening.getsockname()[0]).is_loopback


def serve(application: Front, listening: socket.socket, limits: Limits, ready: Callable[[], None]) -> int:
    """Until SIGTERM or Ctrl-C; the signal's number."""
    files = process.allow_files(limits.connections + SPARE)
    if files < limits.connections + SPARE:
        raise UsageError(
            f"{limits.connections} connections need {limits.connections + SPARE} open files, and {files} are allowed: "
            "raise `ulimit -n`, or choose a lower --connections"
        )
    return asyncio.run(_serve(application, listening, limits, ready))


async def _serve(application: Front, listening: socket.socket, limits: Limits, ready: Callable[[], None]) -> int:
    server = uvicorn.Server(_config(application, limits))
    heard: asyncio.Queue[int] = asyncio.Queue()
    running = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    if running.done():
        await running  # raises what went wrong
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):  # in place of uvicorn's, which closes what it has not read yet
        loop.add_signal_handler(number, heard.put_nowait, number)
    ready()
    stopped = await heard.get()
    application.service.leaving = True  # answers say that their connection is closed
    for _ in range(ROUNDS):
        await asyncio.sleep(ROUND)
    server.should_exit = True
    impatient = asyncio.create_task(_force(server, heard))
    await running
    impatient.cancel()
    return stopped


async def _force(server: uvicorn.Server, heard: asyncio.Queue[int]) -> None:
    """A second Ctrl-C waits for nobody; SIGTERM often comes twice by itself."""
    while await heard.get() != signal.SIGINT:
        pass
    server.force_exit = True


def _config(application: Front, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=cast("Any", partial(Connection, limits)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=limits.idle,
        timeout_graceful_shutdown=limits.leaving,
        h11_max_incomplete_event_size=limits.head_bytes,
    )
