"""The report: one page that needs nobody, whatever the run came to and whatever its classes and files are called."""

import base64
import json
import math
import re
import struct
import zlib
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.errors import DataError, ModelError, UsageError
from patchwords.evaluation.classify import classify
from patchwords.evaluation.report.figures import matrix
from patchwords.evaluation.report.sections import MISTAKES, PREDICTIONS
from patchwords.pages.wording import duration, interval, memory, percent
from patchwords.training.report.figures import MOST_POINTS, Curve, curves
from patchwords.training.report.page import summary, write_report

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg/onload=alert(1)>",
    "</td></tr></table><h1>owned</h1>",
    "</style><style>*{display:none}</style>",
    "</title><script>alert(1)</script>",
    "</pre><iframe src=//evil.example>",
    "<!-- ",
    "--><script>alert(1)</script>",
    "<![CDATA[",
    "]]><b>",
    "<?xml version='1.0'?>",
    '"><script>alert(1)</script>',
    "'><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "' onmouseover='alert(1)",
    '" style="background:url(//evil.example)',
    "`onfocus=alert(1)`",
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//evil.example/x.png",
    "https://evil.example/x.png",
    "../../../etc/passwd",
    "..\\..\\windows\\system32",
    "/etc/passwd",
    "C:\\Users\\x",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "&amp;",
    "&nosuchentity;",
    "{{7*7}}",
    "${7*7}",
    "%3Cscript%3E",
    "$x^2$ \\frac{1}{2}",
    "\u202egnp.exe",
    "\u2066isolated\u2069",
    "\u200fright to left\u200e",
    "\u05d0\u05d1\u05d2",
    "\u732b",
    "e\u0301\u0301\u0301\u0301\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u0000nul",
    "line\nbreak\r\ttab",
    "\u2028separator",
    "\x1b[31mred",
    "\udcff\udcfe.jpg",
    "x" * 5000,
    "<" * 300,
]
TAGS = """
html head meta title style body header nav main section footer h1 h2 h3 p div span b small bdi ul li a pre figure
figcaption img dl dt dd table thead tbody tr th td svg g defs path use text clippath rect image
"""
ATTRIBUTES = """
lang charset http-equiv content name id class style href src alt loading decoding title scope tabindex role aria-label
xmlns xmlns:xlink xlink:href version viewbox d x y width height transform clip-path preserveaspectratio
"""
EMPTY = {"meta", "img"}


class Page(HTMLParser):
    """A page as a browser reads it; an element that is not closed in its place fails."""

    def __init__(self, text: str):
        super().__init__()
        self.raw = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).replace("\N{NO-BREAK SPACE}", " ").split())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [found for name, found in self.tags if name == tag and wanted.items() <= found.items()]

    def foreign(self) -> set[str]:
        """The tags and attributes that a report has no use for."""
        attributes = {key for _, found in self.tags for key in found}
        return {tag for tag, _ in self.tags} - set(TAGS.split()) | attributes - set(ATTRIBUTES.split())

    def headings(self) -> list[str]:
        return [found["id"] for found in self.all("section")]


