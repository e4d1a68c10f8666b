"""Who is served: our own names and ports, our own page, and who knows the token."""

import pytest

from patchwords.errors import UsageError
from patchwords.serve.http.guard import Guard, check_name, check_strength
from patchwords.serve.http.refusal import Refused

HOME = Guard(host="127.0.0.1", port=8000)
OPEN = Guard(host="0.0.0.0", port=8000, token="0123456789abcdef")
PROXIED = Guard(host="127.0.0.1", port=8000, names=("Vision.example.org", "inner:9000"))


def status(guard: Guard, **headers: str) -> int:
    """200 where it lets in."""
    try:
        guard.check_place({name.replace("_", "-"): text for name, text in headers.items()})
    except Refused as refused:
        return refused.status
    return 200


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"])
def test_our_own_names_are_served(host: str) -> None:
    assert status(HOME, host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        *("", "evil.example", "evil.example:8000", "localhost", "localhost:80", "127.0.0.1:8001", "127.0.0.2:8000"),
        *(
            "localhost:8000.evil.example",
            "localhost:8000@evil.example",
            "evil.example#localhost:8000",
            "localhost.:8000",
        ),
        *("127.0.0.1:8000, evil.example", "localhost :8000", " localhost:8000", "localhost:08000x", "2130706433:8000"),
        *(
            "0x7f.1:8000",
            "[::ffff:127.0.0.1]:8000",
            "192.168.0.1:8000",
            "0.0.0.0:8000",
            "127.0.0.1:",
            "user@localhost:8000",
        ),
    ],
)
def test_another_name_is_not(host: str) -> None:
    """Promise 29: a page whose name leads to this machine (DNS rebinding) says its own name here."""
    assert status(HOME, host=host) == 421
    assert status(PROXIED, host=host) == 421


def test_port_80_need_not_be_said() -> None:
    assert status(Guard(host="127.0.0.1", port=80), host="localhost") == 200


@pytest.mark.parametrize("host", ["vision.example.org", "vision.example.org:443", "VISION.example.org", "inner:9000"])
def test_a_further_name_is_served(host: str) -> None:
    assert status(PROXIED, host=host) == 200


def test_a_further_name_with_a_port_is_that_port_alone() -> None:
    assert status(PROXIED, host="inner") == status(PROXIED, host="inner:9001") == 421


def test_where_all_addresses_are_listened_at_addresses_are_served_and_names_are_not() -> None:
    for host in ("10.0.0.7:8000", "10.0.0.7:9000", "[fe80::1]:8000", "localhost:9000"):
        assert status(OPEN, host=host) == 200
    assert status(OPEN, host="evil.example:8000") == 421


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "http://evil.example", "https://evil.example:8000", "http://localhost:9999", "http://localhost"),
        *("file://", "http://localhost:8000/", "http://localhost:8000.evil.example", "http://127.0.0.1:8000"),
        *("http://user@localhost:8000", "chrome-extension://abc", "http://localhost:8000 http://evil.example"),
    ],
)
def test_pages_of_others_are_not_served(origin: str) -> None:
    assert status(HOME, host="localhost:8000", origin=origin) == 403


def test_our_own_page_is_served_also_behind_a_proxy_that_speaks_tls() -> None:
    assert status(HOME, host="localhost:8000", origin="http://localhost:8000") == 200
    assert status(PROXIED, host="vision.example.org", origin="https://vision.example.org") == 200
    assert status(PROXIED, host="127.0.0.1:8000", origin="https://vision.example.org") == 200


def test_what_another_site_loads_is_not_served_but_a_link_may_lead_here() -> None:
    for site in ("cross-site", "same-site"):
        assert status(HOME, host="localhost:8000", sec_fetch_site=site, sec_fetch_mode="no-cors") == 403
        assert status(HOME, host="localhost:8000", sec_fetch_site=site) == 403
        assert status(HOME, host="localhost:8000", sec_fetch_site=site, sec_fetch_mode="navigate") == 200
    assert status(HOME, host="localhost:8000", sec_fetch_site="same-origin", sec_fetch_mode="cors") == 200


@pytest.mark.parametrize(
    "said", ["", "Bearer", "Bearer 0123456789abcdeX", "Basic 0123456789abcdef", "0123456789abcdef"]
)
def test_a_token_is_needed_where_there_is_one(said: str) -> None:
    with pytest.raises(Refused, match="Bearer TOKEN") as refused:
        OPEN.check_token({"authorization": said}, open_to_all=False)
    assert (refused.value.status, refused.value.headers) == (401, {"WWW-Authenticate": "Bearer"})
    OPEN.check_token({"authorization": said}, open_to_all=True)


def test_who_knows_the_token_is_let_in() -> None:
    for said in ("Bearer 0123456789abcdef", "bearer 0123456789abcdef"):
        OPEN.check_token({"authorization": said}, open_to_all=False)
    HOME.check_token({}, open_to_all=False)


def test_weak_tokens_and_names_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="can be guessed"):
        check_strength("short")
    for token in ("sixteen letters with spaces", "schlüssel-schlüssel"):
        with pytest.raises(UsageError, match="ASCII"):
            check_strength(token)
    check_strength("0123456789abcdef")
    for name in ("https://vision.example.org", "vision.example.org/path", "", "*"):
        with pytest.raises(UsageError, match="no name of a host"):
            check_name(name)
    check_name("vision.example.org:443")


def test_the_address_is_one_that_a_browser_takes() -> None:
    assert Guard(host="::1", port=1).address == "http://[::1]:1"
    assert OPEN.address == "http://127.0.0.1:8000"
