"""report.html of an evaluation: how good the model is, how sure that is, where it errs, and what it cost."""

from collections.abc import Iterator, Sequence

from patchwords.data.sources.source import Source
from patchwords.data.thumbnail import thumbnail
from patchwords.evaluation.classify import TOP
from patchwords.evaluation.frozen import Frozen
from patchwords.evaluation.judgement import Judgement
from patchwords.evaluation.report.frozen import features, spread
from patchwords.evaluation.report.panels import Judged, bar
from patchwords.evaluation.report.sections import judgements
from patchwords.evaluation.result import Cost, Evaluation
from patchwords.evaluation.slices import Slice
from patchwords.pages.markup import Markup, element, name, together
from patchwords.pages.page import Section, page
from patchwords.pages.parts import facts, table, tiles
from patchwords.pages.wording import duration, percent, plural, short, whole

CONFIDENCE = "95\N{NO-BREAK SPACE}% confidence"


def report(evaluation: Evaluation, source: Source) -> str:
    """The page; `source` holds the pictures that were scored."""
    title = f"{evaluation.model} on {evaluation.data}"
    top = (element("h1", name(title)), element("p", f"{evaluation.said}."), tiles(_tiles(evaluation)))
    return page(title, element("header", *top), list(_sections(evaluation, source)))


def _tiles(evaluation: Evaluation) -> Iterator[tuple[str, str, str]]:
    if evaluation.judgement:
        yield from _scores(evaluation.judgement)
    if evaluation.frozen:
        yield from _features(evaluation.frozen)


def _scores(judgement: Judgement) -> Iterator[tuple[str, str, str]]:
    """Numbers, each with its interval or a remark."""
    scores, between = judgement.scores, {key: _between(*found) for key, found in judgement.intervals.items()}
    yield "Accuracy", percent(scores.accuracy), f"{between['accuracy']} with {CONFIDENCE}"
    if len(judgement.names) > TOP:
        yield "Top 5", percent(scores.top5), between["top5"]
    if judgement.real:
        yield "ReaL", percent(judgement.real.accuracy), f"any class it shows, {whole(judgement.real.count)} pictures"
    yield "F1", percent(scores.macro_f1), f"mean over the classes; {between['macro_f1']}"
    scaled = f"{percent(judgement.scaled.calibration_error)} with a temperature" if judgement.scaled else "expected"
    yield "Calibration error", percent(scores.calibration_error), scaled
    yield "Loss", short(scores.loss), f"Brier score {short(scores.brier)}"


def _features(frozen: Frozen) -> Iterator[tuple[str, str, str]]:
    if few := frozen.few_shot:
        most = max(range(len(few.shots)), key=few.shots.__getitem__)
        draws = plural(len(few.seeds), "draw")
        yield f"{few.shots[most]}-shot", percent(few.mean[most, 0]), f"{spread(few.deviation[most, 0])} over {draws}"
    if frozen.knn:
        near = frozen.knn.results[0]
        yield "Neighbours", percent(near.top1), f"{near.neighbours} nearest"
    if frozen.probe:
        yield "Linear probe", percent(frozen.probe.scores.accuracy), "logistic regression on the features"


def _between(low: float, high: float) -> str:
    return f"{percent(low)} to {percent(high)}"


def _sections(evaluation: Evaluation, source: Source) -> Iterator[Section]:
    if judgement := evaluation.judgement:
        yield from judgements(_judged(judgement, source), calibration=judgement.calibration)
        yield Section(heading="Slices", content=_sizes(judgement.sizes))
    if evaluation.frozen:
        yield features(evaluation.frozen)
    yield Section(heading="Cost", content=(facts(_cost(evaluation.cost)),))
    yield Section(heading="Model", content=(facts(_model(evaluation)),))
    yield Section(heading="Remarks", content=tuple(_remarks(evaluation)))


def _judged(judgement: Judgement, source: Source) -> Judged:
    numbers = judgement.answers.indices.tolist()
    return Judged(
        logits=judgement.answers.outputs,
        labels=judgement.scores.labels,
        loss=judgement.loss,
        classes=judgement.names,
        names=[source.name(number) for number in numbers],
        thumbnails=lambda place: thumbnail(source.picture(numbers[place])),
    )


def _sizes(sizes: Sequence[Slice]) -> tuple[Markup, ...]:
    """Whether small pictures are harder; what each class is worth stands in a section of its own."""
    if len(sizes) < 2:
        return (element("p", f"All pictures are of one size, {sizes[0].name}."),)
    said = "By the size of the files: a side is that of a square with as many pixels."
    rows = [(each.name, whole(each.count), bar(each.accuracy), _between(each.low, each.high)) for each in sizes]
    head = ("size", "pictures", "accuracy", CONFIDENCE)
    return (element("p", said), table(head, rows, says="Accuracy by the size of the pictures"))


def _cost(cost: Cost) -> Iterator[tuple[str, str]]:
    yield "time", duration(cost.seconds)
    if cost.images_per_second:
        yield "images a second", f"{whole(cost.images_per_second)} ({whole(cost.images)} in {duration(cost.asked)})"
    yield "device", together([name(cost.device)])
    yield "precision", cost.precision
    yield "batch", whole(cost.batch)


def _model(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """What the card says of the model, and how pictures are prepared for it."""
    card = evaluation.card
    pre, (height, width) = card.preprocess, card.preprocess.size
    share = "" if pre.fit == "squash" else f" of {percent(pre.crop)}"
    yield (
        "pictures",
        f"{height}x{width}, {plural(card.model.channels, 'channel')}, {pre.fit}{share}, {pre.interpolation}",
    )
    yield "classes", whole(card.model.classes) if card.model.classes else "none"
    yield "probabilities", card.loss
    for key, value in (("source", card.source), ("licence", card.licence)):
        if value:
            yield key, together([name(value)])


def _remarks(evaluation: Evaluation) -> Iterator[Markup]:
    """What a person should know beside what stands on top, and which pictures could not be read."""
    for note in evaluation.notes:
        if note != evaluation.said:
            yield element("p", element("bdi", note))
    if evaluation.broken:
        rows = [(name(file), name(reason)) for file, reason in evaluation.broken.items()]
        yield table(("left out", "why"), rows, says="Pictures that could not be read", class_="numbers words")
