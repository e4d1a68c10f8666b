"""`bench training`: forward, backward and AdamW on a batch that lies on the device."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.bench import peers
from patchwords.bench.ceiling import ceiling, machine
from patchwords.bench.measure import Call, Effort, Entrant, allocated, entered, in_turns, peak
from patchwords.bench.row import OURS, Report, Row, compared, row
from patchwords.bench.same import CHECKED, exact, expect_same, logits
from patchwords.bench.values import pictures
from patchwords.bench.words import expect_words
from patchwords.data.finish import targets
from patchwords.errors import ModelError, UsageError
from patchwords.models.cost import cost
from patchwords.models.model import Model
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.settings import at_least, check
from patchwords.speed.attention import fastest
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Mixed, Precision, autocast, mixed
from patchwords.speed.prepare import prepare
from patchwords.speed.recompute import Recompute
from patchwords.speed.step import MEASURED, WARM, Graph, Step
from patchwords.training import optimizer
from patchwords.training.groups import groups
from patchwords.training.optimizer import AdamW
from patchwords.training.recordable import recordable

SETS = 2
NEAR = 0.03  # how far apart, in parts of it, the loss of the first step may be
ADAMW = AdamW(lr=1e-4, decay=0.05)
How = Literal["eager", "compiled"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What is measured: so many pictures at a time, where, in which settings of ours, beside whom."""

    batch: int
    device: torch.device
    precisions: tuple[Precision, ...] = ("bf16",)  # of ours; the peers learn in as many, but for fp8
    kernels: Choice = "auto"
    compiled: bool = False
    recompute: Recompute = False
    graph: Graph = "auto"
    who: tuple[str, ...] = (OURS, *peers.PEERS)
    hows: tuple[How, ...] = ("compiled",)  # of the peers
    effort: Effort = field(default_factory=lambda: Effort(rounds=8, seconds=0.5))

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch)
        expect_words("precision", self.precisions, get_args(Precision))
        expect_words("how", self.hows, get_args(How))

    @property
    def how(self) -> str:
        """Our settings in words."""
        again = "blocks" if self.recompute is True else self.recompute
        words = (self.kernels != "auto", self.kernels), (self.compiled, "compiled"), (again, f"{again} again")
        return " ".join(word for applies, word in words if applies)


@dataclass(frozen=True)
class Course:
    """The model as it begins, and the pictures and labels that everybody learns from."""

    model: Model
    sets: Sequence[Tensor]
    labels: Sequence[Tensor]
    asked: Asked


def training(name: str, model: Model, asked: Asked, note: Callable[[str], None]) -> Report:
    """Everybody's steps from the same weights; refused where logits, or the loss of the first step, differ."""
    torch.compiler.reset()
    device, config = asked.device, model.config
    if not config.classes:
        raise ModelError(f"{name} has no classes to learn: give a model that has, or the name of one")
    sets = pictures(asked.batch, config.channels, config.image, device, SETS)
    labels = [torch.randint(config.classes, (asked.batch,), device=device) for _ in sets]
    course = Course(deepcopy(model).to(device), sets, labels, asked)
    found = peers.installed(tuple(name for name in asked.who if name != OURS), note)
    entrants = [ours(course, precision, note) for precision in asked.precisions if OURS in asked.who]
    entrants += [one for peer in found for one in rivals(peer, course, note)]
    if not entrants:
        raise UsageError(f"nobody of {', '.join(asked.who)} can be measured: name others with --who")
    most, work = ceiling(device), 3 * 2 * cost(config).macs  # backward is twice forward
    times = in_turns([one.call for one, _ in entrants], device, asked.effort)
    rows = []
    for (entrant, loss), seconds in zip(entrants, times, strict=True):
        made = row("training", name, entrant, seconds, batch=asked.batch, image=config.image)
        rows.append(replace(made, ceiling=made.images_per_second * work / most, further={"loss": loss}))
    machinery = machine(device, found) | {"ceiling": most}
    return Report(bench="training", machine=machinery, rows=_weighed(compared(rows)))


