"""`patchwords predict`: lines for people, JSON and CSV for scripts, figures; what is broken is told at the end."""

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch import nn

from patchwords.cli.output import Output
from patchwords.cli.predict import _bar
from patchwords.cli.predictions import Lines
from patchwords.data.loader import Loading
from patchwords.errors import NetworkError
from patchwords.evaluation.answers import Compute, answers
from patchwords.evaluation.classify import probabilities
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.serve.given import Paths
from patchwords.serve.prediction import Prediction
from patchwords.weights.card import Card, fitted
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.load import save
from patchwords.weights.subject import open_subject

FLOWERS = ("daisy", "dandelion", "rose", "sunflower", "tulip")
HOSTILE = [  # as names of files; class names may hold slashes and zero bytes too
    *("<script>alert(1)<script>", "<img src=x onerror=alert(1)>", '"><b>', "'><b>", '" onmouseover="alert(1)'),
    *("javascript:alert(1)", "&lt;b&gt;", "{{7*7}}", "${7*7}", "$(reboot)", "`reboot`", "%s%s%n", "%3Cb%3E"),
    *("=1+1", "+1+1", "-1+1", "@SUM(1)", "=cmd|' C'!A0", "\uff1d1+1", "a,b", 'a"b', "a;b", "a|b", "a\tb"),
    *(
        "line\nbreak",
        "line\r\nbreak",
        "\rback",
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x7f",
        "\x9b31m",
        "\u2028separator",
    ),
    *("\u202egnp.exe", "\u2066isolated\u2069", "\u200fright", "\u05d0\u05d1\u05d2", "\u732b", "e\u0301\u0301"),
    *("\U0001f468\u200d\U0001f469", "[bold]x[red]", ":smile:", "$x^2$ \\frac{1}{2}", "..", "...", "-rf", "--json"),
    *("*", "?", " space ", "~", "CON", "x" * 200, "\u732b" * 60, "C:\\Users\\x"),
]


@pytest.fixture
def model(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], tmp_path: Path
) -> Callable[..., str]:
    """Writes a small model and gives its path."""

    def write(config: str = "plain", classes: tuple[str, ...] = FLOWERS, **card: Any) -> str:
        chosen = replace(small_configs[config], classes=len(classes) or 5)
        built = randomised(build(chosen))
        path = tmp_path / "model.safetensors"
        save(built, path, replace(fitted(Card(model=chosen), chosen, classes), **card))  # type: ignore[arg-type]
        return str(path)

    return write


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three pictures in two folders."""
    for number, name in enumerate(("a.png", "b/c.jpg", "b/d.gif")):
        draw(tmp_path / "photos" / name, number)
    return tmp_path / "photos"


def draw(path: Path, seed: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, path.suffix[1:].upper().replace("JPG", "JPEG"))
    return path


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Puts bytes into stdin."""
    return lambda data: monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.rstrip("\n").split("\n")]


def test_people_read_a_line_a_picture_with_the_best_classes(run, model, photos: Path) -> None:
    answer = run("predict", model(), str(photos), "--top", "3")
    head, *lines = answer.out.rstrip().split("\n")
    assert answer.code == 0
    assert head.split() == ["picture", "class", "then"]
    assert [line.split()[0] for line in lines] == [str(photos / name) for name in ("a.png", "b/c.jpg", "b/d.gif")]
    for line in lines:
        _, label, share, sign, *rest = line.split()
        assert label in FLOWERS
        assert (float(share) > 0, sign, len(rest)) == (True, "%", 6)


