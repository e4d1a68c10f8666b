"""`patchwords.load` and `save`: a model comes back as it was, ready to use and to train."""

import copy
import logging
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import patchwords
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.head import Linear
from patchwords.layers.position import SinCos2D, Sinusoidal1D
from patchwords.models.build import build
from patchwords.models.names import Config, read
from patchwords.models.sizes import SIZES
from patchwords.models.swin import SIZES as SWINS
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.zoo import ENTRIES, ZOO

Randomised = Callable[[nn.Module], nn.Module]


def picture(config: Config) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(2, config.channels, *config.image, generator=generator)


def test_a_model_comes_back_as_it_was_saved(small_config: Config, randomised: Randomised, tmp_path: Path) -> None:
    model = randomised(build(small_config)).eval()
    patchwords.save(model, tmp_path / "f.safetensors")
    again = patchwords.load(tmp_path / "f.safetensors").eval()
    assert again.config == small_config
    wanted = model.state_dict()
    assert again.state_dict().keys() == wanted.keys()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in again.state_dict().items())
    assert torch.equal(again(picture(small_config)), model(picture(small_config)))


def test_a_loaded_model_is_whole_and_can_be_trained(
    small_config: Config, randomised: Randomised, tmp_path: Path
) -> None:
    patchwords.save(randomised(build(small_config)), tmp_path / "f.safetensors")
    model = patchwords.load(tmp_path / "f.safetensors")
    assert not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))
    built = {name: parameter.requires_grad for name, parameter in small_config.build().named_parameters()}
    assert {name: parameter.requires_grad for name, parameter in model.named_parameters()} == built
    assert all(parameter.is_contiguous() for parameter in model.parameters())
    assert model.training
    model(picture(small_config)).square().mean().backward()
    assert {name: parameter.grad is not None for name, parameter in model.named_parameters()} == built


@pytest.mark.parametrize("position", [SinCos2D(), SinCos2D(law="mae", at="every"), Sinusoidal1D(at="shared")], ids=str)
@pytest.mark.parametrize("image", [16, 24])
def test_fixed_tables_are_real_after_loading(
    position: SinCos2D | Sinusoidal1D, image: int, tiny: ViTConfig, native: Callable[..., Path]
) -> None:
    config = replace(tiny, position=position)
    loaded = dict(patchwords.load(native(config), image=image).named_buffers())
    built = dict(replace(config, image=(image, image)).build().named_buffers())
    assert loaded.keys() == built.keys() != set()
    assert all(torch.equal(loaded[name], built[name]) for name in built)


