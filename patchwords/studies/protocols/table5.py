"""Table 5 and its protocol: Table 4's rates are tried on a development part, then three trainings learn from all."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords.data.sources.door import place
from patchwords.data.sources.source import Data
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.studies.protocols.transfer import Task, Transfer, transfer, worded
from patchwords.studies.protocols.wanted import Wanted
from patchwords.studies.shares import development, final
from patchwords.training.watch import Log, Watcher

PROTOCOL = "table-5"
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Row:
    """A row of Table 4: its recipe, which has the steps and the development share, and the rates that were tried."""

    recipe: str
    rates: tuple[float, ...]
    names: tuple[str, ...]  # what such data is called, letters and digits alone


CIFAR, SMALL = (0.001, 0.003, 0.01, 0.03), (0.001, 0.003, 0.01, 0.03)
TABLE_4 = (
    Row(
        "paper/finetune-imagenet",
        (0.003, 0.01, 0.03, 0.06),
        ("imagenet", "imagenet1k", "imagenet2012", "ilsvrc", "ilsvrc2012"),
    ),
    Row("paper/finetune-cifar100", CIFAR, ("cifar100", "cifar100python", "cifar100binary")),
    Row("paper/finetune-cifar10", CIFAR, ("cifar10", "cifar10batchespy", "cifar10batchesbin", "cifar10python")),
    Row("paper/finetune-pets", SMALL, ("pets", "oxfordpets", "oxfordiiitpet", "oxfordiiitpets")),
    Row("paper/finetune-flowers", SMALL, ("flowers102", "102flowers", "oxfordflowers102", "oxford102flowers")),
)
OTHERS = TABLE_4[3]  # small sets
NOT_FOR_VIT = 0.06  # the text: only for ResNets and hybrids


def table_5(
    weights: str,
    data: str | Data,
    *,
    recipe: str | None = None,
    change: Mapping[str, Any] | None = None,
    rates: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    device: str = "auto",
    out: Path | None = None,
    resume: Path | None = None,
    offline: bool = False,
    mirror: str = "",
    watcher: Watcher | None = None,
) -> Transfer:
    """Fine-tunes weights by the paper's protocol: mean and deviation of the accuracy over the seeds, (0, 1, 2) if none.

    The test pictures decide nothing. Each training leaves a run folder below `out`, without its checkpoints; what was
    stopped goes on with `resume`, and does not repeat what has finished.
    """
    wanted = Wanted(
        protocol=PROTOCOL,
        weights=weights,
        recipe=recipe,
        change=change or {},
        rates=rates,
        seeds=seeds,
        device=device,
        out=out,
        resume=resume,
        offline=offline,
        mirror=mirror,
        watcher=watcher or Log(),
    )
    opened = data if isinstance(data, Data) else wanted.opened(data)
    row = _row(opened.name, recipe)
    settled = wanted.settled((row or OTHERS).recipe)
    brought, judged = wanted.brought(settled), final(opened)
    usual = _rates(row or OTHERS, brought.model)
    terms = wanted.terms(settled, brought, [judged], rates=usual, seeds=SEEDS)
    if row is None and resume is None:
        _tell(opened.name, wanted)
    develop = development(judged, settled.data.validation) if len(terms.rates) > 1 else None
    wanted.look(judged, settled)
    called = opened.name if isinstance(data, Data) else place(data)
    task = Task(name=opened.name, called=called, develop=develop, final=judged)
    with wanted.begun(terms, f"{PROTOCOL}-{opened.name}", called) as study:
        result = transfer(study, task, study.folder.path, weights)
        study.folder.write_json(f"{PROTOCOL}.json", {"protocol": PROTOCOL, **result.numbers()})
    return result


def _row(name: str, recipe: str | None) -> Row | None:
    """The row of the recipe that was named, else that of the data, where Table 4 has one."""
    word = re.sub(r"[^a-z0-9]", "", name.lower())
    named = [row for row in TABLE_4 if row.recipe == recipe] or [row for row in TABLE_4 if word in row.names]
    return named[0] if named else None


def _tell(name: str, wanted: Wanted) -> None:
    """What is taken from Table 4's small sets for data that it does not have."""
    taken = [f"the recipe ({OTHERS.recipe})"] * (wanted.recipe is None)
    taken += [f"the rates ({', '.join(map(worded, OTHERS.rates))})"] * (wanted.rates is None)
    if taken:
        wanted.watcher.note(f"{name} is no data of Table 4: {' and '.join(taken)} of its small sets are taken")


def _rates(row: Row, config: Config) -> tuple[float, ...]:
    plain = isinstance(config, ViTConfig) and config.stem is None
    return tuple(rate for rate in row.rates if not (plain and rate == NOT_FOR_VIT))
