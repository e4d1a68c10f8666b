"""Numbers for Prometheus, in its text format: counts, histograms, and what is looked up when somebody asks."""

import abc
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

Labels = tuple[str, ...]  # their values, in the order of a metric's names
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PICTURES = (1, 2, 4, 8, 16, 32, 64, 128)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(abc.ABC):
    """A name, what it says, and rows of a name, labels and a value."""

    kind: str

    def __init__(self, name: str, says: str, labels: Sequence[str] = ()):
        self.name, self.says, self.labels = name, says, tuple(labels)
        self.lock = Lock()

    @abc.abstractmethod
    def rows(self) -> Iterator[str]: ...

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.says}"
        yield f"# TYPE {self.name} {self.kind}"
        yield from self.rows()

    def row(self, value: float, labels: Labels, ending: str = "", **more: str) -> str:
        pairs = [*zip(self.labels, labels, strict=True), *more.items()]
        inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in pairs)
        return (
            f"{self.name}{ending}{{{inside}}} {_written(value)}" if inside else f"{self.name}{ending} {_written(value)}"
        )


class Counter(Metric):
    """What only grows."""

    kind = "counter"

    def __init__(self, name: str, says: str, labels: Sequence[str] = ()):
        super().__init__(name, says, labels)
        self.values: dict[Labels, float] = {}

    def add(self, *labels: str, amount: float = 1) -> None:
        with self.lock:
            self.values[labels] = self.values.get(labels, 0) + amount

    def rows(self) -> Iterator[str]:
        with self.lock:
            found = sorted(self.values.items())
        yield from (self.row(value, labels) for labels, value in found)


class Histogram(Metric):
    """How many values were up to each bound."""

    kind = "histogram"

    def __init__(self, name: str, says: str, labels: Sequence[str] = (), *, bounds: Sequence[float]):
        super().__init__(name, says, labels)
        self.bounds = tuple(bounds)
        self.values: dict[Labels, list[float]] = {}  # a count for each bound, then for what is above, then the sum

    def add(self, value: float, *labels: str) -> None:
        with self.lock:
            row = self.values.setdefault(labels, [0] * (len(self.bounds) + 2))
            row[bisect_left(self.bounds, value)] += 1
            row[-1] += value

    def rows(self) -> Iterator[str]:
        with self.lock:
            found = sorted((labels, list(row)) for labels, row in self.values.items())
        for labels, (*counts, total) in found:
            below = 0.0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                below += count
                yield self.row(below, labels, "_bucket", le="+Inf" if bound == float("inf") else _written(bound))
            yield self.row(total, labels, "_sum")
            yield self.row(below, labels, "_count")


class Looked(Metric):
    """What is there now, by its labels."""

    def __init__(
        self,
        name: str,
        says: str,
        look: Callable[[], dict[Labels, float]],
        labels: Sequence[str] = (),
        kind: str = "gauge",
    ):
        super().__init__(name, says, labels)
        self.look, self.kind = look, kind

    def rows(self) -> Iterator[str]:
        yield from (self.row(value, labels) for labels, value in self.look().items())


def text(metrics: Sequence[Metric]) -> str:
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _escaped(label: str) -> str:
    escaped = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return escaped.encode("utf-8", "replace").decode()


def _written(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
