"""`bench inference`: pictures on the device to logits, ours and the peers' with the same weights."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from patchwords.bench import peers
from patchwords.bench.ceiling import ceiling, machine
from patchwords.bench.measure import Call, Effort, Entrant, entered, in_turns, waited
from patchwords.bench.row import OURS, Report, compared, row
from patchwords.bench.same import CHECKED, exact, expect_same, logits
from patchwords.bench.values import pictures
from patchwords.bench.words import expect_words
from patchwords.errors import UsageError
from patchwords.models.cost import cost
from patchwords.models.model import Model
from patchwords.settings import at_least, check
from patchwords.speed.graphs import Graphed, Graphs
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Working
from patchwords.speed.prepare import ready

SETS = 3  # batches of random pictures, in turn
ASKED = 50  # times, for how long a person waits for one picture
KINDS = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}  # what a peer can be asked for
How = Literal["eager", "compiled", "eager graphs", "compiled graphs"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is measured: so many pictures at a time, where, in which settings of ours, beside whom."""

    batch: int
    device: torch.device
    precisions: tuple[Working, ...] = ("bf16",)
    kernels: Choice = "auto"
    graphs: Graphs = "auto"
    compiled: bool = False
    who: tuple[str, ...] = (OURS, *peers.PEERS)
    hows: tuple[How, ...] = ("eager", "compiled")  # of the peers
    effort: Effort = field(default_factory=Effort)

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch)
        expect_words("precision", self.precisions, get_args(Working))
        expect_words("how", self.hows, get_args(How))

    @property
    def how(self) -> str:
        """Our settings in words."""
        words = (self.kernels != "auto", self.kernels), (self.compiled, "compiled")
        return " ".join(word for applies, word in words if applies)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The precisions that a peer is measured in: the same, or where it has no such thing the best that it has."""
        best = "bf16" if self.device.type == "cuda" else "float32"
        return tuple(dict.fromkeys(name if name in KINDS else best for name in self.precisions))


@dataclass(frozen=True)
class Course:
    """The model, the pictures that everybody is given, and the first logits in float32."""

    model: Model
    sets: Sequence[Tensor]
    wanted: Tensor
    asked: Asked


def inference(name: str, model: Model, asked: Asked, note: Callable[[str], None], bench: str = "inference") -> Report:
    """Everybody's speed in every precision that they have; who computes other logits is not measured."""
    torch.compiler.reset()  # else what was measured before could be in the way of what is compiled now
    device, config = asked.device, model.config
    model = deepcopy(model).to(device).eval().requires_grad_(False)
    sets = pictures(asked.batch, config.channels, config.image, device, SETS)
    with exact():
        course = Course(model, sets, logits(model, sets[0][:CHECKED]), asked)
    found = peers.installed(tuple(one for one in asked.who if one != OURS), note)
    entrants = list(ours(course, note)) if OURS in asked.who else []
    entrants += [one for peer in found for one in rivals(peer, course, note)]
    if not entrants:
        raise UsageError(f"nobody of {', '.join(asked.who)} can be measured: name others with --who")
    most, work = ceiling(device), 2 * cost(config).macs
    times = in_turns([entrant.call for entrant in entrants], device, asked.effort)
    rows = []
    for entrant, seconds in zip(entrants, times, strict=True):
        made = row(bench, name, entrant, seconds, batch=asked.batch, image=config.image)
        further = {"wait": 1000 * waited(entrant.call, ASKED, device)} if asked.batch == 1 else {}
        rows.append(replace(made, ceiling=made.images_per_second * work / most, further=made.further | further))
    return Report(bench=bench, machine=machine(device, found) | {"ceiling": most}, rows=compared(rows))


def ours(course: Course, note: Callable[[str], None]) -> Iterator[Entrant]:
    for precision in course.asked.precisions:
        yield _entered(OURS, course.asked.how, precision, course, partial(_prepared, course, precision), note)


def _prepared(course: Course, precision: Working) -> Call:
    asked = course.asked
    fast = ready(
        course.model,
        device=asked.device,
        precision=precision,
        kernels=asked.kernels,
        compiled=asked.compiled,
        graphs=asked.graphs,
    )
    return lambda number: fast(course.sets[number % SETS])


def rivals(name: str, course: Course, note: Callable[[str], None]) -> Iterator[Entrant]:
    """A peer in every way that it can be run; what does not run, or computes something else, is said."""
    asked = course.asked
    for module in peers.lenient(name, lambda: _twin(name, course), note):
        for precision in asked.rivals:
            sets = [images.to(KINDS[precision]) for images in course.sets]  # in time that nobody counts
            for how in asked.hows:
                if "graphs" not in how or asked.device.type == "cuda":
                    enter = partial(_entered, name, how, precision, course, partial(_run, module, how, sets), note)
                    yield from peers.lenient(f"{name} {how} in {precision}", enter, note)


def _twin(name: str, course: Course) -> nn.Module:
    module = peers.twin(name, course.model).to(course.asked.device).requires_grad_(False)
    with exact():
        expect_same(name, logits(module, course.sets[0][:CHECKED]), course.wanted, "float32")
    return module


def _entered(
    who: str, how: str, precision: str, course: Course, make: Callable[[], Call], note: Callable[[str], None]
) -> Entrant:
    """Checked in the precision measured, too, and with the very batch: another size would be compiled anew."""
    entrant = entered(who, how, precision, course.asked.device, make)
    said = entrant.call(0)
    assert isinstance(said, Tensor)
    apart = expect_same(who, said[:CHECKED].float(), course.wanted, precision)
    note(f"{who} {how}".strip() + f" in {precision}: ready after {entrant.preparing:.1f} s, logits {apart:.1e} apart")
    return replace(entrant, told={"apart": apart})


def _run(module: nn.Module, how: How, sets: Sequence[Tensor]) -> Call:
    """With weights of its own in the pictures' kind, so that its memory is known."""
    own = deepcopy(module).to(sets[0].dtype)
    function: Callable[[Tensor], Tensor] = torch.compile(own, dynamic=False) if "compiled" in how else own
    if "graphs" in how:
        function = Graphed(function, "always")

    def call(number: int) -> Tensor:
        with torch.inference_mode():
            return function(sets[number % SETS])

    return call
