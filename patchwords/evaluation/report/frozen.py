"""The sections about a model's features: few shots, nearest neighbours, a linear probe."""

from collections.abc import Iterator

from patchwords.evaluation.fewshot import FewShot
from patchwords.evaluation.frozen import Frozen
from patchwords.evaluation.knn import Knn
from patchwords.evaluation.probe import Probe
from patchwords.evaluation.report import figures
from patchwords.evaluation.report.panels import bar
from patchwords.pages.markup import Markup, element
from patchwords.pages.page import Section
from patchwords.pages.parts import table
from patchwords.pages.wording import percent, plural, short, whole


def features(frozen: Frozen) -> Section:
    """A part for each way that was asked for."""
    said = (
        f"The model is left as it is, and its features, {frozen.width} numbers a picture, are all that is used: fitted "
        f"on {whole(frozen.learned)} pictures, and judged by {whole(frozen.judged)} others."
    )
    parts: list[Markup] = []
    if frozen.few_shot:
        parts += [element("h3", "Few-shot"), *_few_shot(frozen.few_shot)]
    if frozen.knn:
        parts += [element("h3", "Nearest neighbours"), *_neighbours(frozen.knn)]
    if frozen.probe:
        parts += [element("h3", "Linear probe"), *_probe(frozen.probe)]
    return Section(heading="Features", content=(element("p", said), *parts))


def _few_shot(few: FewShot) -> Iterator[Markup]:
    yield element(
        "p",
        "Regularised least squares to \N{PLUS-MINUS SIGN}1 in closed form, as in section 4.1 of the paper, with a "
        f"penalty of {short(few.penalties[0])}; {plural(len(few.seeds), 'draw')} of the pictures to learn from.",
    )
    head = ("shots", "accuracy", "deviation", *(f"draw {seed}" for seed in few.seeds))
    rows = [
        (
            str(count),
            bar(few.mean[i, 0]),
            spread(few.deviation[i, 0]),
            *(percent(share) for share in few.accuracy[i, :, 0].tolist()),
        )
        for i, count in enumerate(few.shots)
    ]
    listed = table(head, rows, says="Accuracy by the number of shots")
    drawn = len(set(few.shots)) > 1
    curve = (figures.shots(few, says="Accuracy over the shots of a class"),) if drawn else ()
    yield element("div", *curve, listed, class_="beside")
    if len(few.penalties) > 1:
        yield from _penalties(few)


def spread(share: float) -> str:
    return f"\N{PLUS-MINUS SIGN}\N{NO-BREAK SPACE}{percent(share)}"


def _penalties(few: FewShot) -> Iterator[Markup]:
    said = (
        f"Other penalties; the first, {short(few.penalties[0])}, is reported, and none is chosen by what it gives here."
    )
    yield element("p", said)
    rows = [(str(count), *map(percent, few.mean[i].tolist())) for i, count in enumerate(few.shots)]
    yield table(("shots", *map(short, few.penalties)), rows, says="Accuracy by the penalty")


def _neighbours(knn: Knn) -> Iterator[Markup]:
    yield element("p", f"The pictures most alike vote, each with exp(cosine / {short(knn.temperature)}).")
    rows = [(str(near.neighbours), bar(near.top1), bar(near.top5)) for near in knn.results]
    yield table(("neighbours", "accuracy", "top 5"), rows, says="Nearest neighbours")


def _probe(probe: Probe) -> Iterator[Markup]:
    scores, chosen = probe.scores, ", chosen on a fifth of the training pictures" if probe.sweep else ""
    ended = "" if probe.converged else " The solver had not come to its end."
    yield element(
        "p",
        f"Logistic regression names {percent(scores.accuracy)} of the pictures rightly, {percent(scores.top5)} among "
        f"its first five, with a strength (the inverse of the penalty) of {probe.strength:g}{chosen}.{ended}",
    )
    rows = [(f"{trial.strength:g}", bar(trial.accuracy)) for trial in probe.sweep]
    if rows:
        yield table(("strength", "accuracy of what was held out"), rows, says="The sweep of strengths")
