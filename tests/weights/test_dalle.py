"""DALL-E's encoder: a whole pickled module and plain state dicts, read without running anything, and written."""

import collections
import pickle
import sys
import types
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import FlavaImageCodebook, FlavaImageCodebookConfig

import patchwords as pw
from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import standardise
from patchwords.errors import ModelError, UsageError
from patchwords.models.tokenizer import Tokenizer, TokenizerConfig
from patchwords.weights import modules
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.convert import convert

SMALL = TokenizerConfig(vocabulary=24, groups=4, blocks=2, width=8, image=(32, 32))
Randomised = Callable[[nn.Module], nn.Module]


class Conv2d(nn.Module):
    """As dall_e.utils has it: parameters `w` and `b`."""

    def __init__(self, inputs: int, outputs: int, kernel: int):
        super().__init__()
        self.n_in, self.n_out, self.kw, self.use_float16, self.device = (
            inputs,
            outputs,
            kernel,
            True,
            torch.device("cpu"),
        )
        self.w = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel) / (inputs * kernel**2) ** 0.5)
        self.b = nn.Parameter(torch.randn(outputs))
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.w, self.b, padding=(self.kw - 1) // 2)


class EncoderBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, layers: int):
        super().__init__()
        hidden, self.post_gain = outputs // 4, 1 / layers**2
        self.id_path = Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()
        sizes = [(inputs, hidden, 3), (hidden, hidden, 3), (hidden, hidden, 3), (hidden, outputs, 1)]
        steps: list[tuple[str, nn.Module]] = []
        for number, size in enumerate(sizes, 1):
            steps += [(f"relu_{number}", nn.ReLU()), (f"conv_{number}", Conv2d(*size))]
        self.res_path = nn.Sequential(collections.OrderedDict(steps))

    def forward(self, x: Tensor) -> Tensor:
        return self.id_path(x) + self.post_gain * self.res_path(x)


class Encoder(nn.Module):
    def __init__(self, config: TokenizerConfig = SMALL):
        super().__init__()
        layers, widths = config.groups * config.blocks, (config.width, *config.widths)
        self.n_hid, self.vocab_size, self.device = config.width, config.vocabulary, torch.device("cpu")
        steps: list[tuple[str, nn.Module]] = [("input", Conv2d(config.channels, config.width, 7))]
        for group in range(config.groups):
            inner: list[tuple[str, nn.Module]] = [
                (f"block_{b + 1}", EncoderBlock(widths[group + (b > 0)], widths[group + 1], layers))
                for b in range(config.blocks)
            ]
            pool = [("pool", nn.MaxPool2d(kernel_size=2))] if group + 1 < config.groups else []
            steps.append((f"group_{group + 1}", nn.Sequential(collections.OrderedDict([*inner, *pool]))))
        output = [("relu", nn.ReLU()), ("conv", Conv2d(widths[-1], config.vocabulary, 1))]
        steps.append(("output", nn.Sequential(collections.OrderedDict(output))))
        self.blocks = nn.Sequential(collections.OrderedDict(steps))

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    """A tiny one, whose classes are found where the published file has them."""
    rooms = {"dall_e.encoder": (Encoder, EncoderBlock), "dall_e.utils": (Conv2d,)}
    monkeypatch.setitem(sys.modules, "dall_e", types.ModuleType("dall_e"))
    for room, classes in rooms.items():
        module = types.ModuleType(room)
        monkeypatch.setitem(sys.modules, room, module)
        for each in classes:
            monkeypatch.setattr(each, "__module__", room)
            monkeypatch.setattr(module, each.__name__, each, raising=False)
    return Encoder()


@pytest.fixture(params=["zip", "legacy"])
def pickled(encoder: Encoder, tmp_path: Path, request: pytest.FixtureRequest, recwarn: object) -> Path:
    """The whole module in a file, as torch writes it now and as it did before 1.6 (with the source of each class)."""
    path = tmp_path / "encoder.pkl"
    torch.save(encoder, path, _use_new_zipfile_serialization=request.param == "zip")
    assert zipfile.is_zipfile(path) == (request.param == "zip")
    return path


def test_a_pickled_encoder_is_read_and_computes_the_same(encoder: Encoder, pickled: Path) -> None:
    model = pw.load(pickled)
    assert isinstance(model, Tokenizer)
    assert model.config == replace(SMALL, image=(256, 256))
    images = torch.rand(2, 3, 32, 48)
    torch.testing.assert_close(model.logits(images), encoder(images))
    assert torch.equal(model.tokens(images), encoder(images).argmax(1))


def test_the_shapes_of_a_pickled_encoder_are_read_without_its_numbers(pickled: Path) -> None:
    checkpoint = open_checkpoint(pickled, depth="shapes")
    assert checkpoint.format == "dalle"
    assert {tensor.device.type for tensor in checkpoint.state.values()} == {"meta"}


