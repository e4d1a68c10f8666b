"""The predictor: the same pictures, numbers and names as evaluation, in whichever way it is asked."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import patchwords
from patchwords.data.broken import Broken, Damage
from patchwords.data.loader import Loading
from patchwords.data.picture import BrokenPictureError
from patchwords.data.sources.arrays import Arrays
from patchwords.data.transforms import normalise
from patchwords.errors import ModelError, UsageError
from patchwords.evaluation.answers import Compute, answers
from patchwords.evaluation.classify import probabilities
from patchwords.inspection.sight import sight
from patchwords.models.build import build, configure
from patchwords.models.names import Config
from patchwords.serve.given import Paths
from patchwords.serve.prediction import Prediction
from patchwords.serve.predictor import Predictor
from patchwords.speed.precision import Working
from patchwords.speed.prepare import ready
from patchwords.weights.card import Card
from patchwords.weights.subject import Subject, open_subject

Opening = Callable[..., Subject]


def pictures(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(number).integers(0, 256, (30, 30, 3), dtype=np.uint8) for number in range(count)]


def probability(answer: Prediction | Damage) -> float:
    assert isinstance(answer, Prediction)
    return answer.probability


def test_it_is_a_name_of_the_package() -> None:
    assert patchwords.Predictor is Predictor


def test_every_kind_of_picture_gives_the_tensor_of_evaluation(
    subject: Opening, files: Path, kinds: dict[str, bytes]
) -> None:
    """Promise 16: through evaluation, and through predict by path, bytes, Pillow and source."""
    opened = subject()
    seen: list[torch.Tensor] = []

    class Watched(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            seen.append(images)
            return opened.model(images)

    source = Paths(sorted(map(str, files.iterdir())))
    broken = Broken(0.0, len(source), print)
    watched, card = Watched(), opened.card
    compute = Compute(batch=5, loading=Loading(workers=0))
    answers(watched, source, card.preprocess, 3, compute, broken, lambda *_: None)
    evaluated = torch.cat(seen)
    predictor = Predictor(opened, device="cpu", batch=64)
    shown = [predictor.see(path) for path in sorted(files.iterdir())]
    assert torch.equal(normalise(torch.from_numpy(np.stack(shown)), card.preprocess), evaluated)
    for number, name in enumerate(sorted(kinds)):
        assert np.array_equal(predictor.see(kinds[name]), shown[number]), name
        assert np.array_equal(predictor.see(Image.open(io.BytesIO(kinds[name]))), shown[number]), name
    kept = [each.pixels.transpose(2, 0, 1) for each in predictor.predict_source(source, pixels=True)]  # type: ignore[union-attr]
    assert np.array_equal(np.stack(kept), np.stack(shown))


def test_the_same_logits_as_evaluation(subject: Opening, files: Path) -> None:
    opened = subject()
    source = Paths(sorted(map(str, files.iterdir())))
    compute = Compute(batch=64, loading=Loading(workers=0))
    broken = Broken(0.0, len(source), print)
    prepared = ready(opened.model, device=torch.device("cpu"), precision="float32")
    plain, exact = (
        answers(model, source, opened.card.preprocess, 3, compute, broken, lambda *_: None).outputs
        for model in (opened.model, prepared)
    )
    predicted = list(Predictor(opened, device="cpu").predict_source(source))
    logits, chances = (np.stack([getattr(each, name) for each in predicted]) for name in ("logits", "chances"))
    assert np.array_equal(logits, exact)
    assert np.array_equal(chances, probabilities(exact))
    assert np.allclose(logits, plain, atol=1e-5)  # packed layers add in another order
    assert np.allclose(chances, probabilities(plain), atol=1e-6)


def test_one_many_and_a_source_agree(predictor: Predictor, files: Path) -> None:
    paths = sorted(map(str, files.iterdir()))
    one = [predictor.predict(path).probability for path in paths]
    many = [probability(each) for each in predictor.predict_many(paths)]
    whole = [probability(each) for each in predictor.predict_source(Paths(paths))]
    assert np.allclose(one, many, atol=1e-6)
    assert np.allclose(one, whole, atol=1e-6)


def test_other_processes_give_the_same(predictor: Predictor, files: Path) -> None:
    source = Paths(sorted(map(str, files.iterdir())) * 3)
    alone, helped = (
        [probability(each) for each in predictor.predict_source(source, loading=Loading(workers=number))]
        for number in (0, 2)
    )
    assert alone == helped


def test_answers_are_in_order_and_broken_pictures_in_their_place(predictor: Predictor, files: Path) -> None:
    good = str(files / "rgb.png")
    given = [good, b"", good, str(files), "nowhere.png", b"no picture", good, good, b"\x89PNG\r\n\x1a\n"]
    for found in (list(predictor.predict_many(given)), list(predictor.predict_many(iter(given)))):
        assert [isinstance(each, Damage) for each in found] == [0, 1, 0, 1, 1, 1, 0, 0, 1]
        reasons = {each.name: each.reason for each in found if isinstance(each, Damage)}
        assert reasons["picture 1"] == "the file is empty"
        assert reasons[str(files)] == "it is a folder"
        assert "No such file" in reasons["nowhere.png"]


def test_a_source_with_broken_pictures_is_in_order_too(predictor: Predictor, files: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    wrong = [str(tmp_path / "text.png"), str(tmp_path / "missing.png")]
    paths = [wrong[0], *sorted(map(str, files.iterdir())), wrong[1], str(files / "rgb.png"), wrong[0]]
    for workers in (0, 2):
        found = list(predictor.predict_source(Paths(paths), loading=Loading(workers=workers)))
        assert [each.name for each in found] == paths
        assert [each.name for each in found if isinstance(each, Damage)] == [wrong[0], wrong[1], wrong[0]]


def test_a_source_that_begins_with_many_broken_pictures_goes_on(predictor: Predictor, files: Path) -> None:
    paths = ["missing.png"] * 9 + [str(files / "rgb.png")]
    found = list(predictor.predict_source(Paths(paths)))
    assert [isinstance(each, Damage) for each in found] == [True] * 9 + [False]


def test_nothing_but_broken_pictures_is_no_error(predictor: Predictor) -> None:
    assert all(isinstance(each, Damage) for each in predictor.predict_many([b"a"] * 9))
    assert list(predictor.predict_many([])) == []
    assert list(predictor.predict_source(Paths([]))) == []


def test_one_broken_picture_is_a_sentence_with_its_name(predictor: Predictor, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"xyz")
    with pytest.raises(BrokenPictureError, match=r"bad\.png cannot be used: it is none of JPEG"):
        predictor.predict(tmp_path / "bad.png")
    (tmp_path / "bad.heic").write_bytes(b"xyz")
    with pytest.raises(BrokenPictureError, match=r"bad\.heic cannot be used: such files are not read: convert them"):
        predictor.predict(tmp_path / "bad.heic")
    with pytest.raises(BrokenPictureError, match=r"upload cannot be used: the file is empty"):
        predictor.predict(b"", name="upload")
    with pytest.raises(BrokenPictureError, match="float64"):
        predictor.predict(np.zeros((4, 4, 3)))
    with pytest.raises(BrokenPictureError, match="picture cannot be used: pictures of 4 channels do not fit"):
        predictor.predict(np.zeros((4, 4, 4), dtype=np.uint8))


def test_a_single_picture_given_as_many_is_refused(predictor: Predictor) -> None:
    for wrong in ("a.png", b"...", Path("a.png"), Image.new("L", (8, 8)), pictures(1)[0]):
        with pytest.raises(UsageError, match="takes a list"):
            list(predictor.predict_many(wrong))  # type: ignore[arg-type]


def test_many_pictures_are_taken_a_batch_at_a_time(predictor: Predictor) -> None:
    taken = []

    def endless():
        for number in range(1_000_000_000):
            taken.append(number)
            yield pictures(1)[0]

    answers = predictor.predict_many(endless())
    assert isinstance(next(answers), Prediction)
    assert len(taken) == 4


@pytest.mark.parametrize("batch", [1, 7, 16, 20, 35, 50])
def test_the_model_is_never_asked_for_more_than_a_batch(subject: Opening, batch: int, monkeypatch) -> None:
    predictor = Predictor(subject(), device="cpu", batch=batch)
    asked: list[int] = []
    plain = predictor.answer
    monkeypatch.setattr(predictor, "answer", lambda names, *a, **k: asked.append(len(names)) or plain(names, *a, **k))
    source = Arrays(np.stack(pictures(100)), np.zeros(100, dtype=np.int64), "val")
    assert len(list(predictor.predict_source(source))) == 100
    assert max(asked) <= batch
    assert len(asked) <= 100 // batch + 2  # and seldom for less


def test_an_answer_holds_no_more_than_its_own(predictor: Predictor) -> None:
    for each in predictor.predict_many(pictures(3), pixels=True):
        assert each.logits.base is None  # type: ignore[union-attr]
        assert each.pixels.base is None  # type: ignore[union-attr]


def test_pixels_are_kept_only_when_asked_for(predictor: Predictor) -> None:
    (plain,) = predictor.predict_many(pictures(1))
    (kept,) = predictor.predict_many(pictures(1), pixels=True)
    assert plain.pixels is None  # type: ignore[union-attr]
    (shown,) = predictor.predict_many(pictures(1), attention=True)
    assert kept.pixels.shape == shown.pixels.shape == (32, 24, 3)  # type: ignore[union-attr]
    assert predictor.predict(pictures(1)[0]).pixels is not None


@pytest.mark.parametrize("config", ["plain", "hybrid", "resnet pre", "grey"])
def test_attention_is_the_sight_of_the_model(subject: Opening, config: str) -> None:
    opened = subject(config)
    predictor = Predictor(opened, device="cpu")
    assert predictor.predict(pictures(1)[0]).attention is None
    found = predictor.predict(pictures(1)[0], attention=True)
    images = normalise(torch.from_numpy(predictor.see(pictures(1)[0])[None]), opened.card.preprocess)
    expected = sight(opened.model, images)
    assert found.attention is not None
    assert np.array_equal(found.attention, expected.maps[0])
    assert found.kind == expected.kind


def test_attention_is_made_in_full_precision(subject: Opening) -> None:
    opened, picture = subject(), pictures(1)[0]
    full, half = (Predictor(opened, device="cpu", precision=kind) for kind in ("float32", "bf16"))  # type: ignore[arg-type]
    maps = [each.predict(picture, attention=True).attention for each in (full, half)]
    assert np.array_equal(*maps)  # type: ignore[arg-type]


def test_a_model_that_shows_nothing_says_so(subject: Opening) -> None:
    predictor = Predictor(subject("axial relative"), device="cpu")
    assert predictor.predict(pictures(1)[0]).label
    with pytest.raises(UsageError, match="cannot show where it looks"):
        predictor.predict(pictures(1)[0], attention=True)


def test_a_grey_model_takes_coloured_pictures_and_files(subject: Opening, kinds: dict[str, bytes]) -> None:
    predictor = Predictor(subject("grey"), device="cpu")
    found = predictor.predict(kinds["rgb.png"])
    assert found.pixels is not None
    assert found.pixels.shape == (16, 16, 1)


def test_sigmoids_stay_sigmoids(subject: Opening) -> None:
    predictor = Predictor(subject(loss="sigmoid"), device="cpu")
    found = predictor.predict(pictures(1)[0])
    assert np.allclose(found.chances, 1 / (1 + np.exp(-found.logits.astype(np.float64))))


def test_classes_without_names_are_numbered(subject: Opening) -> None:
    predictor = Predictor(subject(classes=()), device="cpu")
    assert set(predictor.predict(pictures(1)[0]).labels) == {f"class {number}" for number in range(5)}


@pytest.mark.parametrize("name", ["ViT-B/16", "R50x1", "ViT-H/14"])
def test_a_mere_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is the name of a model without weights"):
        Predictor(name)


def test_a_folder_that_is_called_like_a_model_is_that_folder(subject: Opening, tmp_path: Path, monkeypatch) -> None:
    opened = subject()
    patchwords.save(opened.model, tmp_path / "R50x1" / "model.safetensors", opened.card)
    monkeypatch.chdir(tmp_path)
    assert Predictor("R50x1", device="cpu").classes == opened.card.classes


def test_a_model_that_was_training_answers_as_one_that_is_done(subject: Opening) -> None:
    opened = subject("regularised")
    expected = Predictor(opened, device="cpu").predict(pictures(1)[0])
    opened.model.train()
    found = Predictor(opened, device="cpu").predict(pictures(1)[0])
    assert np.array_equal(found.logits, expected.logits)


def test_random_weights_that_were_opened_are_refused_too() -> None:
    with pytest.raises(UsageError, match="would mean nothing"):
        Predictor(open_subject("ViT-Ti/16", image=(32, 32)))


def test_a_model_without_classes_is_refused(small_configs: dict[str, Config]) -> None:
    config = small_configs["no classes"]
    with pytest.raises(ModelError, match=r"has no classes to predict.*train DATA --weights MODEL"):
        Predictor(Subject("mae", build(config), Card(model=config)))


def test_a_tokenizer_is_refused_with_what_its_words_are_for() -> None:
    config = configure("Tokenizer-8/2", image=8, channels=1)
    with pytest.raises(ModelError, match=r"words has no classes to predict.*set objective.tokenizer=MODEL"):
        Predictor(Subject("words", build(config), Card(model=config)))


def test_wrong_settings_are_refused(subject: Opening, tmp_path: Path) -> None:
    for message, settings in {
        "batch 0": {"batch": 0},
        "precision: 'bf61' is not one of float32, bf16, fp16, fp8, int8; did you mean bf16": {"precision": "bf61"},
        "fp16 needs a GPU": {"precision": "fp16"},
        "device 'gpu' cannot be used": {"device": "gpu"},
        "give them to open_subject": {"image": 64},
    }.items():
        with pytest.raises(UsageError, match=message):
            Predictor(subject(), **({"device": "cpu"} | settings))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not exist"):
        Predictor(tmp_path / "nothing.safetensors")


def test_a_file_is_opened_at_another_size(subject: Opening, tmp_path: Path) -> None:
    opened = subject()
    patchwords.save(opened.model, tmp_path / "model.safetensors", opened.card)
    predictor = Predictor(tmp_path / "model.safetensors", image=64, device="cpu")
    assert predictor.see(pictures(1)[0]).shape == (3, 64, 64)
    assert repr(predictor) == "Predictor('model', 5 classes, 64x64, cpu)"
    assert predictor.predict(pictures(1)[0]).label in opened.card.classes


def test_weights_that_are_spoiled_are_an_error(subject: Opening) -> None:
    opened = subject()
    with torch.no_grad():
        opened.model.head.classifier.bias[2] = torch.nan
    with pytest.raises(ModelError, match=r"no finite numbers for picture 0"):
        list(Predictor(opened, device="cpu").predict_many(pictures(2)))


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_less_precision_is_near(subject: Opening, precision: Working) -> None:
    opened, picture = subject(), pictures(1)[0]
    full, less = (Predictor(opened, device="cpu", precision=kind).predict(picture) for kind in ("float32", precision))
    assert full.probability == pytest.approx(less.probability, abs=0.05)
    assert not np.array_equal(full.logits, less.logits)


def test_the_model_is_made_ready_once_and_stays_as_it_is(subject: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, asked = subject(), []
    before = {key: value.clone() for key, value in opened.model.state_dict().items()}

    def watched(model: nn.Module, **settings: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        asked.append(settings)
        return ready(model, **settings | {"compiled": False})

    monkeypatch.setattr("patchwords.serve.predictor.ready", watched)
    predictor = Predictor(opened, device="cpu", precision="bf16", compiled=True)
    assert asked == [{"device": torch.device("cpu"), "precision": "bf16", "compiled": True}]
    list(predictor.predict_many(pictures(3)))
    predictor.predict(pictures(1)[0], attention=True)
    assert len(asked) == 1
    assert all(torch.equal(value, before[key]) for key, value in opened.model.state_dict().items())


def test_threads_may_share_it(predictor: Predictor, files: Path) -> None:
    paths = sorted(map(str, files.iterdir()))
    expected = [predictor.predict(path, attention=True).probability for path in paths]
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        found[number] = [predictor.predict(path, attention=True).probability for path in paths]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(4))


def test_it_prints_nothing(predictor: Predictor, capfd: pytest.CaptureFixture[str]) -> None:
    list(predictor.predict_many([b"", *pictures(3)]))
    assert capfd.readouterr() == ("", "")


def test_arrays_of_a_source_can_be_predicted(predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in memory already: no other process is asked."""
    monkeypatch.setattr("patchwords.data.workers.Crew", None)
    stack = np.stack(pictures(7))
    found = list(predictor.predict_source(Arrays(stack, np.zeros(7, dtype=np.int64), "val")))
    assert [each.name for each in found] == [f"val/{number}" for number in range(7)]


def test_the_card_decides_how_pictures_are_prepared(subject: Opening) -> None:
    opened = subject()
    cropped = replace(
        opened, card=replace(opened.card, preprocess=replace(opened.card.preprocess, fit="crop", crop=0.5))
    )
    picture = pictures(1)[0]
    assert not np.array_equal(Predictor(opened).see(picture), Predictor(cropped).see(picture))


def test_what_the_camera_noted_is_heeded_as_the_card_says(subject: Opening, kinds: dict[str, bytes]) -> None:
    opened = subject()
    stored = replace(opened.card, preprocess=replace(opened.card.preprocess, orientation="stored"))
    predictors = [Predictor(replace(opened, card=card), device="cpu") for card in (opened.card, stored)]
    for name in ("turned.jpg", "turned.png"):
        seen = [each.see(kinds[name]) for each in predictors]
        again = [each.see(Image.open(io.BytesIO(kinds[name]))) for each in predictors]
        assert not np.array_equal(*seen)
        assert np.array_equal(seen, again)