def test_json_is_an_object_a_picture_and_a_summary(run, model, photos: Path) -> None:
    *found, summary = run("predict", model(), str(photos), "--json").json
    assert [each["picture"] for each in found] == [str(photos / name) for name in ("a.png", "b/c.jpg", "b/d.gif")]
    for each in found:
        assert set(each) == {"kind", "picture", "label", "probability", "top"}
        shares = [entry["probability"] for entry in each["top"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
        assert each["top"][0] == {"label": each["label"], "probability": each["probability"]}
    assert summary == {"kind": "summary", "pictures": 3, "broken": []}


def test_the_numbers_are_those_of_evaluation(run, model, photos: Path) -> None:
    file = model()
    subject = open_subject(file)
    source = Paths(sorted(str(path) for path in photos.rglob("*.*")))
    compute = Compute(loading=Loading(workers=0))
    broken: Any = SimpleNamespace(add=lambda _: None, note=print)
    outputs = answers(subject.model, source, subject.card.preprocess, 3, compute, broken, lambda *_: None).outputs
    *found, _ = run("predict", file, str(photos), "--json").json
    expected = -np.sort(-probabilities(outputs), axis=1)
    assert np.allclose([[entry["probability"] for entry in each["top"]] for each in found], expected, atol=1e-6)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_another_precision_says_nearly_the_same(run, model, photos: Path, precision: str) -> None:
    words = ("predict", model(), str(photos), "--json", "--device", "cpu")
    full, less = (run(*words, "--precision", kind).json[:-1] for kind in ("float32", precision))
    for one, other in zip(full, less, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=0.05)


def test_csv_has_a_row_for_each_of_the_best_classes(run, model, photos: Path) -> None:
    answer = run("predict", model(), str(photos), "--csv", "--top", "2")
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    assert [(row["picture"], row["rank"]) for row in rows] == [
        (str(photos / name), rank) for name in ("a.png", "b/c.jpg", "b/d.gif") for rank in "12"
    ]
    assert all(row["label"] in FLOWERS and 0 < float(row["probability"]) < 1 for row in rows)


def test_of_one_class_there_is_nothing_then(run, model, photos: Path) -> None:
    head, *lines = run("predict", model(), str(photos), "--top", "1").out.splitlines()
    assert head.split() == ["picture", "class"]
    assert all(line.endswith(" %") for line in lines)


def test_more_classes_than_there_are_means_all(run, model, photos: Path) -> None:
    answer = run("predict", model(), str(photos / "a.png"), "--json", "--top", "99")
    assert len(answer.json[0]["top"]) == 5


def test_broken_pictures_are_told_at_the_end_and_the_rest_is_predicted(run, model, photos: Path) -> None:
    (photos / "b/text.png").write_text("Roses are red")
    (photos / "empty.jpg").write_bytes(b"")
    cut = (photos / "b/c.jpg").read_bytes()
    (photos / "short.jpg").write_bytes(cut[: len(cut) // 2])
    for flags in ((), ("--quiet",), ("--csv",), ("--json",)):
        answer = run("predict", model(), str(photos), *flags)
        assert answer.code == 3
        assert answer.err.startswith("patchwords: 3 of 6 could not be predicted:\n")
        assert f"  {photos / 'empty.jpg'}: the file is empty\n" in answer.err
        assert f"{photos / 'b/text.png'}: it is none of JPEG" in answer.err
        assert str(photos / "a.png") in answer.out
    assert {each["picture"] for each in answer.json[-1]["broken"]} == {
        str(photos / name) for name in ("b/text.png", "empty.jpg", "short.jpg")
    }
    assert answer.json[-1]["pictures"] == 3


@pytest.mark.parametrize("name", ["photo.heic", "photo.AVIF", "drawing.svg", "camera.cr2"])
def test_a_file_of_a_kind_that_is_not_read_is_told_with_what_to_do(run, model, photos: Path, name: str) -> None:
    (photos / name).write_bytes(b"\0\0\0 ftypheic")
    answer = run("predict", model(), str(photos / name))
    assert answer.code == 3
    assert f"  {photos / name}: such files are not read: convert them to JPEG or PNG\n" in answer.err
    (photos / name).write_bytes((photos / "a.png").read_bytes())  # by its name alone nothing is refused
    assert run("predict", model(), str(photos / name)).code == 0


def test_a_folder_without_pictures_among_others_is_told_and_the_rest_is_predicted(run, model, photos: Path) -> None:
    (photos / "empty").mkdir()
    (photos / "gone.png").symlink_to("nowhere")
    answer = run("predict", model(), *sorted(map(str, photos.iterdir())), "--json")
    assert answer.code == 3
    *found, summary = answer.json
    assert [Path(each["picture"]).name for each in found] == ["a.png", "c.jpg", "d.gif"]
    assert [Path(each["picture"]).name for each in summary["broken"]] == ["empty", "gone.png"]


def test_nothing_but_broken_pictures_is_exit_3_too(run, model, tmp_path: Path) -> None:
    (tmp_path / "no.png").write_text("no picture")
    answer = run("predict", model(), str(tmp_path / "no.png"), "--json")
    assert answer.code == 3
    assert [each["kind"] for each in answer.json] == ["summary"]


def test_many_pictures_in_small_batches_come_in_order(run, model, tmp_path: Path) -> None:
    for number in range(40):
        draw(tmp_path / "many" / f"{number:02}.png", number)
    (tmp_path / "many" / "17.png").write_bytes(b"x")
    answer = run("predict", model(), str(tmp_path / "many"), "--json", "--batch", "3")
    *found, summary = answer.json
    assert [Path(each["picture"]).stem for each in found] == [f"{n:02}" for n in range(40) if n != 17]
    assert (answer.code, summary["pictures"], len(summary["broken"])) == (3, 39, 1)


def test_the_same_file_is_predicted_once(run, model, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos)
    answer = run("predict", model(), "a.png", "./a.png", str(photos / "a.png"), "*.png", ".", "--json")
    assert [each["picture"] for each in answer.json[:-1]] == ["a.png", "./b/c.jpg", "./b/d.gif"]


def test_a_picture_comes_through_stdin(run, model, photos: Path, pipe) -> None:
    pipe((photos / "a.png").read_bytes())
    file = model()
    piped = run("predict", file, "-", "--json").json[0]
    named = run("predict", file, str(photos / "a.png"), "--json").json[0]
    assert piped == named | {"picture": "stdin"}


def test_too_much_on_stdin_is_refused(run, model, pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchwords.cli.predict.MOST_PIPED", 5)
    pipe(b"GIF89a")
    answer = run("predict", model(), "-")
    assert answer.code == 2
    assert "came through stdin: pipe in a picture" in answer.err


def test_published_weights_are_fetched_as_the_options_say(run, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def fetch(name: str, **options: Any) -> Path:
        asked.update(options, name=name)
        raise NetworkError("no network here")

    monkeypatch.setattr("patchwords.weights.store.fetch", fetch)
    answer = run("predict", "deit-s16", str(photos), "--offline", "--mirror", "a=https://b")
    assert (answer.code, answer.err) == (7, "patchwords: no network here\n")
    assert (asked["name"], asked["offline"], asked["mirror"]) == ("deit-s16", True, "a=https://b")


@pytest.mark.parametrize("separator", ["\n", "\0"])
def test_a_list_comes_through_stdin_and_what_is_missing_is_broken(run, model, photos: Path, pipe, separator) -> None:
    pipe(separator.join([str(photos / "a.png"), "nowhere.png", str(photos / "b/c.jpg"), ""]).encode())
    answer = run("predict", model(), "-", "--json")
    *found, summary = answer.json
    assert answer.code == 3
    assert [each["picture"] for each in found] == [str(photos / "a.png"), str(photos / "b/c.jpg")]
    assert [each["picture"] for each in summary["broken"]] == ["nowhere.png"]
    assert "No such file" in summary["broken"][0]["reason"]


def test_a_path_that_does_not_exist_is_refused_before_anything_is_predicted(run, model, photos: Path) -> None:
    answer = run("predict", model(), str(photos / "a.png"), str(photos / "a.pgn"))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"patchwords: {photos / 'a.pgn'} does not exist; did you mean {photos / 'a.png'}?\n"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["ViT-B/16", "PHOTOS"], 2, "the name of a model without weights"),
        (["nothing.safetensors", "PHOTOS"], 2, "nothing.safetensors does not exist"),
        (["MODEL", "PHOTOS", "--json", "--csv"], 2, "--csv and --json both want stdout"),
        (["MODEL", "PHOTOS", "--top", "0"], 2, "top 0 is below 1"),
        (["MODEL", "PHOTOS", "--batch", "0"], 2, "batch 0 is below 1"),
        (["MODEL", "PHOTOS", "--image", "big"], 2, "'big' is no size"),
        (["MODEL", "PHOTOS", "--image", "33"], 2, "33"),
        (
            ["MODEL", "PHOTOS", "--precision", "int4"],
            2,
            "precision: 'int4' is not one of float32, bf16, fp16, fp8, int8",
        ),
        (["MODEL", "PHOTOS", "--precision", "fp8", "--device", "cpu"], 2, "precision fp8 needs a GPU"),
        (["MODEL", "PHOTOS", "--device", "tpu"], 2, "device 'tpu' cannot be used"),
        (["MODEL", "PHOTOS", "--heads", "3"], 4, "heads are not clear"),
        (["MODEL", "PHOTOS/*.tif"], 2, "matches nothing"),
        (["MODEL", "PHOTOS", "--figure", "PHOTOS"], 2, "is no empty folder"),
        (["MODEL", "PHOTOS", "--figure", "PHOTOS/a.png"], 2, "is no empty folder"),
        (["PHOTOS/a.png", "MODEL"], 2, "a.png is no weights file"),
        (["MODEL"], 2, "IMAGE"),
    ],
)
def test_wrong_input_is_a_sentence(run, model, photos: Path, words: list[str], code: int, message: str) -> None:
    given = [word.replace("MODEL", model()).replace("PHOTOS", str(photos)) for word in words]
    answer = run("predict", *given)
    assert answer.code == code
    assert message in answer.err
    assert answer.out == ""
    assert "bug" not in answer.err


def test_a_model_without_classes_is_exit_4(run, small_configs, photos: Path, tmp_path: Path) -> None:
    save(build(small_configs["no classes"]), tmp_path / "mae.safetensors")
    answer = run("predict", str(tmp_path / "mae.safetensors"), str(photos))
    assert answer.code == 4
    assert "no classes to predict" in answer.err


@pytest.mark.parametrize(("to", "name"), [("huggingface", "hf"), ("timm", "t.safetensors"), ("official", "o.npz")])
def test_other_formats_are_predicted_with_directly(run, small_configs, randomised, photos, tmp_path, to, name) -> None:
    activation = "gelu" if to == "timm" else "gelu-tanh"  # what a file of timm's means
    config = replace(small_configs["plain"], image=(32, 32), classes=5, activation=activation)
    subject = randomised(build(config))
    save(subject, tmp_path / "model.safetensors", fitted(Card(model=config), config, FLOWERS))
    convert(open_checkpoint(tmp_path / "model.safetensors"), tmp_path / name, to)
    ours = run("predict", str(tmp_path / "model.safetensors"), str(photos), "--json").json
    theirs = run("predict", str(tmp_path / name), str(photos), "--json", "--heads", "2")
    assert theirs.code == 0
    assert ("nothing says how pictures are prepared" in theirs.err) == (to == "timm")  # what was assumed is said
    names = FLOWERS if to == "huggingface" else tuple(f"class {number}" for number in range(5))
    for one, other in zip(ours[:-1], theirs.json[:-1], strict=True):
        assert names.index(other["label"]) == FLOWERS.index(one["label"])
        assert other["probability"] == pytest.approx(one["probability"], abs=1e-6)


def test_figures_are_drawn_for_every_picture(run, model, photos: Path, tmp_path: Path) -> None:
    answer = run("predict", model(), str(photos), "--json", "--figure", str(tmp_path / "figures"))
    drawn = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawn == ["0001-a.png", "0002-c.png", "0003-d.png"]
    assert [Path(each["figure"]).name for each in answer.json[:-1]] == drawn
    for name in drawn:
        with Image.open(tmp_path / "figures" / name) as image:
            assert image.size[0] > image.size[1] > 300


def test_a_model_that_shows_nothing_is_drawn_without_an_overlay_and_says_so_once(run, model, photos, tmp_path) -> None:
    answer = run("predict", model("axial relative"), str(photos), "--figure", str(tmp_path / "figures"))
    assert answer.code == 0
    assert answer.err.count("cannot show where it looks") == 1
    assert len(list((tmp_path / "figures").iterdir())) == 3


def test_fifty_hostile_names_of_files_and_classes_stay_text(run, model, tmp_path: Path) -> None:
    assert len(HOSTILE) == len(set(HOSTILE)) >= 50
    data = draw(tmp_path / "one.png", 0).read_bytes()
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in HOSTILE:
        (folder / f"{name}.png").write_bytes(data)
    (folder / "\udcff\udcfe.png").write_bytes(data)
    classes = (*HOSTILE, "../../etc/passwd", "a\0b")
    file = model(classes=classes)

    people = run("predict", file, str(folder), "--top", "99")
    assert people.code == 0
    assert len(people.out.rstrip("\n").split("\n")) == 1 + len(HOSTILE) + 1 - sum(n.startswith(".") for n in HOSTILE)
    assert all(letter.isprintable() or letter in "\n\u200d\u200e\u200f" for letter in people.out)

    *found, summary = objects(run("predict", file, str(folder), "--json", "--top", "99").out)
    assert summary["broken"] == []
    assert all({entry["label"] for entry in each["top"]} == set(classes) for each in found)

    rows = list(csv.reader(io.StringIO(run("predict", file, str(folder), "--csv", "--top", "99").out)))
    assert all(len(row) == 4 for row in rows)
    assert len({row[2] for row in rows[1:]}) == len(classes)


def test_a_spreadsheet_calculates_nothing(run, model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("=1+1.png", "+1.png", "@a.png", "-1.png", "plain, with comma.png")
    for name in names:
        draw(tmp_path / name, 0)
    answer = run("predict", model(classes=("=1+1", "-2", "+3", "@x", "rose")), "--csv", "--", *names)
    rows = list(csv.reader(io.StringIO(answer.out)))[1:]
    assert not [cell for row in rows for cell in (row[0], row[2]) if cell[0] in "=+-@"]
    assert {row[0] for row in rows} == {"./=1+1.png", "./+1.png", "./@a.png", "./-1.png", "plain, with comma.png"}
    assert all(os.path.exists(row[0]) for row in rows)
    assert {row[2] for row in rows} == {"'=1+1", "'-2", "'+3", "'@x", "rose"}


def test_hostile_names_never_become_paths_of_figures(run, model, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    names = ["\u202egnp.exe", "a\\..\\x", "line\nbreak", "$x^2$", "\u732b" * 60, "-rf"]
    for name in names:
        draw(folder / f"{name}.png", 0)
    answer = run("predict", model(classes=("$a$", "\u732b", "x" * 999)), str(folder), "--figure", str(tmp_path / "f"))
    assert answer.code == 0
    found = [path.name for path in (tmp_path / "f").iterdir()]
    assert len(found) == len(names)
    assert all(name.isprintable() and name.endswith(".png") and "\\" not in name for name in found)


@pytest.mark.parametrize(
    ("terminal", "total", "as_csv", "quiet", "where"),
    [
        ("talk", 100, False, False, "talk"),
        ("talk", 100, True, False, "talk"),
        ("console", 100, False, False, "console"),
        ("console", 100, True, False, "nowhere"),  # among the rows
        ("talk", 64, False, False, "nowhere"),
        ("talk", 100, False, True, "nowhere"),
        ("console", 100, False, True, "nowhere"),
        ("neither", 100, False, False, "nowhere"),
    ],
)
def test_a_bar_is_shown_for_many_where_it_disturbs_nobody(terminal, total, as_csv, quiet, where) -> None:
    output = Output(False, quiet)
    consoles = {"talk": output.talk, "console": output.console}
    for name, console in consoles.items():
        console._force_terminal = name == terminal
        console.file = io.StringIO()
    before = sys.stdout
    with _bar(output, total, as_csv, 64) as advance:
        assert sys.stdout is before  # Rich would send to stderr what is printed meanwhile
        advance(100)
    shown = [name for name, console in consoles.items() if console.file.getvalue()]  # type: ignore[attr-defined]
    assert shown == [name for name in consoles if name == where]


def lines(width: int, **names: Any) -> Lines:
    """The lines as a terminal of this width would get them."""
    output = Output(False, True)
    output.console.file = io.StringIO()
    output.console._force_terminal = True
    output.console.width = width
    return Lines(output, names["pictures"], names["classes"], 5)


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal_where_that_is_possible(width: int) -> None:
    from rich.cells import cell_len
    from rich.text import Text

    classes = ("rose", "x" * 300, "\u732b" * 50, "a b c", "")
    said = lines(width, pictures=["p" * 400 + ".png", "\u732b.png"], classes=classes)
    for name in ("p" * 400 + ".png", "\u732b.png"):
        logits = np.arange(5, dtype=np.float32)
        said.say(Prediction(name=name, classes=classes, logits=logits), None)
    rows = Text.from_ansi(said.output.console.file.getvalue()).plain.rstrip("\n").split("\n")  # type: ignore[attr-defined]
    assert all(cell_len(row) <= max(width, 45) for row in rows)
    assert not any(" …" in row for row in rows)
