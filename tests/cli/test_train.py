"""`patchwords train`: a run from one command, and every wrong input with its exit code and a way out."""

import csv
import json
import os
import shutil
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from patchwords.training.run.folder import RunFolder

CHANGES = {"parts.depth": 1, "data.workers": 0, "data.crop.kind": "whole"}
SETTINGS = tuple(word for key, value in CHANGES.items() for word in ("--set", f"{key}={value}"))
FLAGS = ("--recipe", "digits", "--epochs", "2", "--batch", "16", "--lr", "1e-3", "--device", "cpu")
SHORT = ("tiny.npz", *FLAGS, *SETTINGS)


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the test's own with tiny.npz in it."""
    shutil.copy(trained / "tiny.npz", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def done(trained: Path, here: Path) -> Path:
    """A finished run in it."""
    shutil.copytree(trained / "done", here / "done")
    return here / "done"


def draw(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (16, 16), (len(str(path)) % 256, 100, 50)).save(path)


def test_a_run_leaves_all_its_files_and_says_what_to_do_next(run, here: Path) -> None:
    answer = run("train", *SHORT)
    assert answer.code == 0, answer.err
    files = {path.name for path in (here / "runs" / "tiny-1").iterdir()} - {".lock"}
    assert files == {
        *("recipe.toml", "run.json", "classes.json", "data.json", "metrics.jsonl", "metrics.csv"),
        *("predictions.npz", "checkpoints", "model.safetensors", "report.html"),
    }
    assert "40 pictures of 2 classes (32 to train, 8 to val)" in answer.err
    score, following = answer.out.splitlines()
    assert score.startswith("accuracy ")
    assert "report.html" in following
    assert "`patchwords show runs/tiny-1`" in following


@pytest.mark.parametrize(
    ("recipe", "parts", "sentence"),
    [
        ("digits-mae", ("parts.depth=1",), "`patchwords train DATA --weights runs/tiny-1` fine-tunes it"),
        ("digits-tokenizer", ("parts.width=8",), "--recipe beit/pretrain-b16 --set objective.tokenizer=runs/tiny-1`"),
    ],
)
def test_a_run_without_labels_says_what_its_model_is_for(
    run, here: Path, recipe: str, parts: tuple[str, ...], sentence: str
) -> None:
    words = (word for part in (*parts, "data.workers=0") for word in ("--set", part))
    answer = run("train", "tiny.npz", "--recipe", recipe, "--epochs", "1", "--device", "cpu", *words)
    assert answer.code == 0, answer.err
    score, _, following = answer.out.splitlines()
    assert "no labels were used" in score
    assert sentence in following
    said = run("show", "runs/tiny-1").out
    assert "32 train, 8 val, without labels" in said
    assert "  best " not in said  # none was chosen, the last was kept


def test_the_files_of_a_run_say_what_it_was(run, here: Path) -> None:
    assert run("train", *SHORT, "--seed", "3", "--model", "ViT-Digits/4", "--out", "mine").code == 0
    recipe = tomllib.loads((here / "mine" / "recipe.toml").read_text("utf-8"))
    assert (recipe["seed"], recipe["model"], recipe["duration"]) == (3, "ViT-Digits/4", "2 epochs")
    assert recipe["optimizer"]["lr"] == 1e-3
    told = json.loads((here / "mine" / "run.json").read_text("utf-8"))
    assert told["command"][1:3] == ["train", "tiny.npz"]
    assert told["status"] == "finished"
    assert json.loads((here / "mine" / "classes.json").read_text("utf-8")) == ["even", "odd"]
    rows = [json.loads(line) for line in (here / "mine" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["epoch"] for row in rows if row["kind"] == "val"] == [1, 2]
    with (here / "mine" / "metrics.csv").open(encoding="utf-8") as table:
        assert [row["kind"] for row in csv.DictReader(table)] == [row["kind"] for row in rows]
    with np.load(here / "mine" / "predictions.npz") as stored:
        assert stored["logits"].shape == (8, 2)


def test_json_is_one_object_a_line_and_the_last_is_the_result(run, here: Path) -> None:
    answer = run("train", *SHORT, "--json")
    kinds = [line["kind"] for line in answer.json]
    assert kinds[-1] == "result"
    assert kinds.count("val") == 2
    assert set(kinds) == {"note", "val", "result"}
    assert Path(answer.json[-1]["report"]).is_file()
    assert 0 <= answer.json[-1]["accuracy"] <= 1


def test_quiet_prints_the_result_alone(run, here: Path) -> None:
    answer = run("train", *SHORT, "--quiet")
    assert answer.err == ""
    assert len(answer.out.splitlines()) == 2


def test_a_second_run_gets_a_folder_of_its_own(run, here: Path) -> None:
    for _ in range(2):
        assert run("train", *SHORT, "--quiet").code == 0
    assert sorted(path.name for path in (here / "runs").iterdir()) == ["tiny-1", "tiny-2"]
    first, second = (here / "runs" / f"tiny-{number}" / "model.safetensors" for number in (1, 2))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("words", [(), ("--find-lr",)])
def test_another_optimizer_says_what_it_leaves_of_the_recipe(run, here: Path, words: tuple[str, ...]) -> None:
    answer = run(
        "train", "tiny.npz", "--recipe", "digits", *SETTINGS, "--set", "optimizer.kind=sgd", "--epochs", "1", *words
    )
    assert answer.code == 0, answer.err
    assert "optimizer sgd takes its own lr 0.01, decay 0.0, and not the recipe's lr 0.005, decay 0.5" in answer.err


def test_a_rate_is_found_and_drawn_without_a_run(run, here: Path) -> None:
    (found,) = [line for line in run("train", *SHORT, "--find-lr", "--json").json if line["kind"] == "rate"]
    assert 1e-6 < found["suggestion"] < 1
    Image.open(found["picture"]).verify()
    assert not (here / "runs").exists()


def nothing(here: Path) -> str:
    (here / "photos").mkdir()
    return "holds no pictures in class folders: make a folder for each class"


def loose(here: Path) -> str:
    draw(here / "photos" / "1.png")
    return "holds 1 pictures but no class folders: make a folder for each class"


def one_class(here: Path) -> str:
    for number in range(6):
        draw(here / "photos" / "roses" / f"{number}.png")
    return "has one class only (roses), and one class cannot be told from another: add pictures of a second class"


def text_as_picture(here: Path) -> str:
    for number in range(6):
        for name in ("roses", "tulips"):
            draw(here / "photos" / name / f"{number}.png")
    (here / "photos" / "roses" / "letter.jpg").write_text("Dear reader,", encoding="utf-8")
    return "roses/letter.jpg (it is none of JPEG, PNG, WEBP, BMP, GIF, TIFF, or its header is damaged); mend or remove"


def too_few_of_each(here: Path) -> str:
    draw(here / "first.png")
    for number in range(1000):
        (here / "photos" / f"{number}").mkdir(parents=True)
        os.link(here / "first.png", here / "photos" / f"{number}" / "1.png")
    return "the largest of the 1000 classes has 1; add pictures (at least 5 of one class)"


@pytest.mark.parametrize("prepared", [nothing, loose, one_class, text_as_picture, too_few_of_each])
def test_wrong_data_is_exit_3_with_what_to_do(run, here: Path, prepared: Any) -> None:
    sentence = prepared(here)
    small = ("--model", "ViT-Mu/8", "--image", "16", "--batch", "4", "--epochs", "1", "--set", "data.workers=0")
    answer = run("train", "photos", "--device", "cpu", *small)
    assert answer.code == 3
    assert sentence in answer.err.splitlines()[-1]
    assert answer.out == ""


def test_a_folder_that_may_not_be_read_is_exit_3(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text_as_picture(here)
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("tulips"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    answer = run("train", "photos", "--device", "cpu")
    assert answer.code == 3
    assert "tulips cannot be read (Permission denied): see that it is there and whole" in answer.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--set", "optimiser.lr=1"), "optimiser is not a setting; did you mean optimizer"),
        (("--set", "optimizer.lrr=1"), "optimizer.lrr is not a setting; did you mean lr?"),
        (("--set", "optimizer.kind=adma"), "'adma' is not one of adam, adamw, sgd, lamb; did you mean adam"),
        (("--set", "data.augment.policy.kind=rand"), "did you mean randaugment"),
        (("--set", "lr"), "write key=value"),
        (("--set", "best=acuracy"), "best: 'acuracy' is not one of accuracy"),
        (("--set", "duration=forever"), "'forever' is no duration: write 300 epochs, 20k steps or 5%"),
        (("--set", "evaluate='0 steps'"), "evaluate 0 steps is no rhythm: write 1 epoch, 500 steps or 5%"),
        (("--recipe", "digitz"), "recipe 'digitz' is neither a file nor known; did you mean digits"),
        (("--recipe", "paper/imagenet-b61"), "did you mean paper/imagenet-b16"),
        (("--recipe", "no.toml"), "recipe 'no.toml' is neither a file nor known"),
        (("--model", "ViT-Digit/2"), "did you mean ViT-Digits/2"),
        (("--set", "parts.deepth=3"), "parts of a vit: deepth is not a setting; did you mean depth"),
        (("--freeze", "nonsense"), "freeze 'nonsense' is not known: write backbone, blocks 6"),
        (("--freeze", "blocks 9"), "freeze 'blocks 9' is more than there are: the model has 1"),
        (("--batch", "many"), "batch: 'many' is not a whole number or auto"),
        (("--batch", "0"), "batch 0 is below 1: choose a larger one"),
        (("--batch", "-3"), "batch -3 is below 1: choose a larger one"),
        (("--epochs", "0"), "duration 0 epochs is no training: choose one step or more"),
        (("--epochs", "-1"), "'-1 epochs' is no duration: write 300 epochs"),
        (("--epochs", "nan"), "'nan epochs' is no duration"),
        (("--epochs", "soon"), "--epochs"),
        (("--lr", "-1"), "lr -1.0 is no learning rate: choose one above 0"),
        (("--seed", "-1"), "seed -1 is below 0"),
        (("--image", "7"), "image 7x7 is not a multiple of patch 2x2"),
        (("--image", "large"), "write 224, or 224x320"),
        (("--device", "gpu"), "device 'gpu' cannot be used"),
        (("--set", "precision=fp8"), "precision fp8 needs a GPU with products in eight bits, and the device is cpu"),
        (("--device", "meta:x"), "choose auto, cpu, cuda, cuda:0 or mps"),
        (("--out", "tiny.npz"), "tiny.npz is a file: choose another run folder with --out"),
        (("--out", "tiny.npz/mine"), "tiny.npz/mine cannot be written, since tiny.npz is a file and no folder: choose"),
        (("--find-lr", "--out", "tiny.npz/a.png"), "tiny.npz/a.png cannot be written, since tiny.npz is a file"),
        (("--find-lr", "--out", "rate"), "rate is no name for the picture: choose one that ends in .png, .jpg"),
        (("--find-lr", "--out", "rate.txt"), "rate.txt is no name for the picture: choose one that ends in .png, .jpg"),
        (("--find-lr", "--tensorboard"), "--tensorboard does not apply to --find-lr"),
    ],
)
def test_wrong_words_are_exit_2_and_leave_nothing(run, here: Path, words: tuple[str, ...], sentence: str) -> None:
    answer = run("train", *SHORT, *words)
    assert answer.code == 2
    assert sentence in answer.err
    assert sorted(path.name for path in here.iterdir()) == ["tiny.npz"]


MAE = ("--recipe", "digits-mae", "--set", "parts.depth=1", "--set", "objective.depth=1")
DINO = ("--recipe", "digits-dino", "--set", "parts.depth=1", "--set", "objective.outputs=16")


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((*MAE, "--set", "objective.kind=maee"), 2, "'maee' is not one of supervised, distill"),
        ((*MAE, "--set", "objective.ratio=0.99"), 2, "ratio 0.99 leaves 0 of 16 patches"),
        ((*MAE, "--set", "objective.heads=5"), 2, "width 48 is not a multiple of its heads 5: change one of them"),
        ((*MAE, "--set", "best=accuracy"), 2, "objective mae has no labels to choose the best by"),
        ((*MAE, "--set", "parts.position.kind=relative"), 2, "objective mae shows the encoder a few patches"),
        ((*MAE, "--set", "parts.pool={kind='mean',norm='after'}"), 2, 'set parts.pool.kind="class"'),
        (("--recipe", "digits-mae", "--model", "Tokenizer-8/2@8"), 2, "the model is a tokenizer: choose a ViT"),
        ((*MAE, "--set", "data.glimpses.large=1"), 2, "objective mae sees one crop of a picture, and data.glimpses"),
        ((*DINO, "--set", "data.glimpses.size=3"), 2, "small crops of 3x3 pixels (data.glimpses.size): image 3x3"),
        ((*DINO, "--set", "data.crop.kind=whole"), 2, "for glimpses choose crop"),
        ((*DINO, "--set", "data.mix.cutmix=1.0"), 2, "glimpses are not mixed"),
        (("--recipe", "digits-beit"), 2, "nobody says which words to learn"),
        (("--recipe", "digits-beit", "--set", "objective.tokenizer=done"), 4, "done is no tokenizer: train one"),
        (("--recipe", "digits-distill"), 2, "nobody teaches: set objective.teacher"),
        (("--recipe", "digits-distill", "--set", "objective.teacher=nowhere"), 2, "nowhere does not exist: give"),
        (("--recipe", "digits-distill", "--set", "objective.teacher=ViT-Digits/2"), 2, "random weights teach nothing"),
        (
            ("--recipe", "digits-distill", "--set", "objective.teacher=done", "--set", "objective.cache=true"),
            2,
            "whole",
        ),
    ],
)
def test_an_objective_that_cannot_be_is_refused_and_leaves_nothing(
    run, done: Path, words: tuple[str, ...], code: int, sentence: str
) -> None:
    answer = run("train", "tiny.npz", "--device", "cpu", "--epochs", "1", *words, "--out", "mine")
    assert answer.code == code, answer.err
    assert sentence in answer.err
    assert sorted(path.name for path in done.parent.iterdir()) == ["done", "tiny.npz"]


