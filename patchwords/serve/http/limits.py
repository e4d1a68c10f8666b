"""What the service allows: sizes, numbers and times, so that nobody's request can take it from the others."""

from dataclasses import dataclass

from patchwords.errors import UsageError

MOST_MEGABYTES = 200  # of one body


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bytes and seconds; what is above them is refused or dropped."""

    body: int = 10_000_000  # of one request
    bodies: int = 256_000_000  # of all that are here and not decoded yet
    pictures: int = 1024  # accepted and not answered yet
    questions: int = 16  # the same, of those that take longer: examine, attention, embed, positions
    connections: int = 2048
    patience: float = 5.0  # until a body must have begun to come
    rate: int = 20_000  # and then come, a second
    longest: float = 60.0  # until all of it must be here
    head: float = 10.0  # until a request's first lines must be here
    head_bytes: int = 16_384
    idle: int = 30  # between two requests of a connection
    linger: float = 2.0  # to let a refused upload run out, so that its sender hears why
    check: float = 10.0  # until a model must have answered the health check
    leaving: int = 60  # for what is in flight when the service stops

    def __post_init__(self) -> None:
        for name in ("body", "pictures", "questions", "connections"):
            if getattr(self, name) < 1:
                raise UsageError(f"a limit of {getattr(self, name)} {name} lets nothing in: choose 1 or more")
        if self.body > MOST_MEGABYTES * 1_000_000:
            raise UsageError(f"bodies of more than {MOST_MEGABYTES} MB are not for a service: choose less")
