"""The tokenizer: a word of its vocabulary for every place, and what any other model can be asked."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import patchwords as pw
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import configure
from patchwords.models.cost import cost
from patchwords.models.names import read
from patchwords.models.tokenizer import Tokenizer, TokenizerConfig
from patchwords.weights.card import Card
from patchwords.weights.subject import open_subject

SMALL = TokenizerConfig(vocabulary=12, groups=3, blocks=2, width=8, image=(16, 24))
Randomised = Callable[[nn.Module], nn.Module]


@pytest.fixture
def model(randomised: Randomised) -> Tokenizer:
    return randomised(SMALL.build()).eval()


def test_there_is_a_word_for_every_place(model: Tokenizer) -> None:
    images = torch.randn(2, 3, 16, 24)
    logits, words = model.logits(images), model.tokens(images)
    assert logits.shape == (2, 12, 4, 6)
    assert words.shape == (2, 4, 6)
    assert words.dtype == torch.int64
    assert torch.equal(words, logits.argmax(1))


def test_the_logits_by_hand(model: Tokenizer) -> None:
    images = torch.randn(1, 3, 8, 8)
    x = F.conv2d(images, model.input.weight, model.input.bias, padding=3)
    for number, group in enumerate(model.groups):
        x = F.max_pool2d(x, 2) if number else x
        for block in group.blocks:
            y = x
            for layer in (block.conv1, block.conv2, block.conv3, block.conv4):
                y = F.conv2d(y.relu(), layer.weight, layer.bias, padding=layer.kernel_size[0] // 2)
            x = block.shortcut(x) + y / (3 * 2) ** 2  # groups and blocks
    torch.testing.assert_close(model.logits(images), F.conv2d(x.relu(), model.output.weight, model.output.bias))
    torch.testing.assert_close(model(images), x.relu().mean((2, 3)))


def test_it_answers_with_its_representation_since_it_has_no_classes(model: Tokenizer) -> None:
    images = torch.randn(2, 3, 16, 24)
    assert model(images).shape == (2, 32)
    assert torch.equal(model(images), model.represent(images))
    assert all(torch.equal(answer, model(images)) for answer in model.pair(images))


def test_features_are_the_maps_after_the_groups(model: Tokenizer) -> None:
    third, first = model.features(torch.randn(1, 3, 16, 24), at=[3, 1])
    assert first.shape == (1, 8, 16, 24)
    assert third.shape == (1, 32, 4, 6)
    with pytest.raises(UsageError, match="there is no layer 4: layers are numbered 1 to 3"):
        model.features(torch.randn(1, 3, 16, 24), at=[4])


def test_what_it_cannot_show_it_refuses(model: Tokenizer) -> None:
    images = torch.zeros(1, 3, 16, 24)
    assert model.shows == "nothing"
    assert model.filters().shape == (8, 3, 7, 7)
    for asked in (lambda: model.attention(images, [1]), lambda: model.gaze(images)):
        with pytest.raises(UsageError, match="a tokenizer has no attention weights"):
            asked()
    with pytest.raises(UsageError, match="has no classes, and no evidence"):
        model.evidence(images, torch.zeros(1))
    with pytest.raises(UsageError, match="adds nothing for a place"):
        model.positions()


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("Tokenizer-512/4", {"vocabulary": 512, "groups": 3, "width": 64, "image": (112, 112)}),
        ("Tokenizer-64/2@8", {"vocabulary": 64, "groups": 2, "image": (8, 8)}),
        ("Tokenizer-8192/8@224x112", {"vocabulary": 8192, "groups": 4, "image": (224, 112)}),
        ("Tokenizer-16/1@5", {"vocabulary": 16, "groups": 1, "image": (5, 5)}),
        ("DALL-E", {"vocabulary": 8192, "groups": 4, "blocks": 2, "width": 256, "image": (256, 256)}),
        ("DALL-E@112", {"vocabulary": 8192, "image": (112, 112)}),
    ],
)
def test_names(name: str, changed: dict[str, object]) -> None:
    config = read(name)
    assert isinstance(config, TokenizerConfig)
    assert {key: getattr(config, key) for key in changed} == changed


def test_dall_es_encoder_is_counted() -> None:
    """By hand: a convolution has inputs · outputs · kernel² + outputs parameters."""

    def conv(inputs: int, outputs: int, kernel: int) -> int:
        return inputs * outputs * kernel**2 + outputs

    def block(inputs: int, outputs: int) -> int:
        hidden = outputs // 4
        shortcut = 0 if inputs == outputs else conv(inputs, outputs, 1)
        return shortcut + conv(inputs, hidden, 3) + 2 * conv(hidden, hidden, 3) + conv(hidden, outputs, 1)

    widths = [256, 256, 512, 1024, 2048]
    blocks = sum(block(a, b) + block(b, b) for a, b in pairwise(widths))
    assert cost(read("DALL-E")).parameters == conv(3, 256, 7) + blocks + conv(2048, 8192, 1) == 53_786_240


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"classes": 5}, "a tokenizer tells no classes apart, and 5 were asked for"),
        ({"image": (18, 24)}, "image 18x24 is not a multiple of the tokenizer's stride 4"),
        ({"width": 6}, "width 6 is not a multiple of 4"),
        ({"vocabulary": 1}, "vocabulary 1 is below 2"),
        ({"groups": 9, "image": (512, 512)}, "too many"),
        ({"blocks": 0}, "blocks 0 is below 1"),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(SMALL, **changes)


def test_a_stride_is_a_power_of_two() -> None:
    with pytest.raises(UsageError, match="a tokenizer's stride is 1, 2, 4 …; did you mean Tokenizer-512/4"):
        read("Tokenizer-512/6")


def test_pictures_that_the_stride_does_not_divide_are_refused(model: Tokenizer) -> None:
    with pytest.raises(UsageError, match="image 16x18 is not a multiple"):
        model.tokens(torch.zeros(1, 3, 16, 18))
    with pytest.raises(UsageError, match="pictures are batch x 3"):
        model.tokens(torch.zeros(1, 1, 16, 16))


def test_it_is_configured_like_any_other_model() -> None:
    config = configure("Tokenizer-64/2", image=8, channels=1, classes=0)
    assert (config.image, config.channels) == ((8, 8), 1)
    assert configure(SMALL) == SMALL


def test_it_is_saved_and_loaded_like_any_other_model(model: Tokenizer, tmp_path: Path) -> None:
    preprocess = Preprocess(size=SMALL.image, mean=(0.1, 0.2, 0.3), deviation=(1.0, 0.5, 0.25))
    path = tmp_path / "tokenizer.safetensors"
    pw.save(model, path, Card(model=SMALL, preprocess=preprocess))
    back = pw.load(path)
    assert isinstance(back, Tokenizer)
    assert back.config == SMALL
    images = torch.randn(2, 3, 16, 24)
    assert torch.equal(back.logits(images), model.logits(images))
    assert open_subject(path).card.preprocess == preprocess


def test_it_is_loaded_for_other_sizes_and_channels_but_for_no_classes(model: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.safetensors"
    pw.save(model, path)
    images = torch.randn(1, 3, 32, 32)
    assert torch.equal(pw.load(path, image=32).logits(images), model.logits(images))
    grey = pw.load(path, channels=1)
    torch.testing.assert_close(grey.logits(images[:, :1]), model.logits(images[:, :1].expand(-1, 3, -1, -1)))
    with pytest.raises(UsageError, match="a tokenizer tells no classes apart"):
        pw.load(path, classes=5)


def test_a_card_that_speaks_of_more_layers_than_there_are_tensors_is_refused(tmp_path: Path, model: Tokenizer) -> None:
    path = tmp_path / "tokenizer.safetensors"
    pw.save(model, path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'blocks\\": 2', b'blocks\\": 9'))
    with pytest.raises(ModelError, match=r"missing in the file: groups\.0\.blocks\.2"):
        pw.load(path)
