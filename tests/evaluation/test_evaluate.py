"""`patchwords.evaluate`: the pictures that are fair, every one once, by the names of their classes."""

import csv
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import patchwords
from patchwords.data.sources.parts import OWN_VALIDATION, TEST_WAITS
from patchwords.errors import DataError, ModelError, ResourceError, UsageError
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card

SHORT: dict[str, Any] = {"recipe": "digits", "epochs": 3, "batch": 16, "lr": 1e-3, "device": "cpu"}
CHANGES = {"parts.depth": 1, "data.workers": 0, "data.crop.kind": "whole", "data.validation.share": 0.25}
NAMES = np.array(["dark", "grey", "light"])


def shades(count: int, seed: int = 0) -> tuple[Any, Any]:
    """Noisy squares of three shades and their labels."""
    labels = np.arange(count) % 3
    noise = np.random.default_rng(seed).integers(0, 90, (count, 8, 8))
    return (noise + 70 * labels[:, None, None]).astype(np.uint8), labels


def write(path: Path, *, order: tuple[int, ...] = (0, 1, 2), **parts: int) -> Path:
    """Shades in a .npz with these parts; `order` is where each class stands in the list of names."""
    arrays: dict[str, Any] = {"classes": NAMES[np.argsort(order)]}
    for seed, (part, count) in enumerate(parts.items()):
        images, labels = shades(count, seed)
        prefix = "" if part == "whole" else f"{part}_"
        arrays |= {f"{prefix}images": images, f"{prefix}labels": np.array(order)[labels]}
    np.savez(path, **arrays)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a finished run; nobody writes there."""
    place = tmp_path_factory.mktemp("trained")
    write(place / "shades.npz", whole=60)
    patchwords.train(place / "shades.npz", **SHORT, change=CHANGES, out=place / "run")
    return place


@pytest.fixture
def whole(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run; what is written goes to a folder and a cache of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))
    return trained / "run"


@pytest.fixture
def run(whole: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run, where nobody looks at the page: to draw it takes most of the time, and it has tests of its own."""
    monkeypatch.setattr("patchwords.evaluation.record.report", lambda evaluation, source: "a page")
    return whole


def evaluate(*given: Any, **options: Any) -> Any:
    return patchwords.evaluate(*given, device="cpu", **options)


def stored(evaluation: Any) -> dict[str, Any]:
    with np.load(evaluation.folder / "predictions.npz") as found:
        return dict(found)


def test_a_run_is_judged_by_what_it_held_out_and_says_so(run: Path, trained: Path) -> None:
    said: list[str] = []
    found = evaluate(run, note=said.append)
    assert found.split == "val"
    assert found.scores.count == 15
    with np.load(run / "predictions.npz") as before:
        np.testing.assert_allclose(stored(found)["logits"], before["logits"], atol=1e-5)
        assert (stored(found)["labels"] == before["labels"]).all()
    assert "15 pictures of shades are scored: the validation part, which the model did not learn from" in said
    assert found.folder == Path("runs/evaluate-shades-1")
    assert evaluate(run).folder == Path("runs/evaluate-shades-2")


def test_the_same_data_elsewhere_is_still_what_the_run_learned_from(run: Path, trained: Path) -> None:
    shutil.copy(trained / "shades.npz", "shades.npz")
    found = evaluate(run, "shades.npz")
    assert (found.split, found.scores.count) == ("val", 15)


def test_a_checkpoint_of_the_run_is_judged_by_what_the_run_held_out(run: Path) -> None:
    (last,) = (run / "checkpoints").glob("step-*[1-9]*")
    found = evaluate(last / "model.safetensors")
    assert (found.split, found.scores.count) == ("val", 15)
    assert found.model == f"run-{last.name}"


def test_weights_that_left_their_run_may_have_learned_from_all_there_are_and_that_is_said(
    run: Path, trained: Path
) -> None:
    shutil.copy(run / "model.safetensors", "alone.safetensors")
    found = evaluate("alone.safetensors", trained / "shades.npz")
    assert (found.split, found.scores.count) == ("all", 60)
    assert "all there are; whether the model learned from some of them is not known" in found.said
    write(Path("parted.npz"), train=30, test=9)
    assert "not known" not in evaluate("alone.safetensors", "parted.npz").said