def test_a_batch_of_one_is_trained(run, here: Path) -> None:
    assert run("train", *SHORT, "--batch", "1", "--set", "duration='3 steps'").code == 0


@pytest.mark.parametrize("mix", ["data.mix.mixup=0.8", "data.mix.mixup=0.0"])
def test_an_odd_batch_is_trained(run, here: Path, mix: str) -> None:
    assert run("train", *SHORT, "--batch", "15", "--set", mix).code == 0


def test_data_that_does_not_exist_is_answered_with_the_nearest(run, here: Path) -> None:
    answer = run("train", "flower_photo", "--device", "cpu")
    assert answer.code == 2
    assert "'flower_photo' does not exist, as a folder, a file or a public data set; did you mean flower_photos" in (
        answer.err
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[optimizer]\nrate = 1\n", "optimizer.rate is not a setting"),
        ("batchsize = 8\n", "batchsize is not a setting; did you mean batch"),
        ("base = 'digitz'\n", "recipe 'digitz' is neither a file nor known; did you mean digits"),
        ("batch = = 8\n", "recipe mine.toml cannot be read as TOML"),
        ("base = 'mine.toml'\n", "leads back to itself"),
    ],
)
def test_a_wrong_recipe_file_is_exit_2(run, here: Path, text: str, sentence: str) -> None:
    (here / "mine.toml").write_text(text, encoding="utf-8")
    answer = run("train", "tiny.npz", "--recipe", "mine.toml", "--device", "cpu")
    assert answer.code == 2
    assert sentence in answer.err


