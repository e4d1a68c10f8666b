"""The folder beside transformers itself: its pipeline loads it, prepares pictures alike, and gives the same answers."""

import io
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.export import huggingface
from patchwords.export.huggingface import UnsayableError, write
from patchwords.models.build import build
from patchwords.models.deit import distilled
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.swin import SwinConfig
from patchwords.serve.predictor import Predictor
from patchwords.weights.card import Card, fitted
from patchwords.weights.subject import Subject, open_subject

Opening = Callable[..., Subject]

FLOWERS = ("daisy", "dandelion", "rose", "sunflower", "tulip")
SIZE = (40, 40)
FITS = {
    "squash": Preprocess(),
    "crop": replace(IMAGENET, crop=0.9),  # to 44, rounded down
    "crop, bicubic": replace(IMAGENET, interpolation="bicubic"),
    "centre": replace(IMAGENET, fit="centre", interpolation="bicubic"),
}
RESIZED_ALIKE = find_spec("torchvision") is None  # transformers resizes with it where it is there, else with Pillow
# Of a probability, by an untrained model: for the same pixels, and for those a level apart.
SAME, CLOSE = 1e-5, 5e-3 if RESIZED_ALIKE else 1e-2
ONE_LEVEL = {"bilinear": 1, "bicubic": 6}  # of 255; the filters that overshoot round more between their two passes


@pytest.fixture(scope="module")
def hf() -> Iterator[ModuleType]:
    """transformers, with nothing to connect through."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(socket.socket, "connect", refuse)
        import transformers

        transformers.utils.logging.disable_progress_bar()
        yield transformers


@pytest.fixture(scope="module")
def families(small_configs: dict[str, Config]) -> dict[str, Config]:
    plain = replace(small_configs["plain"], image=SIZE)  # type: ignore[call-arg]
    return {
        "vit": plain,
        "deit": replace(plain, activation="gelu", epsilon=1e-6),  # type: ignore[call-arg]
        "distilled deit": distilled(plain),  # type: ignore[arg-type]
        "beit": replace(small_configs["beit"], image=SIZE),  # type: ignore[call-arg]
        "swin": SwinConfig(depths=(2, 2), heads=(1, 2), width=16, mlp=2, window=(5, 5), image=SIZE, classes=5),
        "bit": replace(small_configs["resnet pre"], image=SIZE),  # type: ignore[call-arg]
        "grey": replace(plain, channels=1),  # type: ignore[call-arg]
    }


@pytest.fixture
def subject(families: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Opening:
    def open_(family: str = "vit", preprocess: Preprocess = FITS["squash"], **card: Any) -> Subject:
        config = families[family]
        model = randomised(build(config)).eval()
        fit = fitted(Card(model=config, preprocess=preprocess), config, FLOWERS)
        if config.channels != len(fit.preprocess.mean):
            fit = replace(fit, preprocess=replace(fit.preprocess, mean=(0.4,), deviation=(0.3,)))
        return Subject(family, model, replace(fit, **card))  # type: ignore[arg-type]

    return open_


def soft(seed: int, height: int, width: int) -> Image.Image:
    """Patches of colour that run into each other, under a little noise."""
    draw = np.random.default_rng(seed)
    coarse = Image.fromarray(draw.integers(0, 256, (5, 6, 3), dtype=np.uint8))
    pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.int16)
    return Image.fromarray((pixels + draw.integers(-16, 17, pixels.shape)).clip(0, 255).astype(np.uint8))


def turned() -> dict[str, bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6
    return {"exif": exif.tobytes()}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of every kind that both read alike, and of shapes whose middle both find at the same place."""
    image, folder = soft(0, 160, 160), tmp_path_factory.mktemp("pictures")
    image.save(folder / "square.jpg", quality=92)
    image.save(folder / "square.png")
    image.convert("L").save(folder / "grey.jpg")
    image.convert("L").save(folder / "grey.png")
    image.quantize(32).save(folder / "palette.png")
    image.convert("1").save(folder / "bits.png")
    image.convert("CMYK").save(folder / "cmyk.jpg")
    image.save(folder / "photo.webp")
    soft(1, 100, 170).save(folder / "turned.jpg", **turned())
    soft(2, 100, 200).save(folder / "wide.jpg")
    soft(3, 250, 100).save(folder / "tall.png")
    soft(4, 900, 900).save(folder / "large.jpg")
    soft(5, 17, 17).save(folder / "tiny.png")
    return sorted(folder.iterdir())