def picture(index: int) -> bytes:
    """A PNG of one pixel, another colour for every number."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(bytes([0, index % 256, index // 256 % 256, 7]))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def metrics(epochs: int, evaluated: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for step in range(1, 4 * epochs + 1):
        row = {
            "loss": 2 / step,
            "accuracy": 1 - 1 / step,
            "lr": 1e-3,
            "images_per_second": 900.0 + step,
            "waiting": 0.1,
            "seconds": 2.5 * step,
        }
        rows.append({"kind": "train", "step": step, "epoch": step / 4, **row})
        if evaluated and step % 4 == 0:
            accuracy = 0.5 + 0.1 * (step == 8)
            rows.append(
                {
                    "kind": "val",
                    "step": step,
                    "epoch": step / 4,
                    "seconds": 2.5 * step + 1,
                    "loss": 1.0,
                    "accuracy": accuracy,
                    "top5": 1.0,
                }
            )
    return rows


def make(
    folder: Path,
    classes: Sequence[str] = ("daisy", "rose", "tulip"),
    *,
    epochs: int = 3,
    evaluated: bool = True,
    predicted: bool = True,
    pictures: int = 60,
    recipe: str = "",
) -> Path:
    """A run folder as the loop leaves it."""
    folder.mkdir(parents=True)
    text = f'model = "ViT-Ti/16"\nduration = "{epochs} epochs"\nbatch = 10\n{recipe}'
    (folder / "recipe.toml").write_text(text, encoding="utf-8")
    run = {"command": ["patchwords", "train", "my photos"], "started": "2026-03-01T14:03:22", "device": "cpu"}
    data = {"name": "photos", "digest": "00ff", "counts": {"train": 240, "val": pictures}, "notes": ["two copies"]}
    data["names"] = {"val": [f"photo-{number}.jpg" for number in range(pictures)]}
    for name, value in {"run": run | {"seconds": 75.0}, "data": data, "classes": list(classes)}.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    lines = [json.dumps(row) + "\n" for row in metrics(epochs, evaluated)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    if predicted:
        logits, labels = outputs(pictures, len(classes))
        np.savez(folder / "predictions.npz", logits=logits, labels=labels)
    return folder


def outputs(pictures: int, classes: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    generator = np.random.default_rng(0)
    labels = np.arange(pictures) % classes
    logits = generator.normal(size=(pictures, classes)) + 1.5 * np.eye(classes)[labels]
    return logits.astype(np.float32), labels.astype(np.int64)


def report(run: Path, **settings: Any) -> Page:
    path = write_report(run, **{"thumbnails": picture, **settings})
    assert path == run / "report.html"
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("runs") / "photos-1")


@pytest.fixture(scope="module")
def page(run: Path) -> Page:
    return report(run)


def test_the_headline_says_what_was_trained_on_what_and_how_well(page: Page) -> None:
    assert "ViT-Ti/16 on photos" in page.text
    assert "Trained from scratch on 240 pictures of 3 classes for 3 epochs, 12 steps; judged by 60" in page.text
    assert "Started 2026-03-01 14:03, took 1 min 15 s." in page.text
    assert percent(classify(*outputs(60, 3)).accuracy).replace("\N{NO-BREAK SPACE}", " ") in page.text


def test_the_sections_are_all_there_and_linked(page: Page) -> None:
    named = ["curves", "confusion", "predictions", "mistakes", "classes", "calibration"]
    named += ["cost", "recipe", "environment"]
    assert page.headings() == named
    assert [link["href"] for link in page.all("a")] == [f"#{name}" for name in named]


def test_the_page_needs_no_network_and_runs_nothing(page: Page) -> None:
    (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert page.foreign() == set()
    assert all(found["src"].startswith("data:image/") for found in page.all("img"))
    assert not re.search(r"url\((?!#)|@import|<script|<link", page.raw)


def test_names_inside_the_figures_do_not_meet(page: Page) -> None:
    names = [found["id"] for _, found in page.tags if "id" in found]
    assert len(names) == len(set(names))
    used = [found[key].strip("#") for _, found in page.tags for key in ("xlink:href",) if key in found]
    assert set(used) <= set(names)


def test_four_curves_are_drawn_and_the_best_epoch_is_named(page: Page) -> None:
    drawn = [found["aria-label"] for found in page.all("div", role="img")]
    assert drawn[:4] == [f"{what} over the epochs" for what in ("Loss", "Accuracy", "Learning rate", "Images a second")]
    assert "The dotted line is the best accuracy, at epoch 2." in page.text


def test_the_matrix_holds_every_count(page: Page) -> None:
    confusion = classify(*outputs(60, 3)).confusion
    table = page.raw[page.raw.index('<table class="matrix"') :].partition("</table>")[0]
    cells = [0 if cell == "·" else int(cell) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", table)]
    assert cells == confusion.flatten().tolist()


def test_the_galleries_show_the_right_pictures(page: Page) -> None:
    scores = classify(*outputs(60, 3))
    shown = [base64.b64decode(found["src"].partition(",")[2]) for found in page.all("img")]
    mistakes = [picture(index) for index in scores.mistakes()[:MISTAKES]]
    assert len(shown) == PREDICTIONS + len(mistakes)
    assert shown[PREDICTIONS:] == mistakes
    assert len(set(shown[:PREDICTIONS])) == PREDICTIONS
    assert f"photo-{scores.mistakes()[0]}.jpg" in page.text


def test_the_same_run_gives_the_same_page(run: Path, page: Page) -> None:
    assert report(run).raw == page.raw


def test_another_seed_shows_other_predictions(tmp_path: Path, page: Page) -> None:
    other = report(make(tmp_path / "run", recipe="seed = 5\n"))
    assert [found["src"] for found in other.all("img")][:PREDICTIONS] != [found["src"] for found in page.all("img")][
        :PREDICTIONS
    ]


def test_titles_and_file_names_can_be_given(run: Path) -> None:
    found = report(run, title="Flowers of the garden", names=[f"given-{number}" for number in range(60)])
    assert "Flowers of the garden" in found.text
    assert "given-" in found.text
    assert "photo-" not in found.text


def test_the_recipe_and_the_command_can_be_read(page: Page) -> None:
    assert 'model = "ViT-Ti/16"' in page.text
    assert "patchwords train 'my photos'" in page.text
    assert "two copies" in page.text


def shown(text: str) -> str:
    """How a name stands on the page: unseen characters spelled out, long ones cut in the middle."""
    unseen = r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
    plain = re.sub(unseen, lambda found: f"\\u{ord(found[0]):04x}", text)
    return plain if len(plain) <= 90 else f"{plain[:45]}…{plain[-45:]}"


@pytest.mark.parametrize("part", range(2))
def test_fifty_hostile_names_of_classes_and_files_stay_text(tmp_path: Path, part: int) -> None:
    assert len(HOSTILE) == len(set(HOSTILE)) == 50
    names = HOSTILE[25 * part : 25 * part + 25]
    run = make(tmp_path / "run", names, pictures=100)
    found = report(run, names=[names[(number + 1) % 25] for number in range(100)], title=names[0])
    assert found.foreign() == set()
    assert all(table["src"].startswith("data:image/png;base64,") for table in found.all("img"))
    assert all(table["href"].startswith("#") for table in found.all("a"))
    assert {shown(name) for name in names} <= set(found.texts)
    assert len(found.raw) < 500_000


def test_hostile_recipes_and_commands_stay_text(tmp_path: Path) -> None:
    listed = ", ".join(json.dumps(name) for name in HOSTILE if name.isprintable())
    run = make(tmp_path / "run", recipe=f"parts = {{ words = [{listed}] }}\n")
    (run / "run.json").write_text(json.dumps({"command": HOSTILE, "status": HOSTILE[0], HOSTILE[1]: {HOSTILE[2]: 1}}))
    found = report(run)
    assert found.foreign() == set()
    assert f"State of the run: {HOSTILE[0]}" in found.text


@pytest.mark.parametrize(
    ("settings", "sections"),
    [
        ({"epochs": 1}, "curves confusion predictions mistakes classes calibration cost recipe environment"),
        ({"epochs": 2, "predicted": False}, "curves cost recipe environment"),
        ({"epochs": 2, "predicted": False, "evaluated": False}, "curves cost recipe environment"),
        ({"epochs": 0, "predicted": False}, "curves cost recipe environment"),
    ],
)
def test_a_run_that_was_stopped_has_a_report_too(tmp_path: Path, settings: dict[str, Any], sections: str) -> None:
    found = report(make(tmp_path / "run", **settings))
    assert found.headings() == sections.split()
    assert ("no evaluation was made" in found.text) == (not settings.get("evaluated", True) or not settings["epochs"])
    assert ("Not one step was recorded." in found.text) == (not settings["epochs"])


OWN = 'best = "last"\nobjective = { kind = "tokenizer" }\n'


def unlabelled(folder: Path, evaluated: bool = True) -> Path:
    """A run that learned without labels, and logged numbers of its own."""
    make(folder, recipe=OWN, predicted=False)
    rows = [row for row in metrics(3, evaluated) if row.pop("accuracy")]
    for row in rows:
        row.pop("top5", None)
        row["code_usage"] = 0.25 + row["step"] / 100
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def test_a_run_without_labels_says_so_and_shows_what_its_objective_logs(tmp_path: Path) -> None:
    page = report(unlabelled(tmp_path / "run"))
    assert "Trained from scratch on 240 pictures without labels (tokenizer) for 3 epochs" in page.text
    assert "classes" not in page.text.partition("Recipe")[0]
    assert page.headings() == ["curves", "cost", "recipe", "environment"]
    drawn = [found["aria-label"] for found in page.all("div", role="img")]
    assert drawn == [f"{what} over the epochs" for what in ("Loss", "Learning rate", "Images a second", "Code usage")]
    assert "Accuracy" not in page.text
    assert "Code usage 0.37 validation" in page.text  # the last one, of step 12
    assert "Seconds" not in page.text
    assert "The dotted line" not in page.text  # no evaluation was the best


def test_without_an_evaluation_a_run_without_labels_has_no_loss_yet(tmp_path: Path) -> None:
    page = report(unlabelled(tmp_path / "run", evaluated=False))
    assert "Loss \N{EN DASH} no evaluation was made" in page.text


def test_a_run_with_labels_that_keeps_its_last_model_has_each_number_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", recipe='best = "last"\n', predicted=False)
    rows = [row | {"macro_f1": 0.5, "brier": 0.3} if row["kind"] == "val" else row for row in metrics(3, True)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = report(folder)
    assert page.text.count("F1") == 1
    assert "Brier" not in page.text


def test_a_folder_with_a_recipe_alone_has_a_report(tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("")
    found = report(tmp_path)
    assert found.headings() == ["curves", "cost", "recipe"]
    assert "not recorded" in found.text


@pytest.mark.parametrize(("classes", "drawn"), [(2, False), (30, False), (31, True), (1000, True)])
def test_the_matrix_has_names_where_they_fit(tmp_path: Path, classes: int, drawn: bool) -> None:
    names = [f"class {number} 猫" for number in range(classes)]
    found = report(make(tmp_path / "run", names, pictures=max(60, classes)))
    assert bool(found.all("image")) == drawn
    assert "猫" in "".join(found.texts)
    assert len(found.raw) < 2_000_000
    tables = found.all("th", scope="row")
    assert len(tables) == (0 if drawn else classes)


def test_a_matrix_of_very_many_classes_stays_small() -> None:
    classes = np.arange(21_843)
    assert len(matrix(classes, classes[::-1], 21_843, says="ImageNet-21k")) < 100_000


def test_a_perfect_model_has_no_mistakes_to_show(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    np.savez(run / "predictions.npz", logits=9 * np.eye(3, dtype=np.float32), labels=np.arange(3))
    found = report(run)
    assert "mistakes" not in found.headings()
    assert "Not one picture was predicted wrongly." in found.text
    assert "100.0 %" in found.text


def test_sigmoid_models_are_judged_by_their_own_probabilities(tmp_path: Path) -> None:
    run = make(tmp_path / "run", recipe='objective = { kind = "supervised", loss = "sigmoid" }\n')
    loss = classify(*outputs(60, 3), loss="sigmoid").loss
    assert f"{loss:.4g}" in report(run).text


def test_a_picture_that_is_gone_is_said_in_its_place(run: Path) -> None:
    def gone(index: int) -> bytes:
        raise DataError(f"picture {index} <is> broken")

    found = report(run, thumbnails=gone)
    assert not found.all("img")
    assert "<is> broken" in found.text
    assert "neither a JPEG nor a PNG" in report(run, thumbnails=lambda _: b"GIF89a").text


def test_losses_that_are_not_finite_leave_a_gap_and_no_failure(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 99, "epoch": 24.75, "loss": NaN, "lr": Infinity}\n')
        file.write('{"kind": "val", "step": 99, "epoch": 24.75, "loss": NaN, "accuracy": NaN}\n')
    assert "nan" not in report(run).text.lower()
    assert summary(run)["best"]["step"] == 8
    assert json.loads(json.dumps(summary(run), allow_nan=False))["last"]["loss"] is None


def test_a_line_that_was_cut_off_is_left_out_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    whole = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(whole + '{"kind": "train", "st')
    assert summary(run)["steps"] == 12
    (run / "metrics.jsonl").write_text("{]\n" + whole)
    with pytest.raises(ModelError, match=r"metrics\.jsonl cannot be read"):
        summary(run)


@pytest.mark.parametrize("name", ["run.json", "data.json", "classes.json", "recipe.toml", "predictions.npz"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe[", b"3", b'{"a":', b"[" * 100_000])
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes) -> None:
    run = make(tmp_path / "run")
    (run / name).write_bytes(content)
    if name == "recipe.toml" and not content:
        return  # an empty recipe is one
    with pytest.raises(ModelError, match=re.escape(name)):
        write_report(run, thumbnails=picture)
    assert not (run / "report.html").exists()


def test_a_resumed_runs_later_line_of_a_step_holds(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "val", "step": 8, "epoch": 2.0, "loss": 1.0, "accuracy": 0.1}\n')
    assert summary(run)["best"]["step"] == 4


def test_the_best_of_a_loss_is_the_lowest(tmp_path: Path) -> None:
    run = make(tmp_path / "run", recipe='best = "loss"\n')
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "val", "step": 16, "epoch": 4.0, "loss": 0.25, "accuracy": 0.1}\n')
    assert summary(run)["best"]["step"] == 16


def test_the_summary_says_what_there_is(run: Path) -> None:
    found = summary(run)
    assert json.loads(json.dumps(found)) == found
    expected = {"model": "ViT-Ti/16", "data": "photos", "classes": 3, "pictures": {"train": 240, "val": 60}}
    expected |= {
        "epochs": 3.0,
        "steps": 12,
        "duration": "3 epochs",
        "seconds": 75.0,
        "images": 120,
        "measure": "accuracy",
    }
    assert expected.items() <= found.items()
    assert found["images_per_second"] == 906.5
    assert (found["best"]["step"], found["last"]["step"]) == (8, 12)
    assert found["result"] == ""
    (run / "model.safetensors").touch()
    assert summary(run)["result"] == str(run / "model.safetensors")
    (run / "model.safetensors").unlink()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no run folder: there is no recipe\.toml"):
        summary(tmp_path)


def test_long_curves_are_thinned_and_keep_their_extremes() -> None:
    steps = np.arange(50_000)
    line = Curve(who="training", epochs=steps / 1000, values=np.sin(steps))
    drawing = curves("long", [line], says="long")
    assert len(drawing) < 60_000
    assert len(steps) > MOST_POINTS


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.34, "0.3 s"), (59.4, "59 s"), (75, "1 min 15 s"), (3599.9, "1 h 00 min"), (7500, "2 h 05 min")],
)
def test_durations_have_two_units(seconds: float, words: str) -> None:
    assert duration(seconds).replace("\N{NO-BREAK SPACE}", " ") == words


def test_sizes_have_a_unit() -> None:
    assert [memory(size).split("\N{NO-BREAK SPACE}") for size in (3 << 20, 3 << 29)] == [["3", "MiB"], ["1.5", "GiB"]]


def test_the_interval_is_wilsons() -> None:
    assert interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    low, high = interval(1.0, 10)
    assert math.isclose(low, 0.7225, abs_tol=1e-4)
    assert high == 1.0
