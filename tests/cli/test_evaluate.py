"""`patchwords evaluate`: the numbers on stdout, the page in a folder, and every wrong input with its exit code."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from patchwords.errors import UsageError
from patchwords.studies.protocols.transfer import Transfer
from patchwords.studies.protocols.vtab import Vtab


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with tiny.npz and a finished run in it."""
    shutil.copy(trained / "tiny.npz", tmp_path)
    shutil.copytree(trained / "done", tmp_path / "done", ignore=shutil.ignore_patterns("checkpoints"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_people_get_a_table_and_where_the_report_is(run, here: Path) -> None:
    answer = run("evaluate", "done", "--device", "cpu")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("done on tiny, 8 pictures (val)")
    assert "accuracy" in answer.out
    assert "95 % confidence" in answer.out
    assert "8 pictures of tiny are scored: the validation part, which the model did not learn from" in answer.err
    assert "asking the model: 8 of 8" in answer.err
    assert answer.out.splitlines()[-1] == "look at runs/evaluate-tiny-1/report.html"
    assert Path("runs/evaluate-tiny-1/report.html").is_file()


def test_json_is_one_line_of_fractions(run, here: Path) -> None:
    answer = run("evaluate", "done", "--device", "cpu", "--json", "--few-shot", "1,5", "--knn", "3", "--probe")
    (result,) = answer.json
    assert result["kind"] == "result"
    assert 0 <= result["top1"] <= result["top5"] == 1
    assert {"ece", "macro_f1", "balanced_accuracy", "loss", "brier", "temperature", "ece_scaled", "real"} <= set(result)
    assert [each["shots"] for each in result["few_shot"]["shots"]] == [1, 5]
    assert result["knn"]["neighbours"][0]["neighbours"] == 3
    assert 0 <= result["probe"]["top1"] <= 1
    assert (result["model"], result["data"], result["split"], result["count"]) == ("done", "tiny", "val", 8)
    assert json.loads(Path(result["report"]).with_name("evaluation.json").read_text("utf-8"))["top1"] == result["top1"]


def test_features_are_told_of_as_many_pictures_as_there_are(run, here: Path) -> None:
    said = run("evaluate", "done", "--device", "cpu", "--knn", "3").err.splitlines()
    told = ["reading train: 32 of 32", "features of train: 32 of 32", "reading val: 8 of 8", "features of val: 8 of 8"]
    assert said[-4:] == told


def test_quiet_prints_the_result_alone(run, here: Path) -> None:
    answer = run("evaluate", "done", "--device", "cpu", "--quiet", "--knn", "3")
    assert answer.err == ""
    assert "nearest neighbours, 3" in answer.out


@pytest.mark.parametrize("to", ["official", "huggingface", "timm"])
def test_a_checkpoint_of_another_format_is_evaluated_as_it_is(run, here: Path, to: str) -> None:
    name = {"official": "w.npz", "huggingface": "w", "timm": "w.safetensors"}[to]
    assert run("convert", "done/model.safetensors", name, "--to", to).code == 0
    answer = run("evaluate", name, "tiny.npz", "--heads", "4", "--device", "cpu", "--json", "--out", "theirs")
    assert answer.code == 0, answer.err
    ours = run("evaluate", "done", "--split", "all", "--device", "cpu", "--json", "--out", "ours").json[0]
    assert answer.json[0]["count"] == ours["count"] == 40
    if to == "huggingface":
        assert answer.json[0]["top1"] == pytest.approx(ours["top1"])
        assert answer.json[0]["loss"] == pytest.approx(ours["loss"], abs=1e-5)
    else:  # these say nothing of the classes
        assert "names no classes: its 2 outputs are taken in the data's order (even, odd)" in answer.err


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("done/model.safetensors", "nowhere"), 2, "'nowhere' does not exist, as a folder, a file"),
        (("nowhere", "tiny.npz"), 2, "nowhere does not exist: give a weights file"),
        (("ViT-Digits/4", "tiny.npz"), 2, "is a name alone, so its answers are random"),
        (("done", "--split", "vall"), 2, "did you mean val"),
        (("done", "--split", "test"), 2, "tiny has no such part of its own; choose from train, val, all"),
        (("done", "--few-shot", "one"), 2, "--few-shot 'one' is no list of numbers: write them with commas, as 1,5,10"),
        (("done", "--few-shot", "1,,5"), 2, "is no list of numbers"),
        (("done", "--penalty", "x", "--few-shot", "1"), 2, "--penalty 'x' is no list of numbers"),
        (("done", "--penalty", "2"), 2, "--penalty is a setting of --few-shot"),
        (("done", "--few-shot", "30"), 3, "30 shots need as many pictures of each class"),
        (("done", "--out", "tiny.npz"), 2, "tiny.npz is a file: choose another folder with --out"),
        (("done", "--out", "done"), 2, "done is not empty, and nothing is overwritten"),
        (("done", "--out", "tiny.npz/deeper"), 2, "tiny.npz/deeper cannot be written, since tiny.npz is a file"),
        (("done", "--penalty", "inf", "--few-shot", "1"), 2, "--penalty inf is no number above 0"),
        (("done", "--precision", "half"), 2, "'half' is not one of float32, bf16, fp16"),
        (("done", "--image", "7"), 2, "image 7x7 is not a multiple of patch 2x2"),
        (("done", "--real", "no.json"), 3, "no.json is for the 1000 classes of ImageNet, and here are 2"),
        (("done", "--recipe", "digits"), 2, "--recipe applies to --protocol"),
        (("done", "--set", "seed=1"), 2, "--set applies to --protocol"),
        (("done", "--resume", "runs"), 2, "--resume applies to --protocol"),
        (("done", "tiny.npz", "--protocol", "table5"), 2, "--protocol 'table5' is not known; did you mean table-5"),
        (("done", "--protocol", "table-5"), 2, "--protocol table-5 needs DATA"),
        (("done", "tiny.npz", "--protocol", "table-5", "--probe"), 2, "--probe does not apply to --protocol table-5"),
        (("done", "tiny.npz", "--protocol", "table-5", "--batch", "8"), 2, "--batch does not apply to --protocol"),
    ],
)
def test_wrong_words_have_a_sentence_and_leave_nothing(
    run, here: Path, words: tuple[str, ...], code: int, sentence: str
) -> None:
    before = sorted(here.iterdir())
    answer = run("evaluate", *words, "--device", "cpu")
    assert answer.code == code
    assert sentence in answer.err
    assert answer.out == ""
    assert sorted(here.iterdir()) == before