def test_the_weights_in_the_run_folder_are_the_run(run: Path) -> None:
    assert evaluate(run / "model.safetensors").split == "val"


def test_every_picture_is_scored_once_whatever_the_batch(run: Path, trained: Path) -> None:
    found = {batch: evaluate(run, split="all", batch=batch) for batch in (7, 60)}
    assert all(each.scores.count == 60 for each in found.values())
    assert sorted(stored(found[7])["indices"].tolist()) == list(range(60))
    np.testing.assert_allclose(stored(found[7])["logits"], stored(found[60])["logits"], atol=1e-5)


def test_all_pictures_are_those_learned_from_and_those_held_out(run: Path, trained: Path) -> None:
    said: list[str] = []
    every, val, train = (evaluate(run, split=part, note=said.append) for part in ("all", "val", "train"))
    right = {each.split: each.scores.accuracy * each.scores.count for each in (every, val, train)}
    assert right["all"] == pytest.approx(right["train"] + right["val"])
    assert (train.scores.count, val.scores.count) == (45, 15)
    assert "60 pictures of shades are scored: every part, those that the model learned from among them" in said


def test_other_data_is_judged_by_its_test_then_its_validation_then_all(run: Path, tmp_path: Path) -> None:
    parts = {"test": {"train": 30, "val": 9, "test": 12}, "val": {"train": 30, "val": 9}, "all": {"whole": 21}}
    for part, counts in parts.items():
        found = evaluate(run, write(tmp_path / f"{part}.npz", **counts))
        assert (found.split, found.scores.count) == (part, list(counts.values())[-1])
    assert evaluate(run, tmp_path / "test.npz", split="all").scores.count == 51
    assert evaluate(run, tmp_path / "test.npz", split="val").scores.count == 9
    with pytest.raises(UsageError, match="all has no such part of its own; choose from all"):
        evaluate(run, tmp_path / "all.npz", split="test")