def test_weights_of_another_architecture_are_exit_4(run, done: Path) -> None:
    answer = run("train", "tiny.npz", "--weights", "done/model.safetensors", "--model", "ViT-Ti/16", "--device", "cpu")
    assert answer.code == 4
    assert "done/model.safetensors holds another model than ViT-Ti/16: it has depth 1 and not 12" in answer.err
    assert "name no model (--set model='\"\"') to take what the file holds, or give other weights" in answer.err


def test_a_model_without_the_parts_that_a_recipe_sets_is_trained_without_them(run, here: Path) -> None:
    words = ("train", "tiny.npz", "--recipe", "scratch", "--model", "BiT-R26x1@32", "--device", "cpu", "--batch", "8")
    answer = run(*words)
    assert answer.code == 2
    assert "parts of a resnet: stochastic_depth is not a setting; there are units, width" in answer.err
    assert "(--set parts={} leaves all as they are)" in answer.err
    small = ("--set", "parts={width=32,units=[1]}", "--set", "duration='1 steps'", "--set", "data.workers=0")
    assert run(*words, *small).code == 0


def test_the_model_of_a_recipe_is_left_to_the_weights(run, done: Path) -> None:
    words = ("tiny.npz", "--recipe", "digits", "--weights", "done", "--device", "cpu")
    assert run("train", *words).code == 4  # the recipe's model has four layers
    short = ("--set", "duration='1 steps'", "--batch", "16", "--set", "data.workers=0")
    assert run("train", *words, *short, "--set", 'model=""', "--out", "tuned").code == 0


