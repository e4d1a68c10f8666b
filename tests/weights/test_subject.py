"""MODEL of every verb: a run folder, any weights file, or a name, and what is known of where it came from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.layers.mlp import Activation
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.load import load, made, write_native
from patchwords.weights.subject import open_subject

NAMES = tuple(f"kind {number}" for number in range(7))


@pytest.fixture
def file(tmp_path: Path, tiny: ViTConfig, filled: Callable[[Config], dict[str, Tensor]]) -> Path:
    path = tmp_path / "mine.safetensors"
    write_native(path, Card(model=tiny, classes=NAMES, loss="sigmoid"), filled(tiny))
    return path


@pytest.fixture
def run(tmp_path: Path, file: Path) -> Path:
    """What `train` leaves, as far as it matters here."""
    folder = tmp_path / "runs/photos-3"
    folder.mkdir(parents=True)
    (folder / "recipe.toml").touch()
    (folder / "run.json").write_text(json.dumps({"data": "/photos"}))
    file.rename(folder / "model.safetensors")
    return folder


def test_a_run_knows_its_data(run: Path) -> None:
    subject = open_subject(run)
    assert subject.origin is not None
    assert subject.origin.data == "/photos"
    assert (subject.name, subject.card.classes, subject.card.loss) == ("photos-3", NAMES, "sigmoid")
    assert not subject.model.training


def test_the_result_of_a_run_is_that_run(run: Path) -> None:
    assert open_subject(run / "model.safetensors").origin == open_subject(run).origin


def test_a_checkpoint_of_a_run_is_of_that_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = run / "checkpoints/step-000100"
    step.mkdir(parents=True)
    (run / "model.safetensors").rename(step / "model.safetensors")
    for given in (step, step / "model.safetensors"):
        subject = open_subject(given)
        assert subject.origin is not None
        assert (subject.origin.data, subject.name) == ("/photos", "photos-3-step-000100")
    monkeypatch.chdir(step)
    assert open_subject("model.safetensors").origin == open_subject(step).origin


def test_a_file_alone_has_no_run(file: Path) -> None:
    subject = open_subject(file)
    assert subject.origin is None
    assert subject.name == "mine"


def test_another_file_in_a_run_folder_is_not_its_result(run: Path) -> None:
    (run / "model.safetensors").rename(run / "other.safetensors")
    assert open_subject(run / "other.safetensors").origin is None


def test_a_run_without_a_result_says_how_to_finish_it(run: Path) -> None:
    (run / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=f"finish it with `patchwords train --resume {run}`"):
        open_subject(run)
    (run / "run.json").write_text(json.dumps({"data": "/photos", "again": "patchwords evaluate tiny /photos"}))
    with pytest.raises(ModelError, match="finish it with `patchwords evaluate tiny /photos`"):
        open_subject(run)


@pytest.mark.parametrize("opened", [open_subject, load, open_checkpoint])  # evaluate; train --weights; show, convert
def test_a_folder_without_weights_says_what_to_give_to_whoever_opens_it(opened: Callable, run: Path) -> None:
    sentence = f"{run.parent} is no run itself but holds 1: give one of them, such as {run}"
    with pytest.raises(ModelError, match=sentence):
        opened(run.parent)
    (run / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=f"the run in {run} has no result yet: finish it with"):
        opened(run)
    (run / "recipe.toml").unlink()
    with pytest.raises(ModelError, match="give the folder of a run or of transformers, or a weights file"):
        opened(run)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_run_folder_that_was_damaged_is_refused(text: str, run: Path) -> None:
    (run / "run.json").write_text(text)
    with pytest.raises(ModelError, match=r"run.json of the run in .* cannot be read"):
        open_subject(run)


@pytest.mark.parametrize(
    ("format", "name", "activation"),
    [
        ("official", "x.npz", "gelu-tanh"),
        ("timm", "x.pth", "gelu"),
        ("huggingface", "x", "gelu"),
        ("torchvision", "x.pth", "gelu"),
    ],
)
def test_foreign_files_need_not_be_converted_first(
    format: str,
    name: str,
    activation: Activation,
    tmp_path: Path,
    tiny: ViTConfig,
    checkpoint: Callable[..., Checkpoint],
) -> None:
    ours = checkpoint(replace(tiny, activation=activation))
    convert(ours, tmp_path / name, to=format)
    told = {"heads": 3} if format in ("timm", "torchvision") else {}
    subject = open_subject(tmp_path / name, **told)
    pictures = torch.randn(2, 3, 16, 16)
    with torch.inference_mode():
        assert torch.allclose(subject.model(pictures), made(ours).eval()(pictures), atol=1e-4)


def test_a_run_folder_where_one_stands_is_not_that_of_published_weights(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    assert open_subject("augreg-ti16-i21k", fetch=lambda _: run / "model.safetensors").origin is None


def test_another_size_of_the_picture_comes_with_its_preprocessing(file: Path) -> None:
    subject = open_subject(file, image=(24, 32))
    assert subject.card.preprocess.size == (24, 32) == subject.model.config.image


def test_a_name_alone_has_random_weights_the_same_each_time_and_says_so() -> None:
    before = torch.random.get_rng_state()
    first, second = open_subject("ViT-Mu/16"), open_subject("ViT-Mu/16")
    assert "random" in first.notes[0]
    assert first.digest == second.digest
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_digest_tells_weights_and_preprocessing_apart(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    subject = open_subject(file)
    state = dict(subject.model.state_dict())
    state["head.classifier.bias"] = state["head.classifier.bias"] + 1e-6
    write_native(other, subject.card, state)
    assert len({subject.digest, open_subject(other).digest, open_subject(file, image=(24, 24)).digest}) == 3
    assert subject.digest == open_subject(file).digest


def test_what_does_not_exist_hears_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean"):
        open_subject("vit-b16-i21")
    with pytest.raises(UsageError, match="no model"):
        open_subject("")


def test_what_does_not_exist_is_answered_with_the_nearest_published_weights_and_never_with_all_of_them() -> None:
    with pytest.raises(
        UsageError, match=r"vit-b16-i1k does not exist: .*\(`patchwords show zoo`\); did you mean vit-b"
    ):
        open_subject("vit-b16-i1k")
    with pytest.raises(UsageError, match=r"published weights \(`patchwords show zoo`\)$"):
        open_subject("runs/nowhere")
