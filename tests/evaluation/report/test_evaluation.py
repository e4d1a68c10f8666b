"""The page of an evaluation: complete in itself, whatever was asked and whatever classes and files are called."""

from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.evaluation.answers import Answers
from patchwords.evaluation.classify import classify
from patchwords.evaluation.fewshot import FewShot
from patchwords.evaluation.frozen import Frozen
from patchwords.evaluation.judgement import Judgement, judge
from patchwords.evaluation.knn import Knn, Near
from patchwords.evaluation.matching import Matching
from patchwords.evaluation.probe import Probe
from patchwords.evaluation.real import Real
from patchwords.evaluation.report.evaluation import report
from patchwords.evaluation.result import Cost, Evaluation
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card

HOSTILE = (
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "</style><style>*{display:none}</style>",
    "$x^2$ \\frac{1}{2}",
    "\u202egnp.exe",
    "\u732b",
    "\x1b[31mred",
    "x" * 5000,
)
FORBIDDEN = {"script", "iframe", "link", "object", "embed", "form"}


class Page(HTMLParser):
    """What a browser finds: tags with their attributes, the headings and the text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ").split())

    @property
    def headings(self) -> list[str]:
        return [found["id"] for tag, found in self.tags if tag == "section"]


def source(count: int) -> Arrays:
    images = np.random.default_rng(0).integers(0, 255, (count, 9, 9, 3)).astype(np.uint8)
    return Arrays(images, np.zeros(count, dtype=np.int64), "pictures")


def judgement(names: Sequence[str], labels: NDArray[Any], logits: NDArray[Any], sizes: Any = None) -> Judgement:
    sizes = np.full((len(labels), 2), 9) if sizes is None else sizes
    matching = Matching(outputs=np.arange(len(names)), names=tuple(names))
    answers = Answers(
        outputs=logits.astype(np.float32), labels=labels.astype(np.int64), indices=np.arange(len(labels)), sizes=sizes
    )
    return judge(answers, matching, "softmax")


def frozen(**found: Any) -> Frozen:
    nothing: dict[str, Any] = {"few_shot": None, "knn": None, "probe": None}
    return Frozen(part="val", learned=40, judged=10, width=16, **(nothing | found))


def evaluation(**found: Any) -> Evaluation:
    config = ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8), classes=3)
    usual: dict[str, Any] = {
        "folder": Path("nowhere"),
        "model": "mine",
        "card": Card(model=config),
        "data": "photos",
        "split": "test",
        "said": "10 pictures of photos are scored: the test part",
        "judgement": None,
        "frozen": None,
        "cost": Cost(seconds=2.0, asked=1.0, images=10, device="cpu", precision="float32", batch=64),
        "broken": {},
        "notes": (),
    }
    return Evaluation(**(usual | found))


def random(classes: int, count: int = 40) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels, and logits that are right more often than not."""
    chance = np.random.default_rng(1)
    labels = np.arange(count) % classes
    logits = chance.normal(size=(count, classes))
    logits[np.arange(count), labels] += 2
    return labels, 3 * logits


def test_the_page_holds_every_section_in_order() -> None:
    labels, logits = random(3)
    found = judgement(("a", "b", "c"), labels, logits)
    said = "10 pictures of photos are scored: the test part"
    page = Page(report(evaluation(judgement=found, frozen=frozen(knn=knn()), notes=("mind this", said)), source(40)))
    judged = ["confusion", "predictions", "mistakes", "classes", "calibration", "slices"]
    assert page.headings == [*judged, "features", "cost", "model", "remarks"]
    assert "mine on photos" in page.text
    assert page.text.count(said) == 1
    assert "mind this" in page.text