def test_data_that_changed_is_refused_or_named_and_said(run: Path, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    told = json.loads((tmp_path / "copy/run/run.json").read_text("utf-8"))
    write(tmp_path / "moved.npz", whole=63)
    (tmp_path / "copy/run/run.json").write_text(json.dumps(told | {"data": str(tmp_path / "moved.npz")}), "utf-8")
    with pytest.raises(DataError, match=r"moved.npz has changed since the run learned from it.*evaluate .*moved.npz`"):
        evaluate(tmp_path / "copy/run")
    said: list[str] = []
    found = evaluate(tmp_path / "copy/run", tmp_path / "moved.npz", note=said.append)
    assert (found.split, found.scores.count) == ("all", 63)
    assert any("pictures that it has seen may be among these" in note for note in said)
    (tmp_path / "moved.npz").unlink()
    with pytest.raises(UsageError, match=r"the data that the run learned from is not found.*say where it is now"):
        evaluate(tmp_path / "copy/run")


def test_labels_in_another_order_give_the_same_scores(run: Path, tmp_path: Path) -> None:
    plain = evaluate(run, write(tmp_path / "plain.npz", whole=30))
    said: list[str] = []
    mixed = evaluate(run, write(tmp_path / "mixed.npz", order=(2, 0, 1), whole=30), note=said.append)
    assert mixed.scores.accuracy == plain.scores.accuracy > 1 / 3
    assert [each["name"] for each in mixed.numbers()["classes"]] == list(NAMES)
    assert any("in another order" in note for note in said)


def test_a_file_alone_does_not_know_its_data(run: Path) -> None:
    shutil.copy(run / "model.safetensors", "alone.safetensors")
    with pytest.raises(UsageError, match="alone does not tell which data it is for: name it"):
        evaluate("alone.safetensors")


def test_random_weights_are_refused_but_their_features_are_judged(run: Path, trained: Path) -> None:
    with pytest.raises(UsageError, match=r"ViT-Digits/4 is a name alone.* give weights, or judge its features"):
        evaluate("ViT-Digits/4", trained / "shades.npz")
    with pytest.raises(UsageError, match="leave out --by-order"):
        evaluate("ViT-Digits/4", trained / "shades.npz", by_order=True, knn=(1,))
    found = evaluate("ViT-Digits/4", trained / "shades.npz", knn=(1, 3))
    assert found.scores is None
    assert found.numbers()["top1"] is None
    assert "its weights are random" in found.notes[0]
    assert [each["neighbours"] for each in found.numbers()["knn"]["neighbours"]] == [1, 3]
    assert sorted(path.name for path in found.folder.iterdir()) == ["evaluation.json", "report.html"]


def test_a_model_of_other_classes_is_judged_by_its_features_and_that_is_said(run: Path, tmp_path: Path) -> None:
    images, labels = shades(40)
    np.savez(tmp_path / "others.npz", images=images, labels=labels, classes=np.array(["x", "y", "z"]))
    with pytest.raises(DataError, match="--by-order"):
        evaluate(run, tmp_path / "others.npz")
    said: list[str] = []
    found = evaluate(run, tmp_path / "others.npz", few_shot=(1, 3), note=said.append)
    assert found.scores is None
    reason = "the model lacks 3 of the data's 3 classes (x, y, z; it has dark, grey, light)"
    assert f"only the features are judged: {reason}" in said
    assert found.split == "val"
    assert found.said == "Features are fitted on 34 pictures and judged by 6 others"
    assert found.numbers()["few_shot"]["learned"] == 34  # a fifth of each class, rounded down, is put aside
    assert found.numbers()["few_shot"]["judged"] == 6
    assert evaluate(run, tmp_path / "others.npz", by_order=True, knn=(1,)).scores.accuracy > 1 / 3


def test_what_was_not_measured_is_null_by_the_same_names(run: Path, trained: Path) -> None:
    answered, featured = evaluate(run).numbers(), evaluate("ViT-Digits/4", trained / "shades.npz", knn=(1,)).numbers()
    assert set(answered) == set(featured)
    assert answered["images_per_second"] > 0
    assert featured["images_per_second"] is None
    assert featured["loss"] is featured["classes"] is featured["few_shot"] is answered["knn"] is None


def test_features_learn_from_the_part_that_the_run_learned_from(run: Path) -> None:
    found = evaluate(run, few_shot=(1, 5), penalties=(1024.0, 1.0), knn=(5,), probe=True)
    numbers = found.numbers()
    for key in ("few_shot", "knn", "probe"):
        assert (numbers[key]["learned"], numbers[key]["judged"], numbers[key]["split"]) == (45, 15, "val")
    assert [each["shots"] for each in numbers["few_shot"]["shots"]] == [1, 5]
    assert len(numbers["few_shot"]["sweep"]) == 4
    assert 0 <= numbers["probe"]["top1"] <= 1
    assert found.scores.count == 15


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"few_shot": (1, 16)}, "16 shots need as many pictures of each class to learn from, and 'dark' has 15"),
        ({"knn": (46,)}, "46 neighbours are more than the 45 pictures"),
    ],
)
def test_too_few_pictures_are_told_before_the_model_is_asked(run: Path, options: Any, sentence: str) -> None:
    worked: list[str] = []
    with pytest.raises(DataError, match=sentence):
        evaluate(run, **options, working=lambda what, done, total: worked.append(what))
    assert worked == []
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"knn": 5}, "knn: 5 is not a list: write one in brackets"),
        ({"few_shot": "5"}, "few_shot: '5' is not a list: write one in brackets"),
        ({"split": "vall"}, "'vall' is not one of auto, train, val, test, all; did you mean val"),
        ({"split": "train", "knn": (1,)}, "--split train does not apply to --few-shot, --knn and --probe"),
        ({"penalties": (1.0,)}, "--penalty is a setting of --few-shot"),
        ({"few_shot": (1,), "penalties": (0.0,)}, "--penalty 0 is no number above 0: 1024 is"),
        ({"few_shot": (1,), "penalties": (1.0, float("inf"))}, "--penalty inf is no number"),
        ({"few_shot": (0,)}, "--few-shot 0 is below 1"),
        ({"knn": (0,)}, "--knn 0 is below 1"),
        ({"batch": 0}, "batch 0 is below 1"),
        ({"broken": 2.0}, "broken 2 is no share"),
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"precision": "half"}, "'half' is not one of float32, bf16, fp16"),
        ({"precision": "fp8"}, "'fp8' is not one of float32, bf16, fp16"),  # a model learns in it, and answers in bf16
    ],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(run: Path, options: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        evaluate(run, **options)
    assert not Path("runs").exists()


def test_an_evaluation_is_never_overwritten(run: Path) -> None:
    evaluate(run, out="mine")
    with pytest.raises(UsageError, match="mine is not empty, and nothing is overwritten"):
        evaluate(run, out="mine")
    Path("file").touch()
    with pytest.raises(UsageError, match="file is a file: choose another folder"):
        evaluate(run, out="file")


def test_too_few_pictures_to_divide_are_told_with_a_way_out(run: Path, tmp_path: Path) -> None:
    write(tmp_path / "few.npz", whole=12)
    with pytest.raises(DataError, match=r"few has too few pictures .*5 of one class at least.*train/ and test/") as got:
        evaluate(run, tmp_path / "few.npz", knn=(1,))
    assert "data.validation" not in str(got.value)  # a setting of training
    images, labels = shades(20)
    np.savez(tmp_path / "one.npz", images=images, labels=0 * labels, classes=NAMES[:1])
    with pytest.raises(DataError, match="all pictures to learn from are of one class"):
        evaluate(run, tmp_path / "one.npz", probe=True)


def test_a_full_disk_is_found_before_the_model_is_asked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4 * 15 * 3 - 1))
    worked: list[str] = []
    with pytest.raises(ResourceError, match=r"the logits need 0.MiB, .* has 0.MiB left: choose another --out"):
        evaluate(run, working=lambda what, done, total: worked.append(what))
    assert worked == []
    assert not list(Path("runs").iterdir())