def test_nothing_of_the_file_is_imported(encoder: Encoder, pickled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("dall_e", "dall_e.encoder", "dall_e.utils"):
        monkeypatch.delitem(sys.modules, room)
    assert "blocks.group_4.block_2.res_path.conv_4.w" in modules.read(pickled, "cpu", mapped=False)
    assert "dall_e" not in sys.modules


def test_pixels_are_mapped_by_the_card_as_dall_e_maps_them(pickled: Path) -> None:
    card = open_checkpoint(pickled).card
    pixels = torch.rand(1, 3, 8, 8)
    torch.testing.assert_close(standardise(pixels, card.preprocess), (1 - 2 * 0.1) * pixels + 0.1)
    assert card.preprocess.size == card.model.image


@pytest.mark.parametrize("ending", [".safetensors", ".pth", ".pt"])
def test_a_state_dict_there_and_back_bit_for_bit(
    encoder: Encoder, tmp_path: Path, ending: str, randomised: Randomised
) -> None:
    model = randomised(SMALL.build())
    pw.save(model, tmp_path / "ours.safetensors")
    there = tmp_path / f"theirs{ending}"
    convert(open_checkpoint(tmp_path / "ours.safetensors"), there, "dalle")
    theirs = load_file(there) if ending == ".safetensors" else torch.load(there, weights_only=True)
    encoder.load_state_dict(theirs)  # strict: these are its names, all of them
    images = torch.rand(1, 3, 16, 16)
    torch.testing.assert_close(encoder(images), model.logits(images))
    back = open_checkpoint(there, image=(32, 32))
    assert back.card.model == SMALL
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in back.state.items())


def test_converting_says_what_the_file_cannot(tmp_path: Path) -> None:
    card = Card(model=SMALL, preprocess=Preprocess(size=(32, 32)), licence="MIT")
    pw.save(SMALL.build(), tmp_path / "ours.safetensors", card)
    notes = convert(open_checkpoint(tmp_path / "ours.safetensors"), tmp_path / "theirs.pth", "dalle")
    assert notes == ["the dalle format has no place for how pictures are prepared, the licence"]
    with pytest.raises(UsageError, match=r"a dalle checkpoint ends in \.safetensors, \.pth, \.pt"):
        convert(open_checkpoint(tmp_path / "ours.safetensors"), tmp_path / "theirs.pkl", "dalle")
    with pytest.raises(ModelError, match=r"the timm format has no names for such a model \(tokenizer\)"):
        convert(open_checkpoint(tmp_path / "ours.safetensors"), tmp_path / "theirs.pth", "timm")


def test_flavas_codebook_is_the_same_model_in_torchs_names(tmp_path: Path) -> None:
    """transformers' own code of DALL-E's encoder: an oracle that nobody here wrote."""
    config = FlavaImageCodebookConfig(hidden_size=8, vocab_size=24, num_blocks_per_group=2)
    theirs = FlavaImageCodebook(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.2)
    theirs.save_pretrained(tmp_path / "flava")
    model = pw.load(tmp_path / "flava", trained_at=32)
    assert isinstance(model, Tokenizer)
    images = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(model.logits(images), theirs(images), atol=2e-5, rtol=1e-5)
    assert torch.equal(model.tokens(images), theirs.get_codebook_indices(images))
    assert open_checkpoint(tmp_path / "flava").card.preprocess.mean == (-0.125, -0.125, -0.125)


class Shout:
    """Runs code when an ordinary unpickler meets it."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("executed",)


class Marked:
    """Runs code through a state of its own."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("import sys; sys.modules['executed'] = None",)


def knot(encoder: Encoder) -> object:
    encoder.blocks._modules["again"] = encoder
    return encoder


def laughs(encoder: Encoder) -> object:
    """Each level holds the next one twice: the names would be 2^60."""
    inner: nn.Module = nn.ReLU()
    for _ in range(60):
        inner = nn.Sequential(inner, inner)
    return inner


def shouting(encoder: Encoder) -> object:
    vars(encoder)["extra"] = Shout()
    return encoder


HOSTILE: dict[str, Callable[[Encoder], object]] = {
    "code": lambda _: Shout(),
    "code in a list": lambda _: [Marked()],
    "code within the module": shouting,
    "another module": lambda _: nn.Linear(2, 2),
    "a module within itself": knot,
    "a module many times": laughs,
    "a bare tensor": lambda _: torch.zeros(2),
    "a function": lambda _: print,
    "a list": lambda _: [1, 2, 3],
    "a class": lambda _: Encoder,
}


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_pickles_are_refused_and_run_nothing(
    encoder: Encoder, tmp_path: Path, kind: str, legacy: bool, capsys: pytest.CaptureFixture[str], recwarn: object
) -> None:
    path = tmp_path / "encoder.pkl"
    torch.save(HOSTILE[kind](encoder), path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(ModelError, match=r"encoder\.pkl cannot be read"):
        pw.load(path)
    assert capsys.readouterr().out == ""
    assert "executed" not in sys.modules


@pytest.mark.parametrize("data", [b"", b"not a pickle", pickle.dumps(Shout()), pickle.dumps({"a": 1}), b"PK\x03\x04"])
def test_what_is_no_file_of_torch_is_refused(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "encoder.pkl"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"encoder\.pkl cannot be read"):
        pw.load(path)
    assert capsys.readouterr().out == ""


def test_a_damaged_file_is_refused_wherever_it_is_cut(pickled: Path) -> None:
    data = pickled.read_bytes()
    for length in range(0, len(data), max(1, len(data) // 37)):
        pickled.write_bytes(data[:length])
        with pytest.raises(ModelError, match="cannot be read"):
            pw.load(pickled)


def test_an_encoder_of_other_parts_is_not_half_read(encoder: Encoder, tmp_path: Path) -> None:
    encoder.blocks.add_module("group_5", Conv2d(4, 4, 3))
    torch.save(encoder, tmp_path / "encoder.pkl")
    with pytest.raises(ModelError, match=r"no rule knows blocks\.group_5\.b, blocks\.group_5\.w"):
        pw.load(tmp_path / "encoder.pkl")