def test_it_says_how_sure_the_accuracy_is_and_what_a_temperature_is_worth() -> None:
    labels, logits = random(3, 60)
    found = judgement(("a", "b", "c"), labels, logits)
    page = Page(report(evaluation(judgement=found), source(60)))
    low, high = found.intervals["accuracy"]
    assert f"{100 * found.scores.accuracy:.1f} %" in page.text
    assert f"{100 * low:.1f} % to {100 * high:.1f} % with 95 % confidence" in page.text
    after = found.calibration.after
    assert f"the best temperature for all of these pictures is {found.calibration.temperature:.3f}" in page.text
    assert f"to {100 * after.calibration_error:.1f} %" in page.text
    drawings = [
        tags["aria-label"] for tag, tags in page.tags if tag == "div" and "reliability" in tags.get("class", "")
    ]
    assert drawings == ["Before", "After temperature scaling"]


def test_sizes_are_slices_and_one_size_is_none() -> None:
    labels, logits = random(2, 8)
    sizes = np.array([[10, 10]] * 4 + [[500, 500]] * 4)
    page = Page(report(evaluation(judgement=judgement(("a", "b"), labels, logits, sizes)), source(8)))
    assert "10 pixels a side" in page.text
    assert "500 pixels a side" in page.text
    page = Page(report(evaluation(judgement=judgement(("a", "b"), labels, logits)), source(8)))
    assert "All pictures are of one size, 9 pixels a side." in page.text


def knn() -> Knn:
    return Knn(temperature=0.07, results=(Near(neighbours=20, top1=0.5, top5=0.75),))


def few(shots: tuple[int, ...], penalties: tuple[float, ...] = (1024.0,)) -> FewShot:
    accuracy = np.linspace(0.2, 0.8, len(shots) * 3 * len(penalties)).reshape(len(shots), 3, len(penalties))
    return FewShot(shots=shots, seeds=(0, 1, 2), penalties=penalties, accuracy=accuracy)


def test_features_alone_have_a_page_too() -> None:
    page = Page(report(evaluation(frozen=frozen(few_shot=few((1, 5, 10)), knn=knn())), source(10)))
    assert page.headings == ["features", "cost", "model"]
    assert "16 numbers a picture" in page.text
    assert "20 nearest" in page.text
    assert any("shots" in tags.get("class", "") for tag, tags in page.tags if tag == "div")
    assert "Other penalties" not in page.text


def test_one_number_of_shots_needs_no_curve_and_a_sweep_is_shown() -> None:
    page = Page(report(evaluation(frozen=frozen(few_shot=few((5,), (1024.0, 1.0)))), source(10)))
    assert not any("drawing shots" in tags.get("class", "") for _, tags in page.tags)
    assert "the first, 1024, is reported, and none is chosen by what it gives here" in page.text
    mean, spread = few((5,), (1024.0, 1.0)).mean[0, 0], few((5,), (1024.0, 1.0)).deviation[0, 0]
    assert f"5 {100 * mean:.1f} % ± {100 * spread:.1f} %" in page.text


@pytest.mark.parametrize("many", [False, True])
def test_hostile_names_stay_text(many: bool) -> None:
    names = HOSTILE + tuple(f"class {number}" for number in range(40)) * many
    labels, logits = random(len(names), 2 * len(names))
    found = judgement(names, labels, logits)
    told = evaluation(
        judgement=found, model=HOSTILE[0], data=HOSTILE[1], broken={HOSTILE[0]: HOSTILE[2]}, notes=HOSTILE[:3]
    )
    text = report(told, source(len(labels)))
    page = Page(text)
    assert not FORBIDDEN & {tag for tag, _ in page.tags}
    assert not {key for _, tags in page.tags for key in tags if key.startswith("on")}
    assert [tag for tag, _ in page.tags].count("style") == 1
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(address.startswith("http") for _, tags in page.tags for address in (tags.get("src", ""),))


def test_of_many_classes_only_those_that_occur_are_named() -> None:
    names = [f"class-{number}" for number in range(1000)]
    labels = np.array([3, 3, 700, 700])
    logits = np.zeros((4, 1000))
    logits[[0, 1, 2, 3], [3, 3, 700, 42]] = 5
    page = Page(report(evaluation(judgement=judgement(names, labels, logits)), source(4)))
    shown = {number for number in range(1000) if f"class-{number} " in f"{page.text} "}
    assert {3, 42, 700} <= shown
    assert len(shown) < 20  # galleries name the best classes, and ties are many
    assert any(tags.get("class") == "matrix" for tag, tags in page.tags if tag == "table")