def test_a_file_that_holds_no_weights_is_exit_4(run, here: Path) -> None:
    np.savez(here / "odd.npz", a=np.zeros(3, dtype=np.float32))
    answer = run("train", "tiny.npz", "--weights", "odd.npz", "--device", "cpu")
    assert answer.code == 4
    assert "no known format" in answer.err
    assert "The file holds 1 tensors: a" in answer.err


def test_weights_are_fine_tuned_with_the_recipe_for_that(run, done: Path) -> None:
    words = ("--weights", "done/model.safetensors", "--set", "duration='2 steps'", "--batch", "16", "--device", "cpu")
    assert run("train", "tiny.npz", *words, "--set", "data.workers=0", "--out", "tuned").code == 0
    recipe = tomllib.loads((done.parent / "tuned" / "recipe.toml").read_text("utf-8"))
    assert (recipe["weights"], recipe["optimizer"]["kind"]) == ("done/model.safetensors", "sgd")


def test_no_space_left_is_exit_5_before_the_first_step(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1234))
    answer = run("train", *SHORT, "--out", "mine")
    assert answer.code == 5
    assert "1,234 bytes are free" in answer.err
    assert "bytes are needed there: make room, or choose another place with --out" in answer.err
    assert not (here / "mine" / "metrics.jsonl").exists()


