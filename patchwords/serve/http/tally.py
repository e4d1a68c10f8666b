"""What the service counts of itself, as /metrics tells it."""

from collections.abc import Mapping
from typing import Protocol

from patchwords import __version__
from patchwords.serve.http import process
from patchwords.serve.http.metrics import PICTURES, SECONDS, Counter, Histogram, Labels, Looked, Metric, text
from patchwords.serve.http.room import Room


class Queue(Protocol):
    """Whatever has a line of those who wait."""

    @property
    def waiting(self) -> "Sized": ...


class Sized(Protocol):
    def __len__(self) -> int: ...


class Tally:
    """Requests by route and status, how long they took, what the models were asked, and what is waiting now."""

    def __init__(self) -> None:
        self.requests = Counter("patchwords_requests_total", "Requests answered.", ("route", "method", "status"))
        self.seconds = Histogram(
            "patchwords_request_seconds", "From a request's first lines to its answer.", ("route",), bounds=SECONDS
        )
        self.batches = Histogram(
            "patchwords_batch_pictures", "Pictures that a model was asked about at a time.", ("model",), bounds=PICTURES
        )
        self.model_seconds = Histogram(
            "patchwords_batch_seconds", "How long a model took for a batch.", ("model",), bounds=SECONDS
        )
        self.now = 0  # requests being served
        self.looked: list[Metric] = [
            Looked("patchwords_requests_now", "Requests being served.", lambda: {(): self.now}),
            Looked("patchwords_info", "The version.", lambda: {(__version__,): 1}, ("version",)),
            Looked("process_resident_memory_bytes", "Memory of the process.", lambda: {(): process.memory()}),
            Looked(
                "process_cpu_seconds_total", "Processor time.", lambda: {(): round(process.seconds(), 2)}, (), "counter"
            ),
            Looked("process_start_time_seconds", "When it began.", lambda: {(): round(process.STARTED, 2)}),
            Looked("process_open_fds", "Open files and connections.", lambda: {(): process.files()}),
        ]

    def heard(self, model: str, pictures: int, seconds: float) -> None:
        """A batch was answered."""
        self.batches.add(pictures, model)
        self.model_seconds.add(seconds, model)

    def watch(self, rooms: Mapping[str, Room], queues: Mapping[str, Queue]) -> None:
        """What is waiting in these is told too."""

        def taken() -> dict[Labels, float]:
            return {(name,): room.taken for name, room in rooms.items()}

        def waiting() -> dict[Labels, float]:
            return {(name,): len(queue.waiting) for name, queue in queues.items()}

        self.looked += [
            Looked("patchwords_taken", "Places taken (bodies: bytes).", taken, ("room",)),
            Looked("patchwords_queue_pictures", "Decoded pictures that wait for a model.", waiting, ("model",)),
        ]

    def text(self) -> str:
        return text([self.requests, self.seconds, self.batches, self.model_seconds, *self.looked])
