"""Opening an exported file: what is damaged, foreign or hostile is refused before onnxruntime sees it."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from patchwords.errors import ModelError, UsageError
from patchwords.export import label
from patchwords.export.read import is_program, open_program
from patchwords.serve.predictor import Predictor

FLIPS = 10_000 if os.environ.get("PATCHWORDS_BATTERY") == "full" else 60


@pytest.fixture
def file(exported) -> bytes:
    return exported().path.read_bytes()


def written(folder: Path, data: bytes) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(data)
    return path


def changed(data: bytes, change: Callable[[onnx.ModelProto], object]) -> bytes:
    """What an attacker writes, who knows how the hash is made."""
    model = onnx.load_model_from_string(data)
    change(model)
    table = {each.key: each.value for each in model.metadata_props if each.key != label.DIGEST}
    return label.labelled(model, table)


def test_no_flipped_bit_is_loaded(file: bytes, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for place in draw.integers(0, 8 * len(file), FLIPS).tolist():
        broken = bytearray(file)
        broken[place // 8] ^= 1 << (place % 8)
        with pytest.raises(ModelError):
            open_program(written(tmp_path, bytes(broken)))


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_no_torn_file_is_loaded(file: bytes, tmp_path: Path, share: float) -> None:
    with pytest.raises(ModelError, match="not run"):
        open_program(written(tmp_path, file[: int(share * len(file))]))


def test_a_picture_and_any_other_file_are_no_program(tmp_path: Path) -> None:
    for found in (b"\x89PNG\r\n\x1a\n", b"\x80\x04.", os.urandom(1000)):
        with pytest.raises(ModelError, match=r"model.onnx is not run: .*not written by `patchwords export`"):
            open_program(written(tmp_path, found))


def test_a_file_of_another_exporter_is_refused(file: bytes, tmp_path: Path) -> None:
    model = onnx.load_model_from_string(file)
    del model.metadata_props[:]
    with pytest.raises(ModelError, match="nothing says how pictures are prepared"):
        open_program(written(tmp_path, model.SerializeToString()))


def external(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def external_constant(model: onnx.ModelProto) -> None:
    node = helper.make_node("Constant", [], ["x"], value=numpy_helper.from_array(np.zeros(3, np.float32)))
    node.attribute[0].t.external_data.add(key="location", value="../secret")
    model.graph.node.insert(0, node)


def loop(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    model.graph.node.insert(0, helper.make_node("If", ["x"], [], then_branch=body, else_branch=body))


def foreign(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.evil"
    model.opset_import.add(domain="com.evil", version=1)


def unannounced(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.microsoft"


def function(model: onnx.ModelProto) -> None:
    model.functions.add(name="f", domain="")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (external, "numbers that lie in another file"),
        (external_constant, "numbers that lie in another file"),
        (loop, "a graph within 'If'"),
        (foreign, "operators of 'com.evil'"),
        (unannounced, "the operator .* of 'com.microsoft'"),
        (function, "functions"),
    ],
)
def test_what_could_do_harm_never_comes_to_onnxruntime(
    file: bytes, tmp_path: Path, monkeypatch, change, sentence: str
) -> None:
    def run(data: bytes) -> None:
        raise AssertionError("onnxruntime was asked")

    monkeypatch.setattr("patchwords.export.read._session", run)
    with pytest.raises(ModelError, match=sentence):
        open_program(written(tmp_path, changed(file, change)))


def renamed(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = "x"


def widened(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 1 << 20


def typed(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


def answering_more(model: onnx.ModelProto) -> None:
    model.graph.output.add(name="more")


@pytest.mark.parametrize("change", [renamed, widened, typed, answering_more])
def test_what_it_takes_must_be_what_its_card_says(file: bytes, tmp_path: Path, change) -> None:
    with pytest.raises(ModelError, match="not what its card says"):
        open_program(written(tmp_path, changed(file, change)))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("patchwords.card", "{", "card cannot be read"),
        ("patchwords.card", "[]", "card cannot be read"),
        ("patchwords.input", "words", "not known here"),
        ("patchwords.input", None, "patchwords.input is missing"),
    ],
)
def test_what_it_says_of_itself_must_be_readable(file: bytes, tmp_path: Path, key: str, value, sentence: str) -> None:
    def change(model: onnx.ModelProto) -> None:
        for number, each in enumerate(model.metadata_props):
            if each.key == key:
                each.value = value or ""
                if value is None:
                    del model.metadata_props[number]
                return

    with pytest.raises(ModelError, match=sentence):
        open_program(written(tmp_path, changed(file, change)))


def test_a_graph_that_is_no_graph_is_an_error_in_a_sentence(file: bytes, tmp_path: Path) -> None:
    def cut(model: onnx.ModelProto) -> None:
        del model.graph.node[3:5]

    with pytest.raises(ModelError, match="onnxruntime cannot open it"):
        open_program(written(tmp_path, changed(file, cut)))


def test_a_pt2_is_not_opened_since_it_may_run_code(exported) -> None:
    with pytest.raises(UsageError, match=r"runs whatever code .*export an .onnx"):
        Predictor(exported(ending=".pt2").path)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.onnx does not exist"):
        open_program(tmp_path / "none.onnx")


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ModelError, match="it is no file"):
        open_program(tmp_path / "pipe.onnx")


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.onnx").open("wb") as file:
        file.truncate(1 << 31)
    with pytest.raises(ModelError, match="larger than 2 GiB"):
        open_program(tmp_path / "large.onnx")


@pytest.mark.parametrize("given", ["a.onnx", "a.pt2", Path("a.onnx")])
def test_programs_are_known_by_their_ending(given) -> None:
    assert is_program(given)
    assert not is_program("model.safetensors")
    assert not is_program("ViT-B/16")


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "run.onnx").mkdir()
    assert not is_program(tmp_path / "run.onnx")


def test_a_library_that_is_missing_is_named(exported, monkeypatch) -> None:
    path = exported().path
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(UsageError, match=r"needs onnxruntime: pip install 'patchwords\[onnx\]'"):
        open_program(path)
