"""The head of the report: what was trained on what, and how well it went."""

from collections.abc import Iterator

from patchwords.evaluation.report.panels import Judged
from patchwords.pages.markup import Markup, element, name
from patchwords.pages.parts import tiles
from patchwords.pages.wording import duration, interval, percent, plural, short, whole
from patchwords.training.report.history import History, Row, is_number
from patchwords.training.run.folder import PLACE

TOLD = (*PLACE, "loss", "accuracy")


def header(past: History, judged: Judged | None, title: str) -> Markup:
    numbers = tiles(_tiles(past, judged))
    return element("header", element("h1", name(title)), element("p", *_story(past)), numbers)


def _story(past: History) -> Iterator[str]:
    """What was trained on what, for how long and when, as far as it is known."""
    counts, weights = past.counts, past.recipe.get("weights")
    yield from ("Fine-tuned from ", name(str(weights))) if weights else ("Trained from scratch",)
    if is_number(counts.get("train")):
        yield f" on {plural(counts['train'], 'picture')}"
        labels = f" of {plural(len(past.classes), 'class', 'classes')}"
        yield labels if past.is_labelled else f" without labels ({past.objective})"
    yield from _length(past)
    if is_number(counts.get("val")):
        yield f"; judged by {plural(counts['val'], 'picture')} that it did not learn from"
    yield "."
    if past.run.get("started"):
        yield f" Started {str(past.run['started']).replace('T', ' ')[:16]}"
        yield f", took {duration(past.seconds)}." if past.seconds else "."
    if past.run.get("status", "finished") != "finished":
        yield from (" State of the run: ", name(str(past.run["status"])), ".")


def _length(past: History) -> Iterator[str]:
    """What was done, and what was planned where that is something else."""
    done = plural(past.last.get("epoch", 0), "epoch")
    planned = str(past.recipe.get("duration", done))
    yield f" for {done}, {plural(past.last.get('step', 0), 'step')}"
    if planned != done:
        yield f" (planned: {planned})"


def _tiles(past: History, judged: Judged | None) -> Iterator[tuple[str, str, str]]:
    """Numbers, each with a remark: exact ones of the best model, or else those of the best evaluation."""
    numbers = judged.scores.numbers() if judged else past.best
    if not numbers:
        yield "Accuracy" if past.is_labelled else "Loss", "\N{EN DASH}", "no evaluation was made"
    if is_number(numbers.get("accuracy")):
        yield "Accuracy", percent(numbers["accuracy"]), _certainty(judged) or f"at step {whole(past.best['step'])}"
    if is_number(numbers.get("top5")) and len(past.classes) > 5:
        yield "Top 5", percent(numbers["top5"]), "the true class among the first five"
    if is_number(numbers.get("macro_f1")):
        yield "F1", percent(numbers["macro_f1"]), "mean over the classes"
    if is_number(numbers.get("loss")):
        yield "Loss", short(numbers["loss"]), "validation"
    if not past.is_labelled:
        yield from ((key.replace("_", " ").capitalize(), short(numbers[key]), "validation") for key in _own(numbers))
    if is_number(numbers.get("calibration_error")):
        yield "Calibration error", percent(numbers["calibration_error"]), "how sure against how right"


def _own(numbers: Row) -> list[str]:
    """What an objective without labels says of itself beside its loss."""
    return [key for key, value in numbers.items() if is_number(value) and key not in TOLD]


def _certainty(judged: Judged | None) -> str:
    if not judged:
        return ""
    low, high = interval(judged.scores.accuracy, judged.scores.count)
    return f"{percent(low)} to {percent(high)} with 95 % confidence"
