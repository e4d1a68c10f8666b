"""`patchwords export`: a file that others run, and `patchwords predict` runs it as the model it was made from."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.export.export import export

DOCS = Path(__file__).resolve().parents[2] / "docs" / "export.md"


@pytest.fixture
def run_folder(trained: Path) -> Path:
    return trained / "done"


@pytest.fixture(scope="module")
def files(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run's ONNX file and some pictures."""
    folder = tmp_path_factory.mktemp("files")
    export(trained / "done", folder / "model.onnx")
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (11, 9), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_people_read_what_was_written_and_how_near_it_is(run, run_folder: Path, tmp_path: Path) -> None:
    answer = run("export", str(run_folder), str(tmp_path / "model.pt2"), "--data", str(run_folder.parent / "tiny.npz"))
    first, second, third = answer.out.splitlines()
    assert answer.code == 0
    assert first.startswith(f"{tmp_path / 'model.pt2'}: ")
    assert first.endswith("images (batch, 1, 8, 8) to logits")
    assert second.startswith("43 answers at batches of 1, 2, 7, 33, at most ")
    assert third.startswith("accuracy on tiny ")
    assert "comparing: 43 of 43" in answer.err


def test_json_has_every_number(run, run_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.onnx"
    answer = run("export", str(run_folder), str(out), "--input", "pixels", "--precision", "int8", "--json")
    *notes, said = answer.json
    assert {each["kind"] for each in notes} == {"note"}
    assert said["kind"] == "result"
    assert (said["out"], said["format"], said["bytes"]) == (str(out), "onnx", out.stat().st_size)
    assert (said["input"], said["shape"], said["output"]) == ("pixels", ["batch", 8, 8, 1], "logits")
    assert [each["batch"] for each in said["parity"]["batches"]] == [1, 2, 7, 33]
    assert said["parity"]["difference"] <= said["parity"]["allowed"]
    measured = said["measured"]
    assert measured["change"] == measured["file"] - measured["model"]
    assert measured["pictures"] == 8  # what the run held out


def test_predict_runs_the_file_and_says_what_the_model_says(run, run_folder: Path, files: Path) -> None:
    ours = run("predict", str(run_folder), str(files), "--json", "--device", "cpu").json
    theirs = run("predict", str(files / "model.onnx"), str(files), "--json").json
    assert [each.get("picture") for each in ours] == [each.get("picture") for each in theirs]
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        assert a["label"] == b["label"]
        assert a["probability"] == pytest.approx(b["probability"], abs=1e-5)


def test_figures_are_without_attention_and_that_is_said(run, files: Path, tmp_path: Path) -> None:
    answer = run("predict", str(files / "model.onnx"), str(files / "0.png"), "--figure", str(tmp_path / "figures"))
    assert answer.code == 0
    assert "cannot show where it looks" in answer.err
    assert len([*(tmp_path / "figures").iterdir()]) == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("model.txt",), "end it in .onnx or .pt2, or say --to huggingface"),
        (("model",), "end it in .onnx or .pt2, or say --to huggingface"),
        (("model.onnx", "--image", "any"), "positions"),
        (("model.onnx", "--image", "big"), "'big' is no size"),
        (("model.onnx", "--input", "words"), "input: 'words' is not one of"),
        (("model.onnx", "--precision", "int4"), "precision: 'int4' is not one of"),
        (("model.onnx", "--pictures", "0", "--precision", "int8"), "--pictures 0 is below 1"),
        (("model.onnx", "--pictures", "5"), "--pictures is of --data"),
        (("model.pt2", "--precision", "int8"), "int8 is for .onnx"),
        (("hub", "--to", "onnx"), "--to 'onnx' is not known"),
        (("hub", "--to", "huggingface", "--input", "pixels"), "--input does not apply to --to huggingface"),
        (("hub", "--to", "huggingface", "--image", "any"), "--image any does not apply"),
        (("model.onnx", "--data", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_is_exit_2_and_leaves_nothing(run, run_folder: Path, tmp_path: Path, words, sentence) -> None:
    answer = run("export", str(run_folder), str(tmp_path / words[0]), *words[1:])
    assert answer.code == 2
    assert sentence in answer.err
    assert not [*tmp_path.iterdir()]


def test_a_mere_name_is_refused(run, tmp_path: Path) -> None:
    answer = run("export", "ViT-Ti/16", str(tmp_path / "model.onnx"))
    assert answer.code == 2
    assert "is the name of a model without weights" in answer.err


def test_an_existing_file_is_left_alone(run, run_folder: Path, tmp_path: Path) -> None:
    for name, words in (("a.onnx", ()), ("b", ("--to", "huggingface"))):
        (tmp_path / name).write_bytes(b"precious")
        answer = run("export", str(run_folder), str(tmp_path / name), *words)
        assert (answer.code, "exists already" in answer.err) == (2, True)
        assert (tmp_path / name).read_bytes() == b"precious"


def test_the_folder_of_hugging_face_has_its_own_writer(run, run_folder: Path, tmp_path: Path, monkeypatch) -> None:
    asked = []

    def write(subject, folder: Path) -> list[str]:
        asked.append((subject.name, folder))
        return ["a remark"]

    monkeypatch.setattr("patchwords.export.huggingface.write", write)
    answer = run("export", str(run_folder), str(tmp_path / "hub"), "--to", "huggingface", "--json")
    assert answer.code == 0
    assert asked == [("done", tmp_path / "hub")]
    assert answer.json[-1] == {
        "kind": "result",
        "out": str(tmp_path / "hub"),
        "format": "huggingface",
        "notes": ["a remark"],
    }
    assert (
        "its answers are the model's" in run("export", str(run_folder), str(tmp_path / "b"), "--to", "huggingface").out
    )


@pytest.mark.parametrize(
    ("name", "data", "code", "sentence"),
    [
        ("picture.onnx", b"\x89PNG\r\n\x1a\n" + bytes(100), 4, "not written by `patchwords export`"),
        ("empty.onnx", b"", 4, "not written by `patchwords export`"),
        ("model.pt2", b"PK", 2, "runs whatever code"),
        ("none.onnx", None, 2, "does not exist"),
    ],
)
def test_predict_refuses_what_is_no_exported_file(run, files: Path, tmp_path, name, data, code, sentence) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    answer = run("predict", str(tmp_path / name), str(files / "0.png"))
    assert answer.code == code
    assert sentence in answer.err


def test_a_file_that_was_tampered_with_is_exit_4(run, files: Path, tmp_path: Path) -> None:
    data = bytearray((files / "model.onnx").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "model.onnx").write_bytes(data)
    answer = run("predict", str(tmp_path / "model.onnx"), str(files / "0.png"))
    assert answer.code == 4
    assert "damaged, or was changed after it was exported" in answer.err


def test_the_command_says_only_what_it_means_to(run_folder: Path, tmp_path: Path) -> None:
    """In a process of its own, where the libraries are loaded for the first time."""
    words = ["export", str(run_folder), str(tmp_path / "model.onnx"), "--quiet"]
    done = subprocess.run([sys.executable, "-m", "patchwords", *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 2


def test_the_documents_ten_lines_run_with_onnxruntime_alone(run, files: Path, tmp_path: Path) -> None:
    """The example of docs/export.md, as it stands there, on the model of this test."""
    text = DOCS.read_text(encoding="utf-8")
    (code,) = (block for block in text.split("```python\n")[1:] if "InferenceSession" in block)
    program = code.partition("```")[0].replace("tulip.jpg", str(files / "1.png"))
    done = subprocess.run([sys.executable, "-c", program], cwd=files, capture_output=True, text=True, check=True)
    label, share = done.stdout.split()
    expected = run("predict", str(files / "model.onnx"), str(files / "1.png"), "--json").json[0]
    assert label == expected["label"]
    assert float(share) == pytest.approx(expected["probability"], abs=1e-3)
    assert "patchwords" not in program.replace("patchwords.card", "")