def test_who_is_stopped_in_the_middle_leaves_nothing(run: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        raise SystemExit(130)

    with pytest.raises(SystemExit):
        evaluate(run, working=stop)
    assert not list(Path("runs").iterdir())


def test_nothing_is_written_that_looks_finished_when_the_page_fails(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(evaluation: Any, source: Any) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("patchwords.evaluation.record.report", fail)
    with pytest.raises(ZeroDivisionError):
        evaluate(run)
    assert not list(Path("runs").iterdir())


def test_the_files_say_what_the_numbers_say(whole: Path) -> None:
    found = evaluate(whole, out="mine")
    assert sorted(path.name for path in Path("mine").iterdir()) == [
        "evaluation.json",
        "predictions.csv",
        "predictions.npz",
        "report.html",
    ]
    assert json.loads(Path("mine/evaluation.json").read_text("utf-8")) == json.loads(json.dumps(found.numbers()))
    arrays = stored(found)
    with Path("mine/predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["true"] for row in rows] == [str(NAMES[label]) for label in arrays["labels"]]
    assert [row["predicted"] for row in rows] == [str(NAMES[best]) for best in arrays["logits"].argmax(1)]
    right = [row["true"] == row["predicted"] for row in rows]
    assert found.numbers()["top1"] == found.scores.accuracy == np.mean(right)


def test_a_name_that_is_no_text_can_be_written_and_read_back(run: Path) -> None:
    found = evaluate(run, out=os.fsdecode(b"m\xffine"))
    told = json.loads((found.folder / "evaluation.json").read_text("utf-8"))
    assert told["report"] == str(found.report)


def test_the_numbers_are_fractions_with_their_intervals(run: Path) -> None:
    numbers = evaluate(run).numbers()
    for key in ("top1", "top5", "ece", "macro_f1", "balanced_accuracy"):
        assert 0 <= numbers[key] <= 1
    for key in ("top1", "top5", "macro_f1", "balanced_accuracy", "ece"):
        low, high = numbers["intervals"][key]
        assert 0 <= low <= numbers[key] <= high <= 1
    assert np.array(numbers["confusion"]).sum() == numbers["count"] == 15
    assert [each["support"] for each in numbers["classes"]] == [5, 5, 5]
    assert sum(each["count"] for each in numbers["slices"]["size"]) == 15
    assert [each["name"] for each in numbers["slices"]["class"]] == list(NAMES)
    assert numbers["real"] is None
    assert numbers["few_shot"] is None


def test_one_picture_is_enough_to_be_judged_by(run: Path, tmp_path: Path) -> None:
    images, _ = shades(1)
    np.savez(tmp_path / "one.npz", images=images, labels=np.array([0]), classes=np.array(["dark"]))
    found = evaluate(run, tmp_path / "one.npz")
    assert found.scores.count == 1
    assert found.scores.accuracy in (0.0, 1.0)
    assert "the data has 1 of the model's 3 classes" in found.notes[0]


def photos(folder: Path, damaged: int, count: int = 9) -> Path:
    """Pictures of three shades as files, the first ones of them damaged."""
    images, labels = shades(count)
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        path = folder / str(NAMES[label]) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
        if number < damaged:
            path.write_bytes(b"Dear reader,")
    return folder


def test_broken_pictures_are_named_and_too_many_end_it(whole: Path, tmp_path: Path) -> None:
    folder = photos(tmp_path / "photos", damaged=2)
    with pytest.raises(DataError, match=r"2 of 9 pictures cannot be read.*or set --broken"):
        evaluate(whole, folder)
    assert not list(Path("runs").iterdir())
    said: list[str] = []
    found = evaluate(whole, folder, broken=0.3, note=said.append)
    assert found.scores.count == 7
    assert sorted(found.broken) == ["dark/0.png", "grey/1.png"]
    assert found.numbers()["broken"] == 2
    assert [note for note in said if "cannot be read" in note]
    assert "dark/0.png" in found.report.read_text("utf-8")
    assert 0 not in stored(found)["indices"]  # the first of dark


def test_the_share_of_broken_pictures_is_one_of_all_that_are_read(run: Path, tmp_path: Path) -> None:
    photos(tmp_path / "parted/train", damaged=1, count=27)
    photos(tmp_path / "parted/test", damaged=0, count=3)
    (tmp_path / "parted/real.json").write_text("[[7]]", encoding="utf-8")  # of validation pictures, which are not here
    lesson = "Features are fitted on 27 pictures and judged by 3 others"
    found = evaluate(run, tmp_path / "parted", knn=(3,), broken=1 / 30)
    assert (found.numbers()["knn"]["learned"], found.numbers()["knn"]["judged"]) == (26, 3)
    assert found.notes == (f"3 pictures of parted are scored: the test part. {lesson}",)
    with pytest.raises(DataError, match="1 of 30 pictures cannot be read"):
        evaluate(run, tmp_path / "parted", knn=(3,), broken=1 / 31)


def test_what_only_those_who_train_need_to_hear_is_not_said(run: Path, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "run", tmp_path / "run")
    told = json.loads((tmp_path / "run/data.json").read_text("utf-8"))
    notes = [*told["notes"], OWN_VALIDATION, TEST_WAITS]
    (tmp_path / "run/data.json").write_text(json.dumps(told | {"notes": notes}), encoding="utf-8")
    assert evaluate(tmp_path / "run").notes == evaluate(run).notes


def test_names_that_a_spreadsheet_would_calculate_are_marked(tmp_path: Path, run: Path) -> None:
    images, labels = shades(20)
    names = ["=1+1", "@cmd", "plain"]
    np.savez(tmp_path / "odd.npz", images=images, labels=labels, classes=np.array(names))
    found = evaluate(run, tmp_path / "odd.npz", by_order=True)
    with (found.folder / "predictions.csv").open(encoding="utf-8") as file:
        assert {row["true"] for row in csv.DictReader(file)} == {"'=1+1", "'@cmd", "plain"}
    assert [each["name"] for each in found.numbers()["classes"]] == names


def test_a_model_that_learned_by_sigmoids_is_scored_by_them(tmp_path: Path, run: Path, trained: Path) -> None:
    config = ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8), channels=1, classes=3)
    card = Card(model=config, classes=tuple(map(str, NAMES)), loss="sigmoid")
    patchwords.save(config.build(), tmp_path / "yes-or-no.safetensors", card)
    found = evaluate(tmp_path / "yes-or-no.safetensors", trained / "shades.npz")
    logits, labels = stored(found)["logits"].astype(np.float64), stored(found)["labels"]
    expected = np.logaddexp(0, logits).sum(1) - logits[np.arange(len(labels)), labels]
    assert found.scores.loss == pytest.approx(expected.mean())


WNIDS = tuple(f"n{number:08}" for number in range(1000))


def eighth(path: Path, classes: tuple[str, ...]) -> Path:
    """A model that says WNIDS[7], whatever it sees."""
    config = ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8), channels=1, classes=len(classes))
    model = config.build()
    model.head.classifier.bias.data[classes.index(WNIDS[7])] = 100.0
    patchwords.save(model, path, Card(model=config, classes=classes))
    return path