def test_the_same_evaluation_gives_the_same_page() -> None:
    labels, logits = random(3)
    told = evaluation(judgement=judgement(("a", "b", "c"), labels, logits), frozen=frozen(few_shot=few((1, 5))))
    assert report(told, source(40)) == report(told, source(40))


def tiles(page: Page) -> str:
    """What stands above the first section."""
    return page.text.partition("Rows are the true classes")[0]


def test_five_of_five_classes_are_no_score() -> None:
    for classes, shown in ((5, False), (6, True)):
        labels, logits = random(classes)
        found = judgement([f"class {number}" for number in range(classes)], labels, logits)
        assert ("Top 5" in tiles(Page(report(evaluation(judgement=found), source(40))))) is shown


def test_pictures_that_show_several_classes_have_a_score_of_their_own() -> None:
    labels, logits = random(3, 4)
    found = judgement(("a", "b", "c"), labels, logits)
    seen = replace(found, real=Real(accuracy=0.625, count=1234, left_out=1))
    assert "ReaL 62.5 % any class it shows, 1,234 pictures" in tiles(
        Page(report(evaluation(judgement=seen), source(4)))
    )
    assert "ReaL" not in Page(report(evaluation(judgement=found), source(4))).text


def test_pictures_are_shown_by_their_numbers_in_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    monkeypatch.setattr(Arrays, "picture", lambda self, index: shown.append(index) or self.images[index])
    labels, logits = random(2, 2)
    found = judgement(("a", "b"), labels, logits)
    some = replace(found, answers=replace(found.answers, indices=np.array([3, 5])))  # the others were broken
    page = Page(report(evaluation(judgement=some), source(6)))
    assert set(shown) == {3, 5}
    assert "pictures/3" in page.text
    assert "pictures/0" not in page.text


def test_it_says_what_it_cost_and_how_pictures_were_prepared() -> None:
    page = Page(report(evaluation(frozen=frozen(knn=knn())), source(10)))
    assert "images a second 10 (10 in 1.0 s)" in page.text
    squash, crop = (
        Card(model=evaluation().card.model, preprocess=Preprocess(size=(8, 8), fit=fit, crop=0.875))
        for fit in ("squash", "centre")
    )
    for card, said in ((squash, "8x8, 3 channels, squash, bilinear"), (crop, "centre of 87.5 %, bilinear")):
        assert said in Page(report(evaluation(card=card), source(10))).text


def test_a_solver_that_did_not_come_to_its_end_is_told() -> None:
    labels, logits = random(3)
    for converged in (True, False):
        probe = Probe(strength=1.0, converged=converged, sweep=(), scores=classify(logits, labels))
        page = Page(report(evaluation(frozen=frozen(probe=probe)), source(10)))
        assert ("The solver had not come to its end." in page.text) is not converged


def test_whether_it_is_too_sure_is_told_and_so_is_a_temperature_beyond_all() -> None:
    labels = np.arange(40) % 2
    right = np.eye(2)[labels]
    for scale, sentence in ((-9.0, "it is too sure by"), (0.1, "it is not sure enough by"), (99.0, "as sure as it")):
        page = Page(report(evaluation(judgement=judgement(("a", "b"), labels, scale * right)), source(40)))
        assert sentence in page.text
        assert "the best lies beyond those that are tried, 0.01 to 100" in page.text
        assert "with a temperature" not in page.text


def test_one_picture_has_no_other_to_fit_a_temperature_on() -> None:
    found = judgement(("a", "b"), np.array([0]), np.array([[1.0, 0.0]]))
    page = Page(report(evaluation(judgement=found), source(1)))
    assert "Divided by a temperature" not in page.text
    assert sum("drawing reliability" in tags.get("class", "") for _, tags in page.tags) == 1