def beside(hf: ModuleType, given: Subject, folder: Path, pictures: list[Path]) -> Iterator[tuple[str, float, float]]:
    """Of each picture the largest difference of a pixel, in levels, and of a probability."""
    pipe, predictor = hf.pipeline("image-classification", model=str(folder)), Predictor(given, device="cpu")
    value = given.card.preprocess
    mean, deviation = (np.array(numbers)[:, None, None] for numbers in (value.mean, value.deviation))
    for path in pictures:
        pixels = np.asarray(pipe.image_processor(hf.image_utils.load_image(str(path)))["pixel_values"][0])
        seen, answer = predictor.see(path), predictor.predict(path)
        levels = np.abs(255 * (pixels * deviation + mean) - seen).max()
        theirs = {each["label"]: each["score"] for each in pipe(str(path))}
        assert theirs.keys() == set(FLOWERS)
        yield path.name, float(levels), max(abs(theirs[label] - answer.of(label)) for label in FLOWERS)


def near(found: tuple[str, float, float], allowed: int) -> bool:
    _, levels, share = found
    return levels <= allowed + 1e-3 and share <= (SAME if levels < 0.01 else CLOSE)


@pytest.mark.parametrize("family", ["vit", "deit", "distilled deit", "beit", "swin", "bit"])
@pytest.mark.parametrize("fit", FITS)
def test_a_pipeline_gives_the_answers_of_the_model(
    family: str, fit: str, hf: ModuleType, subject: Opening, pictures: list[Path], tmp_path: Path
) -> None:
    given = subject(family, FITS[fit])
    write(given, tmp_path / "folder")
    allowed = ONE_LEVEL[FITS[fit].interpolation]
    found = list(beside(hf, given, tmp_path / "folder", pictures))
    assert len(found) >= 8
    assert [each for each in found if not near(each, allowed)] == []


def test_a_grey_model_is_widened_to_colour_and_gives_the_same_answers(
    hf: ModuleType, subject: Opening, pictures: list[Path], tmp_path: Path
) -> None:
    given = subject("grey")
    notes = write(given, tmp_path / "folder")
    assert any("widened from grey to colour" in note for note in notes)
    pipe, predictor = hf.pipeline("image-classification", model=str(tmp_path / "folder")), Predictor(given)
    for path in pictures:
        theirs, answer = {each["label"]: each["score"] for each in pipe(str(path))}, predictor.predict(path)
        # Of colours, grey is rounded to 8 bits before it is resized, here alone.
        exact = path.stem in ("grey", "bits") and RESIZED_ALIKE
        assert max(abs(theirs[label] - answer.of(label)) for label in FLOWERS) <= (SAME if exact else CLOSE)


def test_a_model_that_judges_each_class_on_its_own_does_so_there(
    hf: ModuleType, subject: Opening, pictures: list[Path], tmp_path: Path
) -> None:
    given = subject(loss="sigmoid")
    write(given, tmp_path / "folder")
    allowed = 0 if RESIZED_ALIKE else 1
    assert all(near(each, allowed) for each in beside(hf, given, tmp_path / "folder", pictures))
    config = json.loads((tmp_path / "folder" / "config.json").read_text("utf-8"))
    assert config["problem_type"] == "multi_label_classification"
    assert open_subject(tmp_path / "folder").card.loss == "sigmoid"


def test_a_resnet_keeps_its_size(subject: Opening, tmp_path: Path) -> None:
    """transformers' BiT has no place for it of its own, and is read at 224 without."""
    write(subject("bit"), tmp_path / "folder")
    assert open_subject(tmp_path / "folder").card.preprocess.size == SIZE


def test_where_transformers_cuts_the_middle_one_pixel_further(hf: ModuleType, subject: Opening, tmp_path: Path) -> None:
    """docs/hub.md: where 3, 7, 11, … pixels are left over, torchvision and this package round up, it rounds down."""
    given = subject(preprocess=replace(IMAGENET, crop=0.8))  # to 50: 10 pixels left over
    write(given, tmp_path / "folder")
    processor = hf.AutoImageProcessor.from_pretrained(tmp_path / "folder")
    for width, shift in ((51, 1), (52, 0), (53, 0), (54, 0), (55, 1), (56, 0), (57, 0)):
        image = soft(width, 50, width)  # nothing is resized: what is left over is the width less 40
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        theirs = np.asarray(processor(image)["pixel_values"][0])
        theirs = np.rint(
            255 * (theirs * np.array(IMAGENET.deviation)[:, None, None] + np.array(IMAGENET.mean)[:, None, None])
        )
        start = round((width - 40) / 2)
        ours = Predictor(given).see(buffer.getvalue())
        assert np.array_equal(ours, np.asarray(image).transpose(2, 0, 1)[:, 5:45, start : start + 40])
        assert np.array_equal(theirs, np.asarray(image).transpose(2, 0, 1)[:, 5:45, start - shift : start - shift + 40])


