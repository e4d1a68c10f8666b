"""A step that is recorded does what it does when it is launched; a tape stands in for the graph of a device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from patchwords.errors import ResourceError
from patchwords.speed import step as module
from patchwords.speed.step import MEASURED, WARM, Graph, Step, Tensors

CPU = torch.device("cpu")


@dataclass
class Tape:
    """Records as a graph does: nothing is done yet, and each replay works in the same memory."""

    state: Sequence[Tensor]
    fault: Exception | None = None
    replays: int = 0
    recordings: int = 0

    def __call__(self, work: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, Callable[[], None]]:
        self.recordings += 1
        if self.fault:
            raise self.fault
        before = [tensor.detach().clone() for tensor in self.state]
        with torch.random.fork_rng(devices=[]):
            left = work()
        with torch.no_grad():
            for tensor, value in zip(self.state, before, strict=True):
                tensor.copy_(value)

        def replay() -> None:
            self.replays += 1
            left.copy_(work())

        return left, replay


@dataclass
class Sums:
    """Work that remembers: each batch moves what it knows."""

    knows: Tensor = field(default_factory=lambda: torch.zeros(()))
    seen: list[int] = field(default_factory=list)  # where the batches lay

    def __call__(self, batch: Tensors) -> Tensors:
        self.seen.append(batch["x"].data_ptr())
        self.knows += batch["x"].sum() + torch.rand(())
        return {"loss": self.knows.clone(), "least": batch["x"].min().double()}


@dataclass
class Trial:
    step: Step
    sums: Sums
    tape: Tape
    notes: list[str]

    def give(self, number: int, size: int = 3) -> Tensors:
        torch.manual_seed(number)
        return self.step({"x": torch.arange(size) + float(number), "y": torch.ones(1)})


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trial]:
    def make(
        graph: Graph,
        *,
        alone: bool = False,
        used: float = 0.0,
        launching: float = 1.0,
        taken: float = 1.0,
        fault: Exception | None = None,
    ) -> Trial:
        sums, notes = Sums(), []  # type: ignore[var-annotated]
        tape = Tape([sums.knows], fault)
        monkeypatch.setattr(module, "captured", tape)
        monkeypatch.setattr(module, "timed", lambda work, batch, device: (work(batch), launching, taken))
        monkeypatch.setattr(module, "used", lambda device: used)
        return Trial(Step(sums, graph=graph, alone=alone, device=CPU, note=notes.append), sums, tape, notes)

    return make


@pytest.mark.parametrize("graph", ["always", "auto"])
def test_a_recorded_step_gives_what_a_launched_one_gives(trial: Callable[..., Trial], graph: Graph) -> None:
    plain, recorded = trial("never"), trial(graph)
    for number in range(20):
        wanted, found = plain.give(number), recorded.give(number)
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name].float()) for name in wanted)
    assert torch.equal(plain.sums.knows, recorded.sums.knows)
    launched = WARM + (MEASURED if graph == "auto" else 0)
    assert (plain.tape.replays, recorded.tape.replays) == (0, 20 - launched)
    assert recorded.tape.recordings == 1
    assert len(set(recorded.sums.seen[launched:])) == 1  # every batch is copied to where the first one lay


def test_what_was_given_stays_when_the_next_batch_comes(trial: Callable[..., Trial]) -> None:
    some = trial("always")
    given = [some.give(number)["loss"] for number in range(8)]
    assert sorted({float(loss) for loss in given}) == [float(loss) for loss in given]


@pytest.mark.parametrize(("launching", "taken", "recorded"), [(0.9, 1.0, True), (0.5, 1.0, False), (1e-3, 0.1, False)])
def test_automatic_is_a_graph_where_launching_takes_most_of_the_time(
    trial: Callable[..., Trial], launching: float, taken: float, recorded: bool
) -> None:
    some = trial("auto", launching=launching, taken=taken)
    for number in range(20):
        some.give(number)
    assert bool(some.tape.replays) is recorded
    (note,) = some.notes
    assert f"a step takes {1e3 * taken:.1f} ms, {1e3 * launching:.1f} ms of them to launch it" in note
    assert note.endswith("it is replayed as one graph" if recorded else "it needs no graph")


@pytest.mark.parametrize(("alone", "used", "recorded"), [(True, 0.4, True), (True, 0.6, False), (False, 0.1, False)])
def test_automatic_is_a_graph_where_the_device_does_nothing_else_and_has_room(
    trial: Callable[..., Trial], alone: bool, used: float, recorded: bool
) -> None:
    some = trial("auto", alone=alone, used=used, launching=0.2, taken=1.0)
    for number in range(20):
        some.give(number)
    assert bool(some.tape.replays) is recorded
    assert some.notes[0].endswith("it is replayed as one graph" if recorded else "it needs no graph")


def test_a_batch_of_another_form_is_launched(trial: Callable[..., Trial]) -> None:
    some = trial("always")
    for number in range(6):
        some.give(number)
    before, replays = float(some.sums.knows), some.tape.replays
    torch.manual_seed(6)
    wanted = before + float(torch.arange(5).sum()) + 5 * 6 + float(torch.rand(()))
    assert float(some.give(6, size=5)["loss"]) == pytest.approx(wanted)
    assert some.tape.replays == replays
    some.give(7)
    assert some.tape.replays == replays + 1


@pytest.mark.parametrize(
    "fault", [torch.OutOfMemoryError("full\nof it"), RuntimeError("not allowed"), ResourceError("x")]
)
def test_what_cannot_be_recorded_goes_on_and_says_so(trial: Callable[..., Trial], fault: Exception) -> None:
    plain, some = trial("never"), trial("always", fault=fault)
    for number in range(10):
        assert torch.equal(some.give(number)["loss"], plain.give(number)["loss"])
    assert some.tape.recordings == 1
    (note,) = some.notes
    assert note == (f"a step cannot be recorded as a graph ({str(fault).splitlines()[0]}): each is launched as before")


def test_the_first_of_several_errors_is_told(trial: Callable[..., Trial]) -> None:
    fault = RuntimeError("the end failed")
    fault.__context__ = RuntimeError("the beginning failed")
    some = trial("always", fault=fault)
    for number in range(5):
        some.give(number)
    assert "the beginning failed" in some.notes[0]


def test_an_error_of_another_kind_is_nobodys_to_hide(trial: Callable[..., Trial]) -> None:
    some = trial("always", fault=KeyError("a bug"))
    for number in range(WARM):
        some.give(number)
    with pytest.raises(KeyError):
        some.give(WARM)


def test_what_is_forgotten_is_launched_some_times_and_recorded_anew(trial: Callable[..., Trial]) -> None:
    plain, some = trial("never"), trial("auto")
    for number in range(30):
        if number == 12:
            some.step.forget()
            for each in (plain, some):
                each.sums.knows += 100  # another state
        assert torch.equal(some.give(number)["loss"], plain.give(number)["loss"])
    assert some.tape.recordings == 2
    assert some.tape.replays == 30 - WARM - MEASURED - WARM
    assert len(some.notes) == 1  # what was measured holds