@pytest.fixture(scope="module")
def imagenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture of every class to learn from, and four to validate with."""
    folder = tmp_path_factory.mktemp("data") / "imagenet"
    images, _ = shades(4)
    Image.fromarray(images[0]).save(folder.parent / "first.png")
    for name in WNIDS:
        (folder / "train" / name).mkdir(parents=True)
        (folder / "train" / name / "1.png").hardlink_to(folder.parent / "first.png")
    for number, pixels in enumerate(images, start=1):
        place = folder / "val" / WNIDS[number]
        place.mkdir(parents=True)
        Image.fromarray(pixels).save(place / f"ILSVRC2012_val_{number:08}.png")
    (folder / "real.json").write_text(json.dumps([[7], [3, 7], [], [5]]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("classes", [WNIDS, (*(f"x{number}" for number in range(50)), *WNIDS[::-1])], ids=len)
def test_pictures_that_show_several_classes_are_right_with_any_of_them(
    tmp_path: Path, run: Path, imagenet: Path, classes: tuple[str, ...]
) -> None:
    found = evaluate(eighth(tmp_path / "eighth.safetensors", classes), imagenet)
    assert (found.split, found.scores.accuracy) == ("val", 0.0)
    assert found.numbers()["real"] == pytest.approx(2 / 3)
    assert found.numbers()["real_count"] == 3
    assert found.numbers()["confusion"] is None


def test_their_labels_may_be_named_and_may_lie_with_the_validation_pictures_alone(
    tmp_path: Path, run: Path, imagenet: Path
) -> None:
    model = eighth(tmp_path / "eighth.safetensors", WNIDS)
    shutil.copytree(imagenet / "val", tmp_path / "val")
    assert evaluate(model, tmp_path / "val").numbers()["real"] is None
    assert evaluate(model, tmp_path / "val", real=imagenet / "real.json").numbers()["real"] == pytest.approx(2 / 3)
    shutil.copy(imagenet / "real.json", tmp_path / "val")
    assert evaluate(model, tmp_path / "val").numbers()["real"] == pytest.approx(2 / 3)


def test_labels_that_lie_there_but_do_not_fit_are_said_and_left_out(tmp_path: Path, run: Path) -> None:
    folder = photos(tmp_path / "photos", damaged=0)
    (folder / "real.json").write_text("[[7]]", encoding="utf-8")
    found = evaluate(run, folder)
    assert found.numbers()["real"] is None
    assert any(note.startswith("there is no ReaL accuracy: ") for note in found.notes)
    with pytest.raises(DataError, match="is for the 1000 classes of ImageNet"):
        evaluate(run, folder, real=folder / "real.json")


@pytest.fixture
def unlabelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run on pictures that nobody told apart."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    for number, image in enumerate(shades(12)[0]):
        Image.fromarray(image).save(tmp_path / "plain" / f"{number}.png")
    masked = CHANGES | {"objective.kind": "mae", "best": "last", "patience": 0}
    return patchwords.train("plain", **SHORT, change=masked, out="masked").folder


def test_of_a_run_without_labels_it_is_said_what_can_be_judged(unlabelled: Path, tmp_path: Path) -> None:
    for data in ("", "plain", write(tmp_path / "shades.npz", whole=60)):
        with pytest.raises(
            ModelError, match=r"`patchwords evaluate masked DATA --knn 20`\); its own loss is told"
        ) as got:
            evaluate(unlabelled, data)
        assert "folder for each class" not in str(got.value)
    with pytest.raises(DataError, match=r"have no labels, .*, as in `patchwords evaluate masked DATA --knn 20`"):
        evaluate(unlabelled, knn=(3,))
    assert evaluate(unlabelled, tmp_path / "shades.npz", knn=(3,)).frozen.knn