def test_loading_draws_no_random_numbers(tiny: ViTConfig, native: Callable[..., Path]) -> None:
    path = native(tiny)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    patchwords.load(path, classes=3, image=32)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_parameters_are_the_files_even_where_random_ones_would_be_drawn(
    tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    opened = checkpoint(tiny)
    for format, name in (("official", "f.npz"), ("timm", "f.pth"), ("huggingface", "folder")):
        convert(opened, tmp_path / name, format)
        model = patchwords.load(tmp_path / name, heads=3)
        assert all(torch.equal(tensor, opened.state[key]) for key, tensor in model.state_dict().items())


@pytest.mark.parametrize("name", ["f.npz", "f.pth", "f.safetensors"])
def test_a_model_does_not_lean_on_the_file_it_came_from(
    name: str, tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    path = tmp_path / name
    convert(checkpoint(tiny), path, "official" if name == "f.npz" else "timm")
    model = patchwords.load(path, heads=3).eval()
    before = model(picture(tiny))
    with path.open("r+b") as file:  # the same file, overwritten in place
        file.write(b"\xff" * path.stat().st_size)
    assert torch.equal(model(picture(tiny)), before)
    path.unlink()
    assert torch.equal(model(picture(tiny)), before)


@pytest.mark.parametrize("name", ["f.npz", "f.pth", "f.safetensors"])
def test_changing_a_model_leaves_its_file_alone(
    name: str, tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    path = tmp_path / name
    convert(checkpoint(tiny), path, "official" if name == "f.npz" else "timm")
    before = path.read_bytes()
    model = patchwords.load(path, heads=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert path.read_bytes() == before


def test_weights_from_any_format_are_laid_out_alike_in_memory(
    tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    config = replace(tiny, activation="gelu")
    x, logits = picture(config), []
    for format, name in (("native", "n.safetensors"), ("official", "f.npz"), ("timm", "f.safetensors")):
        convert(checkpoint(config), tmp_path / name, format)
        model = config.build()
        model.load_state_dict(patchwords.load(tmp_path / name, heads=3).state_dict(), assign=True)
        logits.append(model.eval()(x))
    assert torch.equal(logits[0], logits[1])  # to the bit: rounding follows the layout
    assert torch.equal(logits[0], logits[2])


def test_a_loaded_model_can_be_copied_and_sent_to_another_process(tiny: ViTConfig, native: Callable[..., Path]) -> None:
    model = patchwords.load(native(tiny)).eval()
    x = picture(tiny)
    assert torch.equal(copy.deepcopy(model)(x), model(x))
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), model(x))


CARD = {
    "classes": tuple("abcdefg"),
    "source": "a meadow",
    "licence": "Apache-2.0",
    "preprocess": Preprocess(size=(16, 16), fit="crop", crop=0.9),
}


def test_save_keeps_the_card_it_is_given(tiny: ViTConfig, tmp_path: Path) -> None:
    card = Card(model=tiny, **CARD)  # type: ignore[arg-type]
    patchwords.save(tiny.build(), tmp_path / "f.safetensors", card)
    assert open_checkpoint(tmp_path / "f.safetensors").card == card


def test_a_loaded_model_is_saved_with_the_card_it_was_loaded_with(
    tiny: ViTConfig, native: Callable[..., Path], tmp_path: Path
) -> None:
    patchwords.save(patchwords.load(native(tiny, **CARD)), tmp_path / "again.safetensors")
    assert open_checkpoint(tmp_path / "again.safetensors").card == Card(model=tiny, **CARD)  # type: ignore[arg-type]


def test_the_card_follows_what_load_was_asked_for(tiny: ViTConfig, native: Callable[..., Path], tmp_path: Path) -> None:
    model = patchwords.load(native(tiny, **CARD), classes=["x", "y"], image=(32, 24), channels=1)
    patchwords.save(model, tmp_path / "again.safetensors")
    card = open_checkpoint(tmp_path / "again.safetensors").card
    assert card.model == replace(tiny, classes=2, image=(32, 24), channels=1, head=Linear())
    assert (card.classes, card.preprocess.size, card.preprocess.mean) == (("x", "y"), (32, 24), (0.5,))
    assert (card.preprocess.fit, card.source, card.licence) == ("crop", "a meadow", "Apache-2.0")


def test_names_are_forgotten_with_the_classes_they_named(
    tiny: ViTConfig, native: Callable[..., Path], tmp_path: Path
) -> None:
    patchwords.save(patchwords.load(native(tiny, **CARD), classes=3), tmp_path / "again.safetensors")
    assert open_checkpoint(tmp_path / "again.safetensors").card.classes == ()


def test_a_card_of_other_classes_is_refused(tiny: ViTConfig, tmp_path: Path) -> None:
    card = Card(model=tiny, **CARD)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="7 class names were given, the model has 3"):
        patchwords.save(replace(tiny, classes=3).build(), tmp_path / "f.safetensors", card)
    assert not (tmp_path / "f.safetensors").exists()


@pytest.mark.parametrize("name", ["f", "f.pth", "f.npz"])
def test_a_native_file_ends_in_safetensors(name: str, tiny: ViTConfig, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.safetensors"):
        patchwords.save(tiny.build(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_the_models_are_not_written(tiny: ViTConfig, tmp_path: Path) -> None:
    model = tiny.build()
    model.encoder.norm = nn.LayerNorm(47)
    with pytest.raises(ModelError, match=r"encoder\.norm\.weight is 47"):
        patchwords.save(model, tmp_path / "f.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_another_precision_is_saved_as_it_is_and_loaded_as_single(
    dtype: torch.dtype, tiny: ViTConfig, tmp_path: Path
) -> None:
    model = tiny.build().to(dtype)
    patchwords.save(model, tmp_path / "f.safetensors")
    assert {x.dtype for x in open_checkpoint(tmp_path / "f.safetensors").state.values()} == {dtype}
    loaded = patchwords.load(tmp_path / "f.safetensors")
    assert {x.dtype for x in loaded.parameters()} == {torch.float32}
    assert torch.equal(loaded.embed.patch.weight, model.embed.patch.weight.float())


def test_a_native_file_needs_no_assumption(
    tiny: ViTConfig, native: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="patchwords")
    assert patchwords.load(native(replace(tiny, image=(16, 28), heads=4))).config.heads == 4
    assert caplog.records == []


@pytest.mark.parametrize("numbers", [{"channels": 0}, {"image": 0}, {"image": (16, 0)}, {"patch": 0}, {"classes": -1}])
def test_absurd_numbers_are_refused(numbers: dict[str, object], tiny: ViTConfig, native: Callable[..., Path]) -> None:
    with pytest.raises(UsageError):
        patchwords.load(native(tiny), **numbers)  # type: ignore[arg-type]


def test_a_name_that_is_neither_file_nor_published_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        patchwords.load(tmp_path / "nothing.npz")


def test_a_published_name_is_fetched_and_its_card_says_whence(
    tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(checkpoint(tiny), tmp_path / "f.npz", "official")
    entry = replace(ENTRIES[0], name="tiny-published", model="ViT-Mu/4@16")
    monkeypatch.setitem(ZOO, entry.name, entry)
    asked: list[str] = []

    def fetch(name: str) -> Path:
        asked.append(name)
        return tmp_path / "f.npz"

    with pytest.raises(ModelError, match="is not ViT-Mu/4@16"):  # a mirror that serves something else
        open_checkpoint(entry.name, fetch=fetch)
    published = SIZES["Mu"]._replace(depth=tiny.depth, width=tiny.width, mlp=tiny.mlp, heads=tiny.heads)
    monkeypatch.setitem(SIZES, "Mu", published)
    found = open_checkpoint(entry.name, fetch=fetch)
    assert asked == [entry.name] * 2
    assert (found.card.source, found.card.licence) == (entry.address, entry.licence)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"positions": "bicubik"}, "did you mean bicubic"),
        ({"positions": "anew"}, "positions 'anew' is no convention"),
        ({"classes": "abc"}, "no list of different names"),
        ({"classes": ["a", "a"]}, "no list of different names"),
        ({"patch": "8"}, "patch: '8' is not a whole number"),
        ({"image": 17}, "not a multiple of patch"),
    ],
)
def test_a_wrong_wish_is_answered_with_a_sentence(
    options: dict[str, object], sentence: str, tiny: ViTConfig, tmp_path: Path
) -> None:
    patchwords.save(build(tiny), tmp_path / "f.safetensors")
    with pytest.raises(UsageError, match=sentence):
        patchwords.load(tmp_path / "f.safetensors", **options)


def test_a_model_loaded_without_gradients_can_still_be_trained(tiny: ViTConfig, tmp_path: Path) -> None:
    patchwords.save(build(tiny), tmp_path / "f.safetensors")
    with torch.inference_mode():
        model = patchwords.load(tmp_path / "f.safetensors")
    model(torch.zeros(1, tiny.channels, *tiny.image)).sum().backward()


def test_only_a_model_can_be_saved(tiny: ViTConfig, tmp_path: Path) -> None:
    for other in (nn.Linear(2, 2), nn.Sequential(build(tiny))):
        with pytest.raises(UsageError, match="save the one that was compiled or wrapped"):
            patchwords.save(other, tmp_path / "f.safetensors")


def test_the_name_of_a_model_has_no_weights_to_load() -> None:
    with pytest.raises(UsageError, match="build it"):
        patchwords.load("ViT-B/16")
    with pytest.raises(UsageError, match="did you mean deit-s16"):
        patchwords.load("deit-s17")


def test_a_published_model_is_for_the_pictures_it_was_published_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = replace(ENTRIES[0], name="small-swin", model="Swin-T@64", classes=3)
    monkeypatch.setitem(ZOO, entry.name, entry)
    monkeypatch.setitem(SWINS, "T", SWINS["T"]._replace(width=8, depths=(1, 1), heads=(1, 2)))
    config = replace(read(entry.model), classes=3)
    model = config.build()
    convert(Checkpoint(Card(model=config), dict(model.state_dict()), "native"), tmp_path / "a.pth", "torchvision")
    found = open_checkpoint(entry.name, fetch=lambda _: tmp_path / "a.pth")
    assert (found.card.model, found.notes) == (config, [])  # and not for the smallest that such windows can have