def test_our_own_reader_gives_the_same_answers_too(subject: Opening, pictures: list[Path], tmp_path: Path) -> None:
    for family in ("vit", "swin", "bit", "grey"):
        for name, value in FITS.items():
            given = subject(family, value)
            write(given, tmp_path / f"{family} {name}")
            ours, read = Predictor(given), Predictor(tmp_path / f"{family} {name}")
            for path in pictures[:4]:
                one, other = ours.predict(path), read.predict(path)
                assert other.classes == FLOWERS
                assert np.allclose(one.chances, other.chances, atol=CLOSE if family == "grey" else SAME)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("hybrid", "no place for embed.stem.root.conv.weight"),
        ("map", "no place for embed.special.register_token"),
        ("mean", "anything but a class token"),
        ("axial", "no place for encoder.blocks.0.along_cols"),
        ("mlp head", "hidden layer before the classifier"),
        ("resnet post", "has no names for such a model"),
        ("swin odd", "one window high and several wide"),
    ],
)
def test_what_transformers_has_no_model_for_is_refused_and_nothing_is_written(
    config: str, sentence: str, small_configs: dict[str, Config], tmp_path: Path
) -> None:
    model = build(small_configs[config]).eval()
    with pytest.raises(UnsayableError, match=sentence):
        write(Subject(config, model, Card(model=model.config)), tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_pictures_that_a_pipeline_cannot_give_are_refused(small_configs: dict[str, Config], tmp_path: Path) -> None:
    five = replace(small_configs["plain"], channels=5)  # type: ignore[call-arg]
    grey = replace(small_configs["resnet pre"], channels=1)
    assert isinstance(grey, ResNetConfig)
    for config, sentence in ((five, "this model takes 5"), (grey, "standardises its kernels")):
        model = build(config).eval()
        with pytest.raises(UnsayableError, match=sentence):
            write(Subject("odd", model, fitted(Card(model=config), config, ())), tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_an_oblong_middle_is_refused(small_configs: dict[str, Config], tmp_path: Path) -> None:
    """Its processor resizes by the short side, whichever that is; squashed and centred ones are written."""
    config = small_configs["plain"]  # of 32x24
    model = build(config).eval()
    for fit in ("squash", "centre"):
        card = Card(model=config, preprocess=Preprocess(size=(32, 24), fit=fit))  # type: ignore[arg-type]
        write(Subject("oblong", model, card), tmp_path / fit)
    with pytest.raises(UnsayableError, match="cannot cut the middle of 32x24"):
        write(
            Subject("oblong", model, Card(model=config, preprocess=Preprocess(size=(32, 24), fit="crop"))),
            tmp_path / "x",
        )


def test_an_existing_folder_is_refused_and_left_alone(subject: Opening, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        write(subject(), tmp_path / "folder")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["mine.txt"]


def test_a_folder_that_says_something_else_is_never_left(
    subject: Opening, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = huggingface.load.made

    def spoiled(*given: Any) -> nn.Module:
        model = made(*given)
        with torch.no_grad():
            model.get_parameter("head.classifier.weight")[0, 0] += 0.1
        return model

    monkeypatch.setattr(huggingface.load, "made", spoiled)
    with pytest.raises(ModelError, match="does not say what the model says"):
        write(subject(), tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_notes_say_what_is_missing_and_what_differs(subject: Opening, tmp_path: Path) -> None:
    stored = subject(preprocess=replace(FITS["squash"], orientation="stored"))
    assert any("no licence is known" in note for note in write(stored, tmp_path / "a"))
    assert any("turn pictures upright" in note for note in write(stored, tmp_path / "b"))
    assert write(subject(licence="MIT"), tmp_path / "c") == []
    over = [replace(IMAGENET, crop=0.85), IMAGENET, replace(IMAGENET, fit="centre")]  # 7 pixels left over, or 5
    found = [write(subject(preprocess=each, licence="MIT"), tmp_path / f"{i}") for i, each in enumerate(over)]
    assert "every picture one pixel" in found[0][0]
    assert "where its shape leaves 3, 7, 11" in found[1][0]
    assert found[2] == []
