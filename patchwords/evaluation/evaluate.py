"""`patchwords.evaluate`: how good a model is, by pictures that it did not learn from, with a report to look at."""

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from patchwords.data.broken import Broken
from patchwords.data.sources.door import open_data, spelled
from patchwords.data.sources.source import Data
from patchwords.errors import ResourceError
from patchwords.evaluation.answers import answers
from patchwords.evaluation.frozen import Wanted, Working, examine
from patchwords.evaluation.judgement import Judgement, judge
from patchwords.evaluation.matching import Matching
from patchwords.evaluation.pictures import Asked, Opening, find
from patchwords.evaluation.record import record
from patchwords.evaluation.result import Cost, Evaluation
from patchwords.evaluation.task import How, Plan, Task, Watch, expect_classes, planned
from patchwords.pages.folder import fresh
from patchwords.pages.wording import memory
from patchwords.settings import lists, present, texts
from patchwords.speed.device import called
from patchwords.speed.precision import Mixed
from patchwords.weights import store
from patchwords.weights.subject import open_subject

logger = logging.getLogger("patchwords")


def evaluate(
    model: str | Path,
    data: str | Path = "",
    *,
    split: Asked = "auto",
    few_shot: Sequence[int] = (),
    penalties: Sequence[float] = (),
    knn: Sequence[int] = (),
    probe: bool = False,
    real: str | Path = "",
    by_order: bool = False,
    image: int | tuple[int, int] | None = None,
    heads: int | None = None,
    device: str = "auto",
    precision: Mixed = "float32",
    batch: int = 64,
    broken: float = 0.001,
    out: str | Path | None = None,
    offline: bool = False,
    mirror: str = "",
    note: Callable[[str], None] = logger.info,
    working: Working = lambda what, done, total: None,
) -> Evaluation:
    """Judges a model by a data set, that of its own run if none is given, and leaves a folder with a report.

    Without a `split` these are the test pictures, else those for validation, else all of data that has no parts.
    `few_shot`, `knn` and `probe` judge its features, fitted on training pictures; its own classes may be others.
    """
    texts(real=real, **present(out=out))
    lists(few_shot=few_shot, penalties=penalties, knn=knn)
    how = How(
        split=split,
        by_order=by_order,
        real=str(real),
        device=device,
        precision=precision,
        batch=batch,
        broken=broken,
    )
    wanted = Wanted(shots=tuple(few_shot), penalties=tuple(penalties), neighbours=tuple(knn), probe=probe)
    watch, compute = Watch(note=note, working=working), how.compute()
    fetching = partial(working, f"downloading {model}")
    fetch = partial(store.fetch, offline=offline, mirror=mirror, progress=fetching)
    subject = open_subject(model, image=(image, image) if isinstance(image, int) else image, heads=heads, fetch=fetch)
    for remark in subject.notes:
        watch.say(remark)
    expect_classes(subject, wanted)
    task = Task(
        subject=subject,
        pictures=find(subject, spelled(data), _opening(watch, offline=offline, mirror=mirror)),
        how=how,
        wanted=wanted,
        compute=compute,
        watch=watch,
    )
    return _performed(task, planned(task), None if out is None else Path(out))


def _opening(watch: Watch, **place: Any) -> Opening:
    def opened(given: str) -> Data:
        return open_data(given, split=None, progress=partial(watch.working, f"downloading {given}"), **place)

    return opened


def _performed(task: Task, plan: Plan, out: Path | None) -> Evaluation:
    """The answer, written to a folder of its own."""
    subject, data, compute = task.subject, task.pictures.data, task.compute
    broken = Broken(task.how.broken, plan.total, task.watch.note, "--broken")
    subject.model.to(compute.device)
    with fresh(out, f"evaluate-{data.name}") as folder:
        _refuse_full(folder, plan)
        started = time.monotonic()
        judgement = _judged(task, plan, plan.matching, broken) if plan.matching else None
        asked = time.monotonic() - started if judgement else 0.0
        frozen = (
            examine(subject, plan.lesson, task.wanted, compute, broken, task.watch.working) if plan.lesson else None
        )
        evaluation = Evaluation(
            folder=folder,
            model=subject.name,
            card=subject.card,
            data=data.name,
            split=plan.part if judgement or frozen is None else frozen.part,
            said=plan.said,
            judgement=judgement,
            frozen=frozen,
            cost=Cost(
                seconds=time.monotonic() - started,
                asked=asked,
                images=judgement.scores.count if judgement else 0,
                device=called(compute.device),
                precision=compute.precision,
                batch=compute.batch,
            ),
            broken=dict(broken.found),
            notes=tuple(task.watch.said),
        )
        record(evaluation, plan.source)
    return evaluation


def _refuse_full(folder: Path, plan: Plan) -> None:
    """Finds out before the model is asked whether there is a place for all that it says."""
    needed = 4 * len(plan.source) * len(plan.matching.names) if plan.matching else 0
    if needed > (free := shutil.disk_usage(folder).free):
        raise ResourceError(
            f"the logits need {memory(needed)}, and the disk of {folder} has {memory(free)} left: choose another --out"
        )


def _judged(task: Task, plan: Plan, matching: Matching, broken: Broken) -> Judgement:
    card = task.subject.card
    found = answers(
        task.subject.model,
        plan.source,
        card.preprocess,
        card.model.channels,
        task.compute,
        broken,
        lambda done, total: task.watch.working("asking the model", done, total),
    )
    return judge(found, matching, card.loss, plan.sets)