def test_every_option_means_the_argument_of_its_name(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, Any] = {}

    def evaluate(model: str, data: str, **options: Any) -> None:
        heard.update(options)
        raise UsageError(f"{model} by {data}")

    monkeypatch.setattr("patchwords.evaluation.evaluate.evaluate", evaluate)
    words = (
        "--split val --few-shot 1,5 --penalty 2,0.5 --knn 3 --probe --real real.json --by-order --image 8x6 --heads 2"
    )
    words += " --batch 7 --precision bf16 --broken 0.5 --device cpu --out there --offline --mirror a=https://b"
    assert "done by tiny.npz" in run("evaluate", "done", "tiny.npz", *words.split()).err
    assert callable(heard.pop("note"))
    assert callable(heard.pop("working"))
    assert heard == {
        "split": "val",
        "few_shot": (1, 5),
        "penalties": (2.0, 0.5),
        "knn": (3,),
        "probe": True,
        "real": Path("real.json"),
        "by_order": True,
        "image": (8, 6),
        "heads": 2,
        "batch": 7,
        "precision": "bf16",
        "broken": 0.5,
        "device": "cpu",
        "out": Path("there"),
        "offline": True,
        "mirror": "a=https://b",
    }


def transferred(folder: Path) -> Transfer:
    return Transfer(
        folder=folder,
        data="tiny",
        model="done",
        pictures={"learned": 32, "chosen_by": 6, "judged": 8},
        rates={0.01: 0.5, 0.03: 0.75},
        diverged=(),
        rate=0.03,
        accuracies={0: 0.7, 1: 0.9},
    )


def test_the_protocol_of_table_5_is_given_what_was_asked(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, Any] = {}

    def table_5(weights: str, data: str, **options: Any) -> Transfer:
        heard.update(weights=weights, data=data, **options)
        return transferred(Path("there"))

    monkeypatch.setattr("patchwords.studies.protocols.table5.table_5", table_5)
    words = ("--recipe", "finetune", "--set", "batch=8", "--rates", "0.01,0.03", "--seeds", "0,1", "--out", "there")
    answer = run("evaluate", "done", "tiny.npz", "--protocol", "table-5", *words, "--device", "cpu")
    assert answer.code == 0, answer.err
    watcher = heard.pop("watcher")
    assert callable(watcher.note)
    assert heard == {
        "weights": "done",
        "data": "tiny.npz",
        "recipe": "finetune",
        "change": {"batch": 8},
        "rates": (0.01, 0.03),
        "seeds": (0, 1),
        "device": "cpu",
        "out": Path("there"),
        "offline": False,
        "mirror": "",
    }
    assert "tiny: 80.00 % with a deviation of 14.14 % over 2 seeds with rate 0.03, by 8 pictures" in answer.out
    told = run("evaluate", "done", "tiny.npz", "--protocol", "table-5", "--json").json[-1]
    assert (told["kind"], told["protocol"], told["rate"]) == ("result", "table-5", 0.03)
    assert told["mean"] == pytest.approx(0.8)


def test_vtab_takes_a_file_of_tasks(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vtab(weights: str, tasks: Path, **options: Any) -> Vtab:
        assert tasks == Path("tasks.toml")
        one = transferred(Path("there/01-one"))
        return Vtab(folder=Path("there"), model=weights, tasks={"one": one}, members={"one": "natural"})

    monkeypatch.setattr("patchwords.studies.protocols.vtab.vtab", vtab)
    answer = run("evaluate", "done", "tasks.toml", "--protocol", "vtab-1k")
    assert "natural: 80.00 %" in answer.out
    assert "all 1 tasks: 80.00 %; the trainings are in there" in answer.out
    assert run("evaluate", "done", "tasks.toml", "--protocol", "vtab-1k", "--json").json[-1]["groups"] == {
        "natural": pytest.approx(0.8)
    }
