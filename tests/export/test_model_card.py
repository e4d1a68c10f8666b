"""The model card: what the Hub reads of it, what it says to people, and that no name writes anything else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import patchwords
from patchwords.export.model_card import escaped, model_card
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.weights.card import Card, fitted
from patchwords.weights.subject import RANDOM, Subject, open_subject

Opening = Callable[..., Subject]
HOSTILE = (
    "a|b",
    "<script>alert(1)</script>",
    "# top",
    "x\n---\nlicense: mit",
    "[go](http://x)",
    "`code`",
    "\u202egpj",
    "花",
)


@pytest.fixture
def subject(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Opening:
    def open_(classes: tuple[str, ...] = ("cat", "dog"), config: str = "plain", **card: Any) -> Subject:
        chosen = replace(small_configs[config], classes=len(classes))  # type: ignore[call-arg]
        model = randomised(build(chosen)).eval()
        return Subject("pets", model, replace(fitted(Card(model=chosen), chosen, classes), **card))  # type: ignore[arg-type]

    return open_


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    labels = np.arange(40) % 2
    noise = np.random.default_rng(0).integers(0, 200, (40, 8, 8))
    images = (noise + 50 * labels[:, None, None]).astype(np.uint8)
    np.savez(place / "tiny.npz", images=images, labels=labels, classes=np.array(["even", "odd"]))
    flags: dict[str, Any] = {"recipe": "digits", "epochs": 1, "batch": 16, "lr": 1e-3, "device": "cpu"}
    changes = {"parts.depth": 1, "data.workers": 0, "data.crop.kind": "whole"}
    patchwords.train(place / "tiny.npz", **flags, change=changes, out=place / "done")
    return place / "done"


def head(text: str) -> Any:
    """As the Hub's own client reads it."""
    from huggingface_hub import ModelCard

    return ModelCard(text).data


def test_the_hub_reads_licence_library_task_and_tags(subject: Opening) -> None:
    found = head(model_card(subject(licence="Apache-2.0"), "transformers", "maria/pets"))
    assert (found.license, found.library_name) == ("apache-2.0", "transformers")
    assert found.pipeline_tag == "image-classification"
    assert {"patchwords", "vit"} <= set(found.tags)
    assert found.eval_results is None


def test_a_licence_that_the_hub_does_not_know_has_its_name(subject: Opening) -> None:
    found = head(model_card(subject(licence='My "own": #1'), "patchwords", "maria/pets"))
    assert (found.license, found.license_name) == ("other", 'My "own": #1')


def test_a_model_without_classes_is_for_features(subject: Opening) -> None:
    found = head(model_card(subject(classes=()), "transformers", "maria/pets"))
    assert found.pipeline_tag == "image-feature-extraction"


def test_random_weights_are_said(subject: Opening) -> None:
    assert "random: nobody trained it" in model_card(subject(source=RANDOM), "transformers", "x")


def test_a_run_tells_its_data_recipe_and_accuracy_with_the_split(run: Path) -> None:
    text = model_card(open_subject(run), "transformers", "maria/tiny")
    (result,) = head(text).eval_results
    assert (result.dataset_name, result.dataset_split, result.metric_type) == ("tiny", "validation", "accuracy")
    assert f"validation | 8 | {100 * result.metric_value:.1f} %" in text
    assert "tiny (32 for train, 8 for val)" in text
    assert "1 epochs" in text
    assert str(run.parent) not in text  # no path of this machine


def test_a_checkpoint_or_another_size_has_no_accuracy_of_the_result(run: Path) -> None:
    checkpoint = min((run / "checkpoints").glob("step-*"))
    for given in (
        open_subject(checkpoint / "model.safetensors") if (checkpoint / "model.safetensors").is_file() else None,
        open_subject(run, image=(16, 16)),
    ):
        if given:
            assert head(model_card(given, "transformers", "x")).eval_results is None


@pytest.mark.parametrize("library", ["transformers", "patchwords"])
def test_names_that_others_chose_write_nothing_but_themselves(library: Any, subject: Opening) -> None:
    plain = model_card(subject(classes=tuple("abcdefgh")), library, "maria/pets")
    text = model_card(subject(classes=HOSTILE, licence="x\n---\n# y"), library, "maria/pets")
    assert head(text).license_name == "x\n---\n# y"
    for mark in ("\n---", "\n# ", "<script", "\n|"):
        assert text.count(mark) == plain.count(mark)
    assert "\u202e" not in text
    assert "花" in text


@pytest.mark.parametrize(
    ("name", "written"), [("a|b", "a\\|b"), ("<b>", "&lt;b&gt;"), ("tea rose", "tea rose"), ("x\ny", "x\\\\u000ay")]
)
def test_a_name_is_escaped(name: str, written: str) -> None:
    assert escaped(name) == written


def test_many_classes_are_cut_short(subject: Opening) -> None:
    text = model_card(subject(classes=tuple(f"class-{i:03}" for i in range(150))), "patchwords", "x")
    assert "class-099, and 50 more" in text


def test_the_card_shows_how_to_use_what_it_stands_beside(subject: Opening) -> None:
    native = model_card(subject(), "patchwords", "maria/pets")
    assert "patchwords hub pull maria/pets pets" in native
    assert "from transformers" not in native
    assert 'pipeline("image-classification", model="maria/pets")' in model_card(subject(), "transformers", "maria/pets")