def test_a_full_disk_that_looked_free_is_exit_5(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    answer = run("train", *SHORT)
    assert answer.code == 5
    assert "No space left on device" in answer.err


def test_a_run_folder_is_never_overwritten(run, done: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in done.rglob("*")}
    answer = run("train", *SHORT, "--out", "done")
    assert answer.code == 2
    assert "choose another with --out, or go on with the run in it with --resume done" in answer.err
    assert {path: path.stat().st_mtime_ns for path in done.rglob("*")} == before


def test_a_finished_run_resumed_is_finished_again(run, done: Path) -> None:
    model = (done / "model.safetensors").read_bytes()
    answer = run("train", "tiny.npz", "--resume", "done", "--device", "cpu")
    assert answer.code == 0, answer.err
    assert (done / "model.safetensors").read_bytes() == model


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--lr", "3"), "optimizer.lr was 0.001 and would be 3.0. Leave these out, or start a new run"),
        (("--epochs", "9"), "duration was '2 epochs' and would be '9 epochs'"),
        (("--set", "data.crop.kind=random"), "data.crop.kind was 'whole' and would be 'random'"),
        (("--recipe", "scratch"), "a resumed run keeps its settings"),
        (("--set", "optimizer.lrr=3"), "optimizer.lrr is not a setting; did you mean lr?"),
        (("--out", "other"), "--out other does not apply to --resume: the run stays in done"),
    ],
)
def test_a_resumed_run_keeps_its_settings(run, done: Path, words: tuple[str, ...], sentence: str) -> None:
    answer = run("train", "tiny.npz", "--resume", "done", "--device", "cpu", *words)
    assert answer.code == 2
    assert sentence in answer.err


@pytest.mark.parametrize("name", ["nowhere", "photos", "tiny.npz"])
def test_what_is_no_run_cannot_be_resumed(run, here: Path, name: str) -> None:
    (here / "photos").mkdir()
    answer = run("train", "--resume", name, "--device", "cpu")
    assert answer.code == 2
    assert f"{name} is no run folder to resume" in answer.err


def test_damaged_checkpoints_are_exit_4_and_named(run, done: Path) -> None:
    for path in done.glob("checkpoints/step-*/model.safetensors"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    answer = run("train", "tiny.npz", "--resume", "done", "--device", "cpu")
    assert answer.code == 4
    assert "can be used" in answer.err
    assert "Restore one from a copy, or start anew" in answer.err


def test_the_checkpoint_before_a_damaged_one_is_taken_and_said(run, done: Path) -> None:
    last = done / "checkpoints" / (done / "checkpoints" / "last").read_text("utf-8").split()[0]
    (last / "optimizer.safetensors").write_bytes(b"")
    answer = run("train", "tiny.npz", "--resume", "done", "--device", "cpu")
    assert answer.code == 0, answer.err
    assert f"{last.name} is damaged" in answer.err
    assert "going on from step-" in answer.err


def test_a_run_that_was_killed_before_it_saved_goes_on_from_its_start(run, done: Path) -> None:
    model = (done / "model.safetensors").read_bytes()
    shutil.rmtree(done / "checkpoints")
    (done / "model.safetensors").unlink()
    answer = run("train", "tiny.npz", "--resume", "done", "--device", "cpu")
    assert answer.code == 0, answer.err
    assert "going on after step 0 of 4" in answer.err
    assert (done / "model.safetensors").read_bytes() == model


def test_other_data_on_resume_is_exit_3(run, done: Path) -> None:
    np.savez(done.parent / "tiny.npz", images=np.zeros((30, 8, 8), dtype=np.uint8), labels=np.arange(30) % 2)
    answer = run("train", "--resume", "done", "tiny.npz", "--device", "cpu")
    assert answer.code == 3
    assert "the data is not what the run began with" in answer.err
    assert "bring it back, or start a new run without --resume" in answer.err


def test_two_trainings_in_one_folder_are_refused(run, done: Path) -> None:
    with RunFolder.reopen(done):
        answer = run("train", "tiny.npz", "--resume", "done", "--device", "cpu")
    assert answer.code == 2
    assert f"done is in use by process {os.getpid()}" in answer.err
    assert "wait for it, or stop it" in answer.err
