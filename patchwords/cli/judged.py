"""What `patchwords evaluate` says: one line of JSON, or a table of the scores with how certain they are."""

from collections.abc import Iterator

from patchwords.cli.output import Output, count
from patchwords.evaluation.classify import TOP
from patchwords.evaluation.frozen import Frozen
from patchwords.evaluation.judgement import Judgement
from patchwords.evaluation.result import Evaluation
from patchwords.studies.protocols.transfer import Transfer
from patchwords.studies.protocols.vtab import Vtab

NAMES = {
    "accuracy": "accuracy",
    "top5": "top 5",
    "macro_f1": "F1, mean over the classes",
    "balanced_accuracy": "balanced accuracy",
    "calibration_error": "calibration error",
}


def tell(output: Output, evaluation: Evaluation) -> None:
    output.json({"kind": "result", **evaluation.numbers()})
    judgement, frozen = evaluation.judgement, evaluation.frozen
    if judgement:
        what = f"{count(judgement.scores.count)} pictures ({evaluation.split})"
        output.text(f"{evaluation.model} on {evaluation.data}, {what}")
        output.table(("", "", "95 % confidence"), list(_scores(judgement)))
    if frozen:
        output.text("" if judgement else f"{evaluation.model} on {evaluation.data}")
        head = f"features, {count(frozen.judged)} pictures ({frozen.part})"
        output.table((head, "accuracy", ""), list(_features(frozen)))
    if evaluation.broken:
        output.text(f"\n{count(len(evaluation.broken))} pictures could not be read, and are left out")
    output.text(f"\nlook at {evaluation.report}")


def _scores(judgement: Judgement) -> Iterator[tuple[str, str, str]]:
    scores, scaled = judgement.scores, judgement.scaled
    for name, called in NAMES.items():
        if name == "top5" and len(judgement.names) <= TOP:
            continue  # always right
        low, high = judgement.intervals[name]
        yield called, _percent(getattr(scores, name)), f"{_percent(low)} to {_percent(high)}"
    if scaled:  # each picture by what was fitted on others, which is not quite the temperature for all of them
        fitted = f"temperature {judgement.calibration.temperature:.3g}, fitted on others"
        yield "  scaled", _percent(scaled.calibration_error), fitted
    yield "loss", f"{scores.loss:.4f}", ""
    if scaled:
        yield "  scaled", f"{scaled.loss:.4f}", ""
    if judgement.real:
        yield "ReaL accuracy", _percent(judgement.real.accuracy), f"{count(judgement.real.count)} pictures"


def _features(frozen: Frozen) -> Iterator[tuple[str, str, str]]:
    if few := frozen.few_shot:
        for i, shots in enumerate(few.shots):
            spread = f"deviation {_percent(few.deviation[i, 0])} over {len(few.seeds)} draws"
            yield f"few-shot, {shots} of each class", _percent(few.mean[i, 0]), spread
    if frozen.knn:
        for near in frozen.knn.results:
            yield f"nearest neighbours, {near.neighbours}", _percent(near.top1), f"top 5 {_percent(near.top5)}"
    if frozen.probe:
        yield "linear probe", _percent(frozen.probe.scores.accuracy), f"top 5 {_percent(frozen.probe.scores.top5)}"


def tell_table_5(output: Output, done: Transfer) -> None:
    output.json({"kind": "result", "protocol": "table-5", **done.numbers()})
    rows = [(f"{rate:g}", _percent(accuracy), "chosen" if rate == done.rate else "") for rate, accuracy in _tried(done)]
    if rows:
        output.table(("rate", "development", ""), rows)
        output.text("")
    output.text(f"{done.data}: {_spread(done)} with rate {done.rate:g}, by {count(done.pictures['judged'])} pictures")
    output.text(f"all trainings are in {done.folder}")


def tell_vtab(output: Output, done: Vtab) -> None:
    output.json({"kind": "result", "protocol": "vtab-1k", **done.numbers()})
    rows = [(name, done.members[name], _spread(task)) for name, task in done.tasks.items()]
    output.table(("task", "group", "accuracy"), rows)
    output.text("")
    for group, mean in done.groups.items():
        output.text(f"{group}: {_percent(mean)}")
    output.text(f"all {count(len(done.tasks))} tasks: {_percent(done.mean)}; the trainings are in {done.folder}")


def _tried(done: Transfer) -> list[tuple[float, float]]:
    return sorted(done.rates.items())


def _spread(done: Transfer) -> str:
    if done.deviation is None:
        return _percent(done.mean)
    return f"{_percent(done.mean)} with a deviation of {_percent(done.deviation)} over {len(done.accuracies)} seeds"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"
