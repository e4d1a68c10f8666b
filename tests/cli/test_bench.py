"""`patchwords bench`: the table, the lines of JSON, and what is refused."""

import re
import sys
from pathlib import Path

import pytest

import patchwords
from patchwords.bench.values import randomised

QUICK = ("--rounds", "1", "--seconds", "0.001", "--device", "cpu")
TINY = ("--model", "ViT-Mu/8", "--image", "16", "--batch", "2")


@pytest.fixture(autouse=True)
def lonely(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("timm", "transformers", "torchvision"):
        monkeypatch.setitem(sys.modules, name, None)


def test_inference_as_a_table(run) -> None:
    answer = run("bench", "inference", *TINY, *QUICK)
    assert answer.code == 0
    assert "images/s" in answer.out
    assert "ours" in answer.out
    assert re.search(r"ceiling [1-9][\d.]* [GT]FLOP/s", answer.out)
    assert "timm is not installed" in answer.err


def test_inference_as_json(run) -> None:
    machine, row = run("bench", "inference", *TINY, *QUICK, "--who", "ours", "--json").json
    assert machine["kind"] == "machine"
    assert machine["ceiling"] > 0
    assert (row["kind"], row["who"], row["precision"], row["batch"]) == ("row", "ours", "float32", 2)
    assert row["images_per_second"] == pytest.approx(2000 / row["milliseconds"])


def test_quiet_says_the_result_alone(run) -> None:
    assert run("bench", "inference", *TINY, *QUICK, "--quiet").err == ""


def test_training(run) -> None:
    _, row = run("bench", "training", *TINY, *QUICK, "--who", "ours", "--json").json
    assert row["bench"] == "training"
    assert row["further"]["loss"] > 0


def test_latency_of_a_trained_model_on_pictures(run, trained: Path) -> None:
    answer = run(
        *("bench", "latency", str(trained / "tiny.npz"), "--model", str(trained / "done"), *QUICK),
        *("--who", "ours", "--precision", "float32", "--json"),
    )
    _, row, note = answer.json
    assert (row["batch"], row["further"]["agreement"]) == (1, 1.0)
    assert note["note"] == "the agreement is on 40 pictures"


def test_loading(run) -> None:
    answer = run(
        *("bench", "loading", "--image", "32", "--batch", "2", "--pictures", "6", "--workers", "0"),
        *("--decoder", "pillow", "--device", "cpu", "--who", "ours", "--json"),
    )
    machine, row = answer.json
    assert machine["pictures"] == 6
    assert row["how"] == "pillow"


def test_end_to_end(run) -> None:
    answer = run(
        *("bench", "end-to-end", *TINY, "--pictures", "8", "--workers", "0", "--device", "cpu", "--who", "ours"),
        "--json",
    )
    _, row = answer.json
    assert row["further"].keys() == {"epoch", "steady", "resident", "busy"}


def test_end_to_end_takes_the_size_of_the_pictures_from_the_models_name(run) -> None:
    answer = run(
        *("bench", "end-to-end", "--model", "ViT-Mu/8@16", "--batch", "2", "--pictures", "8", "--workers", "0"),
        *("--device", "cpu", "--who", "ours", "--json"),
    )
    assert answer.json[1]["image"] == [16, 16]


def test_a_weights_file_is_measured_as_it_is(run, tmp_path: Path) -> None:
    patchwords.save(randomised(patchwords.build("ViT-Mu/8", image=16, classes=3)), tmp_path / "mine.safetensors")
    place = str(tmp_path / "mine.safetensors")
    assert run("bench", "inference", "--model", place, *QUICK, "--who", "ours", "--json").json[1]["model"] == "mine"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("inferense",), "did you mean inference"),
        (("loading", "--rounds", "3"), "--rounds does not apply to bench loading, but to inference, latency, training"),
        (("inference", "digits"), "DATA does not apply to bench inference, but to latency"),
        (("end-to-end", "--precision", "bf16,float32"), "give one"),
        (("training", "--precision", "fp8"), "precision fp8 needs a GPU with products in eight bits"),
        (("training", "--precision", "bf16,fp4"), "precision 'fp4' is not known"),
        (("inference", "--precision", "fp4"), "precision 'fp4' is not known"),
        (("inference", "--who", "tim"), "did you mean timm"),
        (("inference", "--who", "timm"), "nobody of timm can be measured"),
        (("inference", "--batch", "0"), "batch"),
        (("end-to-end", "--pictures", "5"), "too few"),
    ],
)
def test_what_cannot_be_meant_is_refused(run, words: tuple[str, ...], sentence: str) -> None:
    tiny = TINY[:4] if words[0] in ("inference", "training") else ()
    answer = run("bench", *words, *tiny, "--device", "cpu")
    assert answer.code == 2
    assert sentence in answer.err
