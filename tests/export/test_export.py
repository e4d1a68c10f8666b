"""`export`: one file whose answers are the model's, or none at all."""

import errno
import json
import os
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import patchwords
from patchwords.errors import DataError, ModelError, ResourceError, UsageError
from patchwords.export import graph
from patchwords.export.export import export
from patchwords.export.parity import BATCHES
from patchwords.export.read import open_program
from patchwords.export.wish import Wish
from patchwords.models.build import build
from patchwords.serve.predictor import Predictor
from patchwords.weights.card import KEY, Card, fitted
from patchwords.weights.subject import RANDOM, Subject

FEW = ["plain", "distilled", "beit", "swin odd", "hybrid", "resnet pre"]


@pytest.mark.parametrize("config", FEW)
def test_the_answers_are_the_models_at_batches_of_1_2_7_and_33(exported, config: str) -> None:
    found = exported(config).parity
    assert [each.batch for each in found.batches] == [1, 2, 7, 33] == list(BATCHES)
    assert found.difference <= found.allowed
    assert found.agreement == 1


def test_large_tables_of_biases_are_looked_up_in_the_file(small_configs, randomised, tmp_path: Path) -> None:
    """Small ones are constants in it."""
    config = replace(small_configs["beit"], image=(128, 128))
    card = fitted(Card(model=config, source="a test"), config, ())  # type: ignore[arg-type]
    done = export(Subject("beit", randomised(build(config)).eval(), card), tmp_path / "model.onnx")
    assert "GatherND" in {node.op_type for node in onnx.load(done.path).graph.node}
    assert done.parity.difference <= done.parity.allowed


@pytest.mark.slow
def test_every_small_model_can_be_exported(small, small_config, small_configs, tmp_path: Path) -> None:
    (name,) = (name for name, config in small_configs.items() if config is small_config)
    classes = small_config.classes or 0
    subject = small(name, tuple(f"class {number}" for number in range(classes)))
    for ending in (".onnx", ".pt2"):
        done = export(subject, tmp_path / f"model{ending}")
        assert done.parity.difference <= done.parity.allowed
        assert done.gives == ("logits" if classes else "vector")


def test_a_file_that_takes_pixels_standardises_them_itself(exported, small, pictures: Path) -> None:
    done, model = exported(input="pixels"), Predictor(small(), device="cpu")
    assert done.shape == ("batch", 32, 24, 3)
    says = Predictor(done.path)
    for picture in sorted(pictures.iterdir()):
        np.testing.assert_allclose(says.predict(picture).logits, model.predict(picture).logits, atol=1e-5)


def test_in_int8_what_it_costs_is_measured_on_data(small, exported, data: Path) -> None:
    plain, done = exported(), exported(precision="int8")
    assert plain.measured is not None
    assert done.measured is not None
    assert plain.measured.file == plain.measured.model == done.measured.model
    assert plain.measured.agreement == 1
    assert (done.measured.pictures, done.measured.data) == (20, "flowers")
    says, model = Predictor(done.path), Predictor(small(), device="cpu")
    images = np.load(data)
    ours, theirs = ([each.label for each in asked.predict_many(list(images["images"]))] for asked in (model, says))
    right = np.array([str(images["classes"][label]) for label in images["labels"]])
    assert done.measured.file == np.mean(np.array(theirs) == right)
    assert done.measured.agreement == np.mean(np.array(theirs) == np.array(ours))


def test_so_many_pictures_are_asked_as_was_said(small, data: Path, tmp_path: Path) -> None:
    done = export(small(), tmp_path / "model.pt2", data=data, pictures=7)
    assert done.measured is not None
    assert done.measured.pictures == 7


def test_in_int8_no_answer_depends_on_the_company(exported, data: Path) -> None:
    says, images = Predictor(exported(precision="int8").path, batch=8), list(np.load(data)["images"])
    together = [each.logits for each in says.predict_many(images)]
    alone = [says.predict(image).logits for image in images]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("config", ["resnet pre", "no positions"])
