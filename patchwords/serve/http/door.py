"""One route: what it takes, what it gives, and who answers; the router and the OpenAPI schema both read it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from starlette.responses import Response
from starlette.types import Receive

from patchwords.serve.http.parameter import Parameter
from patchwords.serve.http.service import Service
from patchwords.serve.http.upload import Upload

Body = Literal["none", "picture", "picture or JSON"]
Schema = Mapping[str, Any]


class Asked(NamedTuple):
    """One request, as far as it was read: the values of its address, its headers, and where its body comes from."""

    values: Mapping[str, Any]
    headers: Mapping[str, str]
    receive: Receive

    def upload(self, service: Service) -> Upload:
        return Upload(self.headers, self.receive, service.limits, service.bodies)


Handler = Callable[[Service, Asked], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Door:
    """A method and a path, in which {word} stands for one part of it; `gives` is the schema of an answer in JSON."""

    method: Literal["GET", "POST"]
    path: str
    says: str
    handler: Handler
    takes: tuple[Parameter, ...] = ()
    body: Body = "none"
    kind: str = "application/json"
    gives: Schema | None = None
    refuses: tuple[int, ...] = ()  # besides what any request can be refused for
    open_to_all: bool = False  # without the token too

    def matches(self, parts: list[str]) -> dict[str, str] | None:
        """The words that the path leaves open, or None for another path."""
        own = self.path.split("/")
        if len(own) != len(parts):
            return None
        found = {}
        for mine, given in zip(own, parts, strict=True):
            if mine.startswith("{") and given:
                found[mine.strip("{}")] = given
            elif mine != given:
                return None
        return found
