"""The sections that show what a model said of pictures: confusion, predictions, mistakes, classes, calibration."""

from collections.abc import Iterator

from patchwords.evaluation.calibrate import HIGHEST, LOWEST, Calibration
from patchwords.evaluation.classify import Bins, Scores
from patchwords.evaluation.report import figures, panels
from patchwords.evaluation.report.panels import Judged
from patchwords.ops import draws
from patchwords.pages.markup import Markup, element
from patchwords.pages.page import Section
from patchwords.pages.parts import table
from patchwords.pages.wording import percent, short, whole

BEYOND = f"No temperature mends that: the best lies beyond those that are tried, {LOWEST:g} to {HIGHEST:g}."
PREDICTIONS, MISTAKES = 24, 36  # pictures of the two galleries


def judgements(judged: Judged, seed: int = 0, calibration: Calibration | None = None) -> Iterator[Section]:
    """The sections in the order of a report; a `calibration` shows what a temperature would change."""
    scores, mistakes = judged.scores, judged.scores.mistakes()
    shade = "Rows are the true classes, columns the predicted ones; the shade grows with the share of the row."
    captions = "Beneath each picture stands its true class, then what the model thought, the true class in blue."
    many = "All mistakes" if len(mistakes) <= MISTAKES else f"The first {MISTAKES} of {whole(len(mistakes))} mistakes"
    chosen = draws.permutation("report", seed, of=scores.count)[:PREDICTIONS]
    often = element("div", element("h3", "Most confused"), panels.pairs(judged))
    confused = element("div", panels.confusion(judged), often, class_="beside")
    yield Section(heading="Confusion", content=(element("p", shade), confused))
    random = f"Drawn at random, the same ones each time. {captions}"
    yield Section(heading="Predictions", content=(element("p", random), panels.gallery(judged, chosen.tolist())))
    if len(mistakes):
        wrong = panels.gallery(judged, mistakes[:MISTAKES].tolist())
        yield Section(
            heading="Mistakes",
            content=(element("p", f"{many}, the surest first. {captions}"), wrong),
        )
    yield Section(heading="Classes", content=(element("p", "The weakest first."), panels.classes(judged)))
    yield Section(heading="Calibration", content=_calibration(judged, calibration))


def _calibration(judged: Judged, scaled: Calibration | None) -> tuple[Markup, ...]:
    scores, bins = judged.scores, judged.scores.bins
    sure, error = float(scores.confidence.mean()), percent(scores.calibration_error)
    said = (
        f"On average the model is {percent(sure)} sure and {percent(scores.accuracy)} right: {_verdict(sure, scores)}. "
        f"The expected calibration error over {len(bins.count)} bins is {error}, the Brier score {short(scores.brier)}."
    )
    if scaled is None or scaled.folds == 1 or scaled.bounded:
        drawing = figures.reliability(bins, says="Accuracy over confidence")
        said += f" {BEYOND}" if scaled and scaled.bounded else ""
        return (element("p", said), element("div", drawing, _bins(bins), class_="beside"))
    before = element("figure", element("figcaption", "as it is"), figures.reliability(bins, says="Before"))
    caption = element("figcaption", "scaled by a temperature")
    after = element("figure", caption, figures.reliability(scaled.after.bins, says="After temperature scaling"))
    pair = element("div", before, after, class_="figures")
    return (element("p", said), element("p", _scaling(scaled)), pair, element("h3", "As it is, in bins"), _bins(bins))


def _verdict(sure: float, scores: Scores) -> str:
    points = round(100 * (sure - scores.accuracy), 1)
    if not points:
        return "as sure as it should be"
    return f"it is {'too sure' if points > 0 else 'not sure enough'} by {abs(points)} points"


def _scaling(scaled: Calibration) -> str:
    """What one temperature for all logits would be worth (Guo et al., 2017)."""
    before, after = scaled.before, scaled.after
    return (
        "Divided by a temperature, the logits give the same predictions with other probabilities: the best temperature "
        f"for all of these pictures is {scaled.temperature:.3f}. The calibration error comes from "
        f"{percent(before.calibration_error)} to {percent(after.calibration_error)}, the loss from "
        f"{short(before.loss)} to {short(after.loss)}, each picture scaled by what was fitted on others."
    )


def _bins(bins: Bins) -> Markup:
    rows = [
        (
            f"{percent(bins.edges[i])} to {percent(bins.edges[i + 1])}",
            whole(bins.count[i]),
            percent(bins.confidence[i]),
            percent(bins.accuracy[i]),
        )
        for i in range(len(bins.count))
        if bins.count[i]
    ]
    return table(("sure", "pictures", "mean", "right"), rows, says="Reliability")
