"""Who is served: requests to our own name, from our own page or from no page, with the token where there is one.

The check of the name keeps out pages that let their own name lead to this machine (DNS rebinding), the check of the
origin those that send from the visitor's browser.
"""

import hmac
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from patchwords.errors import UsageError
from patchwords.serve.http.refusal import Refused

SHORTEST = 16  # letters of a token
ACROSS_SITES = ("cross-site", "same-site")
HERE = ("localhost", "127.0.0.1", "[::1]")
NAME = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")  # with or without a port
FOREIGN_HOST = "this service is not called {!r}: use the address that it was started with, or start it with --host-name"
FOREIGN_ORIGIN = "pages of {} are not served here: there is no sharing between origins"
ACROSS = "requests that another site's page makes are not served here"
NO_TOKEN = "this service was started with a token: send it as Authorization: Bearer TOKEN"


def check_strength(token: str) -> None:
    """Refuses a token that can be guessed, or that no header can hold."""
    if not re.fullmatch(r"[!-~]*", token):
        raise UsageError("a token is of letters, digits and signs of ASCII without spaces: choose another")
    if len(token) < SHORTEST:
        raise UsageError(
            f"a token of {len(token)} letters can be guessed: take {SHORTEST} or more, as `openssl rand -hex 16` makes"
        )


def check_name(name: str) -> None:
    """A name by which a proxy, or a forwarded port, leads here."""
    if not NAME.fullmatch(name.lower()):
        raise UsageError(f"--host-name {name!r} is no name of a host: write it as vision.example.org, or with :PORT")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """The address that is listened at, further names that lead to it, and the token, if any."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    token: str = ""

    @property
    def address(self) -> str:
        """Where a browser on this machine finds it."""
        host = "127.0.0.1" if self._listens_everywhere() else _written(self.host)
        return f"http://{host}:{self.port}"

    def check_place(self, headers: Mapping[str, str]) -> None:
        """Refuses what was meant for another name, or comes from another page."""
        host = headers.get("host", "").lower()
        if not self._is_ours(host):
            raise Refused(421, FOREIGN_HOST.format(host[:80]))
        origin = headers.get("origin")
        if origin is not None and not self._is_our_page(origin.lower(), host):
            raise Refused(403, FOREIGN_ORIGIN.format(repr(origin[:80])))
        if headers.get("sec-fetch-site") in ACROSS_SITES and headers.get("sec-fetch-mode") != "navigate":
            raise Refused(403, ACROSS)

    def check_token(self, headers: Mapping[str, str], open_to_all: bool) -> None:
        """Refuses who does not know the token, where one is needed."""
        if self.token and not open_to_all and not self._knows(headers.get("authorization", "")):
            raise Refused(401, NO_TOKEN, {"WWW-Authenticate": "Bearer"})

    def _is_ours(self, host: str) -> bool:
        found = NAME.fullmatch(host)
        if not found:
            return False
        name, port = found[1], int(found[2] or 80)
        if self._is_named(name, found[2]):
            return True
        if self._listens_everywhere():  # perhaps behind a forwarded port; no name, so nobody can make it lead here
            return name in HERE or _is_address(name)
        return port == self.port and name in (*HERE, _written(self.host))

    def _is_named(self, name: str, port: str | None) -> bool:
        return any(each.lower() in (name, f"{name}:{port}") for each in self.names)

    def _is_our_page(self, origin: str, host: str) -> bool:
        """Our page is where the request goes to; behind a proxy it has one of the further names."""
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}":
            return False
        found = NAME.fullmatch(parts.netloc)
        return found is not None and (parts.netloc == host or self._is_named(found[1], found[2]))

    def _listens_everywhere(self) -> bool:
        return _is_address(_written(self.host)) and ipaddress.ip_address(self.host).is_unspecified

    def _knows(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        known = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.token.encode())
        return known and scheme.lower() == "bearer"


def _written(host: str) -> str:
    return f"[{host}]" if ":" in host else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