def _weighed(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Ours with its memory over that of the rival with the least."""
    least = min((one.memory for one in rows if one.who != OURS and one.memory), default=None)
    return tuple(
        replace(one, further=one.further | {"memory": one.memory / least})
        if one.who == OURS and one.memory and least
        else one
        for one in rows
    )


def ours(course: Course, precision: Precision, note: Callable[[str], None]) -> tuple[Entrant, float]:
    """As a run's own parts are put together, and the loss of its first step."""
    asked = course.asked
    first: list[float] = []
    graph = recordable(asked.graph, device=asked.device, processes=1, scaled=False, skips=False, whole=True, note=note)
    launched: list[int | None] = []  # bytes: a step that is replayed asks for none

    def make() -> Call:
        before = allocated(asked.device)
        objective = Classification(deepcopy(course.model), Supervised()).train()
        kinds = groups(objective, decay=ADAMW.decay, layer_decay=ADAMW.layer_decay)
        prepare(
            objective,
            kernels=asked.kernels,
            recomputed=asked.recompute,
            compiled=asked.compiled,
            device=asked.device,
            precision=precision,
            note=note,
        )
        descent = optimizer.build(ADAMW, kinds, asked.device)
        classes = course.model.config.classes
        batches = [
            {"image": images, "target": targets(labels, classes)}
            for images, labels in zip(course.sets, course.labels, strict=True)
        ]

        def work(batch: dict[str, Tensor]) -> dict[str, Tensor]:
            descent.zero_grad(set_to_none=True)
            with fastest(asked.device):
                with autocast(precision, asked.device):
                    loss, _ = objective(batch)
                loss.backward()
            descent.step()
            return {"loss": loss.detach()}

        first.append(float(work(batches[0])["loss"]))
        launched.append(peak(lambda number: work(batches[number % SETS]), asked.device, before))
        step = Step(work, graph=graph, alone=True, device=asked.device, note=note)
        for number in range(0 if graph == "never" else WARM + MEASURED + 1):  # from then on it goes as it will go on
            step(batches[number % SETS])
        return lambda number: step(batches[number % SETS])

    entrant = entered(OURS, asked.how, precision, asked.device, make)
    note(f"ours {precision}: ready after {entrant.preparing:.1f} s, the first loss is {first[0]:.4f}")
    most = max((found for found in (entrant.memory, launched[0]) if found is not None), default=None)
    return replace(entrant, memory=most), first[0]


def rivals(name: str, course: Course, note: Callable[[str], None]) -> Iterator[tuple[Entrant, float]]:
    """A peer's model in the customary loop, and the loss of its first step; what does not run is said."""
    for module in peers.lenient(name, lambda: _twin(name, course), note):
        wanted = _loss(course)
        for how in course.asked.hows:
            for precision in dict.fromkeys(map(mixed, course.asked.precisions)):
                enter = partial(_entered, name, how, precision, course, module, wanted, note)
                yield from peers.lenient(f"{name} {how} {precision}", enter, note)


def _twin(name: str, course: Course) -> nn.Module:
    module, shown = peers.twin(name, course.model).to(course.asked.device), course.sets[0][:CHECKED]
    with exact():
        expect_same(name, logits(module, shown), logits(course.model.eval(), shown), "float32")
    return module


def _entered(
    name: str,
    how: How,
    precision: Mixed,
    course: Course,
    module: nn.Module,
    wanted: float,
    note: Callable[[str], None],
) -> tuple[Entrant, float]:
    first: list[float] = []
    work = partial(_run, module, how, precision, course, first)
    entrant = entered(name, how, precision, course.asked.device, work)
    if not abs(first[0] - wanted) <= NEAR * wanted:
        raise ModelError(f"its first loss is {first[0]:.4f} and the model's {wanted:.4f}, so it learns something else")
    note(f"{name} {how} {precision}: ready after {entrant.preparing:.1f} s, the first loss is {first[0]:.4f}")
    return entrant, first[0]


def _run(module: nn.Module, how: How, precision: Mixed, course: Course, first: list[float]) -> Call:
    own = deepcopy(module).train()
    descent = torch.optim.AdamW(own.parameters(), lr=ADAMW.lr, weight_decay=ADAMW.decay, fused=True)
    asked, sets, labels = course.asked, course.sets, course.labels
    function = torch.compile(own, dynamic=False) if how == "compiled" else own

    def step(number: int) -> Tensor:
        descent.zero_grad(set_to_none=True)
        with autocast(precision, asked.device):
            loss = F.cross_entropy(function(sets[number % SETS]), labels[number % SETS])
        loss.backward()
        descent.step()
        return loss.detach()

    first.append(float(step(0)))
    return step


def _loss(course: Course) -> float:
    """Of the first batch before the first step, in float32."""
    with exact(), torch.inference_mode():
        said = torch.cat([course.model.eval()(images) for images in course.sets[0].split(64)])
        return float(F.cross_entropy(said.float(), course.labels[0]))
