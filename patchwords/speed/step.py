"""A step of training as one CUDA graph: launched operation by operation at first, then recorded and replayed."""

import statistics
import time
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from patchwords.errors import ResourceError

Graph = Literal["auto", "never", "always"]
Tensors = dict[str, Tensor]
Work = Callable[[Tensors], Tensors]  # from a batch to numbers, each a tensor without axes

WARM = 3  # steps before anything else: kernels are compiled, the optimizer's memory is made
MEASURED = 5  # steps that decide
RULES = 0.8  # of a step's time; where launching takes a larger share, the device waits for it
ROOM = 0.5  # of a device's memory: a graph keeps what a step needs to itself, and others need some too


class Step:
    """Work that is done again and again on batches of one shape, in the way that takes less time.

    Where the device does nothing else, that is a graph, since it leaves no gaps between operations. Others who use the
    device, such as a decoder, need the gaps: there it is a graph only where launching takes most of the time.

    A graph reads and writes the same memory each time: the batch is copied in, and the numbers are copied out. Its
    random numbers are those of the seed that the device has when it is replayed.
    """

    def __init__(self, work: Work, *, graph: Graph, alone: bool, device: torch.device, note: Callable[[str], None]):
        self.work = work
        self.alone = alone
        self.device = device
        self.note = note
        self.wanted = {"auto": None, "never": False, "always": True}[graph]  # None: not known yet
        self.launched = 0
        self.times: list[tuple[float, float]] = []
        self.recorded: Recorded | None = None

    def __call__(self, batch: Tensors) -> Tensors:
        if self.wanted and not self.recorded and self.launched >= WARM:
            self._record(batch)
        if self.recorded and self.recorded.takes(batch):
            return self.recorded(batch)
        self.launched += 1
        if self.wanted is None and self.launched > WARM:
            return self._watched(batch)
        return self.work(batch)

    def forget(self) -> None:
        """What was recorded reads memory that is no longer in use: it begins with some steps that are launched."""
        self.recorded = None
        self.launched = 0

    def _watched(self, batch: Tensors) -> Tensors:
        """The work, with a look at the clock; the last look decides."""
        numbers, launching, taken = timed(self.work, batch, self.device)
        self.times.append((launching, taken))
        if len(self.times) == MEASURED:
            launching, taken = (1e3 * statistics.median(column) for column in zip(*self.times, strict=True))
            self.wanted = launching > RULES * taken or (self.alone and used(self.device) < ROOM)
            follows = "from here on it is replayed as one graph" if self.wanted else "it needs no graph"
            self.note(f"a step takes {taken:.1f} ms, {launching:.1f} ms of them to launch it: {follows}")
        return numbers

    def _record(self, batch: Tensors) -> None:
        try:
            self.recorded = Recorded(self.work, batch, self.device)
        except (RuntimeError, ResourceError) as error:  # out of memory among them
            self.wanted = False
            self.note(f"a step cannot be recorded as a graph ({_first(error)}): each is launched as before")


class Recorded:
    """The work on one batch, recorded, for all batches of its shape."""

    def __init__(self, work: Work, batch: Tensors, device: torch.device):
        self.batch = {name: tensor.clone() for name, tensor in batch.items()}
        self.names: list[str] = []
        self.numbers, self.replay = captured(lambda: self._packed(work), device)

    def _packed(self, work: Work) -> Tensor:
        """All numbers in one tensor, which is copied at once."""
        numbers = work(self.batch)
        self.names = list(numbers)
        return torch.stack([number.float() for number in numbers.values()])

    def takes(self, batch: Tensors) -> bool:
        return _form(batch) == _form(self.batch)

    def __call__(self, batch: Tensors) -> Tensors:
        torch._foreach_copy_(list(self.batch.values()), [batch[name] for name in self.batch])
        self.replay()
        return dict(zip(self.names, self.numbers.clone().unbind(), strict=True))


def timed(work: Work, batch: Tensors, device: torch.device) -> tuple[Tensors, float, float]:
    """What the work gives, the seconds until all of it was launched, and those until the device had done it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.current_stream(device)
    stream.synchronize()
    begun = time.perf_counter()
    start.record(stream)
    numbers = work(batch)
    end.record(stream)
    launching = time.perf_counter() - begun
    end.synchronize()
    return numbers, launching, start.elapsed_time(end) / 1e3


def used(device: torch.device) -> float:
    """The share of a device's memory that was needed at most."""
    return torch.cuda.max_memory_reserved(device) / torch.cuda.get_device_properties(device).total_memory


def captured(work: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, Callable[[], None]]:
    """Where the work will leave its result, and what does the work; it is not done yet, and a failure leaves no trace.

    Other threads may use the device meanwhile: pictures are on their way to it.
    """
    stream, graph = torch.cuda.current_stream(device), torch.cuda.CUDAGraph()
    generator = torch.cuda.default_generators[stream.device.index]
    drawn = generator.get_state()
    try:
        with torch.cuda.device(device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            given = work()
    except BaseException:
        torch.cuda.set_stream(stream)
        generator.graphsafe_set_state(torch.Generator(device).graphsafe_get_state())  # the old one is the graph's
        generator.set_state(drawn)
        raise
    return given, graph.replay


def _first(error: BaseException) -> str:
    """The first line of the error that came first: an end without a beginning hides what it was."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).partition("\n")[0]


def _form(batch: Tensors) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in batch.items()}
