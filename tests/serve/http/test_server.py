"""Listening: addresses, and what every connection inherits."""

import socket

import pytest

from patchwords.errors import UsageError
from patchwords.serve.http.server import is_for_this_machine, listen


def test_small_answers_leave_at_once() -> None:
    """asyncio turns off Nagle's algorithm for sockets that say their protocol; with it each answer took 40 ms more."""
    with listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such limit")
def test_a_client_that_takes_no_bytes_is_given_up() -> None:
    with listen("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0


def test_who_can_reach_it_is_known() -> None:
    for host, alone in (("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)):
        with listen(host, 0) as listening:
            assert is_for_this_machine(listening) is alone


def test_an_address_that_cannot_be_listened_at_is_said() -> None:
    for host in ("192.0.2.1", "no.such.host.invalid", "a" * 300):
        with pytest.raises(UsageError, match=r"192\.0\.2\.1|no address of this machine"):
            listen(host, 0)