def test_a_model_without_a_grid_takes_pictures_of_any_size(exported, small, config: str) -> None:
    done, model = exported(config, sizes="any"), small(config).model
    assert done.shape == ("batch", 3, "height", "width")
    assert len({each.size for each in done.parity.batches}) == 2
    says = open_program(done.path).model
    with torch.inference_mode():
        for size in ((64, 48), (40, 96)):
            images = torch.randn(3, 3, *size)
            np.testing.assert_allclose(says(images), model(images), atol=1e-4)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [("plain", "positions .learned-1d. are for one grid.*--image 384"), ("swin", "windows are laid out for one size")],
)
def test_a_model_for_one_size_is_not_exported_for_any(small, tmp_path: Path, config: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        export(small(config), tmp_path / "model.onnx", wish=Wish(sizes="any"))
    assert not [*tmp_path.iterdir()]


def test_at_another_size_the_positions_are_resampled_first(small, tmp_path: Path) -> None:
    subject = small()
    patchwords.save(subject.model, tmp_path / "model.safetensors", subject.card)
    done = export(tmp_path / "model.safetensors", tmp_path / "large.onnx", image=(64, 48))
    assert done.shape == ("batch", 3, 64, 48)
    picture = np.random.default_rng(0).integers(0, 256, (50, 60, 3), dtype=np.uint8)
    expected = Predictor(tmp_path / "model.safetensors", image=(64, 48), device="cpu").predict(picture)
    np.testing.assert_allclose(Predictor(done.path).predict(picture).logits, expected.logits, atol=1e-5)


def test_a_model_without_classes_gives_its_vector_and_predicts_nothing(small, tmp_path: Path) -> None:
    subject = small("no classes", ())
    done = export(subject, tmp_path / "model.onnx")
    assert done.gives == "vector"
    with torch.inference_mode():
        images = torch.randn(3, 3, 32, 24)
        np.testing.assert_allclose(open_program(done.path).model(images), subject.model.represent(images), atol=1e-5)
    with pytest.raises(ModelError, match="has no classes to predict"):
        Predictor(done.path)


def test_sigmoids_stay_sigmoids(small, tmp_path: Path, pictures: Path) -> None:
    done = export(small(loss="sigmoid"), tmp_path / "model.onnx")
    answer = Predictor(done.path).predict(pictures / "0.jpg")
    np.testing.assert_allclose(answer.chances, 1 / (1 + np.exp(-answer.logits.astype(np.float64))))


@pytest.mark.parametrize("ending", [".onnx", ".pt2"])
def test_the_file_holds_the_card_and_the_classes_and_nothing_of_this_machine(exported, ending: str) -> None:
    done = exported(ending=ending)
    if ending == ".onnx":
        model = onnx.load(done.path)
        table = {each.key: each.value for each in model.metadata_props}
        assert [each.domain for each in model.opset_import] == [""]
        assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    else:
        with zipfile.ZipFile(done.path) as archive:
            table = {
                name.partition("/extra/")[2]: archive.read(name).decode()
                for name in archive.namelist()
                if "/extra/" in name
            }
            pickles = [
                name for name in archive.namelist() if archive.read(name)[:2] == b"\x80\x02" or name[-3:] == "pkl"
            ]
            assert pickles == []
    assert json.loads(table["classes"]) == list(done.card.classes)
    assert json.loads(table[KEY])["classes"] == list(done.card.classes)
    data = done.path.read_bytes()
    assert b"/patchwords/" not in data
    assert os.fsencode(Path(patchwords.__file__).parent) not in data


def test_class_names_that_are_no_text_come_back(small, tmp_path: Path, pictures: Path) -> None:
    names = ("\udce9t\udce9", "<script>", "a\nb", '"', "\U0001f337")
    done = export(small(classes=names), tmp_path / "model.onnx")
    assert Predictor(done.path).classes == names


def test_a_pt2_says_the_same_to_those_who_load_it(exported, small) -> None:
    done = exported(ending=".pt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about itself
        module = torch.export.load(done.path).module()
    images = torch.randn(5, 3, 32, 24)
    with torch.inference_mode():
        assert torch.equal(module(images), small().model(images))


def test_a_file_that_answers_otherwise_is_never_there(small, tmp_path: Path, monkeypatch) -> None:
    """onnxruntime pads by minus infinity what was padded by zero, unless it is kept from it."""
    monkeypatch.setattr(graph, "_keep_pads", lambda model: None)
    with pytest.raises(ModelError, match=r"resnet pre does not say what the model says: of 1 pictures of 32x24"):
        export(small("resnet pre"), tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()]


def test_a_model_with_spoiled_weights_is_not_exported(small, tmp_path: Path) -> None:
    subject = small()
    with torch.no_grad():
        subject.model.head.classifier.bias[2] = torch.nan
    with pytest.raises(ModelError, match="no finite numbers"):
        export(subject, tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()]


def test_the_model_stays_as_it_is(small, tmp_path: Path) -> None:
    subject = small()
    before = {key: value.clone() for key, value in subject.model.state_dict().items()}
    trained = {name: each.requires_grad for name, each in subject.model.named_parameters()}
    export(subject, tmp_path / "model.pt2")
    after = subject.model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert trained == {name: each.requires_grad for name, each in subject.model.named_parameters()}


def test_what_cannot_be_traced_is_an_error_in_a_sentence(small, tmp_path: Path) -> None:
    subject = small()
    subject.model.pool = Asking()
    with pytest.raises(ModelError, match="plain cannot be exported"):
        export(subject, tmp_path / "model.onnx")
    assert not [*tmp_path.iterdir()]


class Asking(nn.Module):
    """Looks at the numbers, which no graph can."""

    def forward(self, tokens: Any) -> torch.Tensor:
        return tokens.x[:, 0] if float(tokens.x.sum()) > 0 else tokens.x[:, 1]


@pytest.mark.parametrize(
    ("name", "wish", "sentence"),
    [
        ("model.xyz", {}, "end it in .onnx or .pt2"),
        ("model", {}, "end it in .onnx or .pt2, or say --to huggingface"),
        ("there.onnx", {}, "exists already"),
        ("model.pt2", {"precision": "int8"}, "int8 is for .onnx"),
        ("model.onnx", {"precision": "int8"}, "name a data set with --data"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(small, tmp_path: Path, name: str, wish, sentence: str) -> None:
    (tmp_path / "there.onnx").write_bytes(b"precious")
    with pytest.raises(UsageError, match=sentence):
        export(small(), tmp_path / name, wish=Wish(**wish))
    assert [each.name for each in tmp_path.iterdir()] == ["there.onnx"]
    assert (tmp_path / "there.onnx").read_bytes() == b"precious"


def test_random_weights_are_refused(small, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="model without weights"):
        export("ViT-Ti/16", tmp_path / "model.onnx")
    subject = small()
    with pytest.raises(UsageError, match="model without weights"):
        export(Subject("x", subject.model, replace(subject.card, source=RANDOM)), tmp_path / "model.onnx")


def test_an_exported_file_is_not_exported_again(exported, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exported file already"):
        export(exported().path, tmp_path / "model.onnx")


def test_data_of_other_classes_is_refused(small, data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks 4 of the data's 5 classes.*--data"):
        export(small(classes=("tulip", "b", "c", "d", "e")), tmp_path / "model.onnx", data=data)


def test_a_vector_has_no_accuracy(small, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no classes, so no accuracy"):
        export(small("no classes", ()), tmp_path / "model.onnx", data=data)


def test_int8_is_for_linear_layers(small, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none but in its head"):
        export(small("resnet post"), tmp_path / "model.onnx", wish=Wish(precision="int8"), data=data)
    assert not [*tmp_path.iterdir()]


def test_weights_that_no_onnx_file_can_hold_are_refused_at_once() -> None:
    graph.check_bytes(graph.MOST_BYTES)
    with pytest.raises(UsageError, match=r"2 GiB at most: write a .pt2"):
        graph.check_bytes(graph.MOST_BYTES + 1)


@pytest.mark.parametrize("ending", [".onnx", ".pt2"])
def test_a_full_disk_leaves_nothing(small, tmp_path: Path, monkeypatch, ending: str) -> None:
    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ResourceError, match=r"could not be written \(No space left on device\); [\d,]+ bytes"):
        export(small(), tmp_path / f"model{ending}")
    assert not [*tmp_path.iterdir()]


def test_a_disk_that_is_too_small_is_found_before_the_work(small, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(ResourceError, match=r"has 0\WMiB left"):
        export(small(), tmp_path / "new" / "model.onnx")
    assert not [*tmp_path.iterdir()]


def test_nothing_is_printed(small, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(small(), tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("library", ["onnx", "onnxscript", "onnxruntime"])
def test_a_library_that_is_missing_is_named(small, tmp_path: Path, monkeypatch, library: str) -> None:
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(UsageError, match=rf"needs {library}: pip install 'patchwords\[onnx\]'"):
        export(small(), tmp_path / "model.onnx")


def test_a_folder_that_is_missing_is_made(small, tmp_path: Path) -> None:
    assert export(small(), tmp_path / "a" / "b" / "model.pt2").path.is_file()
