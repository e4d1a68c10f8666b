"""The card of a native file: all it says comes back, and a file with one wrong bit is never taken for the right one."""

import json
import random
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import patchwords
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, PatchwordsError, UsageError
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.weights import card as cards
from patchwords.weights import files
from patchwords.weights.card import DIGEST, KEY, Card, digest
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.load import card_of

NAMES = ("daisy", "Gänseblümchen", "雛菊", "🌼", 'a "quoted" name', "tab\tnew\nline\\", "")
FULL = {
    "preprocess": Preprocess(size=(16, 16), fit="crop", crop=0.9, interpolation="lanczos", mean=(0.1, 0.2, 0.3)),
    "classes": NAMES,
    "source": "trained on the meadow; https://example.org/?a=1&b=2",
    "licence": "Apache-2.0",
}


def test_every_card_comes_back_from_its_text(small_config: Config) -> None:
    card = Card(model=small_config, source="here", licence="Apache-2.0")
    assert cards.read(cards.write(card, {})) == card


def test_a_full_card_comes_back_from_a_file(tiny: ViTConfig, native: Callable[..., Path]) -> None:
    found = open_checkpoint(native(tiny, **FULL))
    assert (found.card, found.format, found.notes) == (Card(model=tiny, **FULL), "native", [])  # type: ignore[arg-type]


def test_the_card_is_readable_json_in_the_files_metadata(tiny: ViTConfig, native: Callable[..., Path]) -> None:
    metadata = files.read(native(tiny, **FULL), "shapes").metadata
    assert metadata["format"] == "pt"  # other programs read the file, too
    table = json.loads(metadata[KEY])
    assert table["classes"] == list(NAMES)
    assert table["model"]["kind"] == "vit"
    assert "雛菊" in metadata[KEY]


def test_there_are_as_many_names_as_classes(tiny: ViTConfig) -> None:
    with pytest.raises(UsageError, match="2 class names were given, the model has 7 classes"):
        Card(model=tiny, classes=("a", "b"))


@pytest.mark.parametrize(
    ("mean", "channels", "wanted"),
    [
        ((0.2,), 3, (0.2, 0.2, 0.2)),  # one for all
        ((0.2,), 1, (0.2,)),
        ((0.1, 0.2, 0.3), 3, (0.1, 0.2, 0.3)),
        ((0.1, 0.2, 0.3), 4, (0.5, 0.5, 0.5, 0.5)),  # what a fourth band is like, nobody knows
    ],
)
def test_a_fitted_card_has_a_mean_for_each_channel(
    tiny: ViTConfig, mean: tuple[float, ...], channels: int, wanted: tuple[float, ...]
) -> None:
    card = Card(model=tiny, preprocess=Preprocess(mean=mean, deviation=mean))
    found = cards.fitted(card, replace(tiny, channels=channels), ()).preprocess
    assert (found.mean, found.deviation) == (wanted, wanted)


def test_one_mean_for_all_channels_is_not_lost_when_a_file_is_loaded(
    tiny: ViTConfig, native: Callable[..., Path]
) -> None:
    path = native(tiny, preprocess=Preprocess(size=(16, 16), mean=(0.2,), deviation=(0.3,)))
    found = card_of(patchwords.load(path)).preprocess
    assert (found.mean, found.deviation) == ((0.2,) * 3, (0.3,) * 3)


def test_the_hash_speaks_of_names_kinds_shapes_and_bytes() -> None:
    state = {"a": torch.arange(6.0), "b": torch.zeros(2, 3), "empty": torch.zeros(0, 4), "one": torch.tensor(1.0)}
    same = digest("", state)
    assert digest("", dict(reversed(state.items()))) == same
    assert digest("", {name: tensor.clone() for name, tensor in state.items()}) == same
    others: list[dict[str, Tensor]] = [
        {"c" if name == "b" else name: tensor for name, tensor in state.items()},
        state | {"a": torch.arange(6.0).reshape(2, 3)},
        state | {"a": torch.arange(6.0).view(torch.int32)},
        state | {"a": -torch.arange(6.0)},  # a zero's sign
        state | {"more": torch.zeros(0)},
        {name: tensor for name, tensor in state.items() if name != "empty"},
    ]
    digests = [digest("", other) for other in others]
    assert same not in digests
    assert len(set(digests)) == len(digests)


def test_the_hash_of_a_view_is_that_of_its_values() -> None:
    x = torch.randn(4, 6)
    assert digest("", {"x": x.mT}) == digest("", {"x": x.mT.contiguous()})


@pytest.fixture
def header(tiny: ViTConfig, native: Callable[..., Path]) -> tuple[Path, bytes, int]:
    """A native file, its bytes, and where its tensors begin."""
    path = native(replace(tiny, depth=1, width=24, mlp=24), **FULL)
    body = path.read_bytes()
    return path, body, 8 + struct.unpack("<Q", body[:8])[0]


@pytest.mark.parametrize("part", ["length", "card", "names", "tensors"])
def test_a_flipped_bit_is_refused(part: str, header: tuple[Path, bytes, int]) -> None:
    path, body, begin = header
    wanted = open_checkpoint(path)
    at = body.index(KEY.encode())
    places = {
        "length": range(8),
        "card": range(at, at + len(KEY) + 1200),
        "names": range(8, begin),
        "tensors": range(begin, len(body)),
    }
    rng, accepted = random.Random(0), []
    for _ in range(200):
        place, bit = rng.choice(places[part]), 1 << rng.randrange(8)
        path.write_bytes(body[:place] + bytes([body[place] ^ bit]) + body[place + 1 :])
        try:
            found = open_checkpoint(path)
        except PatchwordsError:
            continue
        if (found.card, digest("", found.state)) != (wanted.card, digest("", wanted.state)):
            accepted.append(f"byte {place}, bit {bit}: {body[place - 20 : place + 20]!r}")
    assert accepted == []


def test_a_file_cut_anywhere_is_refused(header: tuple[Path, bytes, int]) -> None:
    path, body, begin = header
    for length in [0, 1, 7, 8, 9, begin - 1, begin, begin + 1, len(body) - 1]:
        path.write_bytes(body[:length])
        with pytest.raises(ModelError, match=r"model\.safetensors"):
            open_checkpoint(path)


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no JSON": lambda card: "{",
    "a number": lambda card: 3,
    "a list": lambda card: [1, 2],
    "nothing": lambda card: None,
    "empty": lambda card: {},
    "nested without end": lambda card: "[" * 100_000,
    "unknown key": lambda card: card | {"colour": "blue"},
    "unknown kind": lambda card: card | {"model": card["model"] | {"kind": "swin"}},
    "no kind": lambda card: card | {"model": {k: v for k, v in card["model"].items() if k != "kind"}},
    "a word for a number": lambda card: card | {"model": card["model"] | {"width": "48"}},
    "a fraction": lambda card: card | {"model": card["model"] | {"depth": 1.5}},
    "no heads": lambda card: card | {"model": card["model"] | {"heads": 0}},
    "negative width": lambda card: card | {"model": card["model"] | {"width": -24}},
    "patch of nothing": lambda card: card | {"model": card["model"] | {"patch": [0, 0]}},
    "vast depth": lambda card: card | {"model": card["model"] | {"depth": 10**9}},
    "vast width": lambda card: card | {"model": card["model"] | {"width": 24 * 10**15}},
    "vast picture": lambda card: card | {"model": card["model"] | {"image": [4 * 10**9, 4 * 10**9]}},
    "vast classes": lambda card: card | {"model": card["model"] | {"classes": 10**30}, "classes": []},
    "vast channels": lambda card: card | {"model": card["model"] | {"channels": 10**30}},
    "many special tokens": lambda card: card | {"model": card["model"] | {"special": ["class"] * 10**5}},
    "odd special token": lambda card: card | {"model": card["model"] | {"special": ["class", "a.b"]}},
    "hostile special token": lambda card: card | {"model": card["model"] | {"special": ["class", ""]}},
    "too few names": lambda card: card | {"classes": ["a"]},
    "not a mean": lambda card: card | {"preprocess": card["preprocess"] | {"deviation": [0, 0, 0]}},
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_card_is_refused(
    damage: Callable[[dict[str, Any]], object], tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    opened = checkpoint(replace(tiny, depth=1, width=24, mlp=24))
    metadata = cards.write(opened.card, opened.state)
    damaged = damage(json.loads(metadata[KEY]))
    metadata[KEY] = damaged if isinstance(damaged, str) else json.dumps(damaged)
    save_file(opened.state, tmp_path / "f.safetensors", metadata)
    with pytest.raises(ModelError, match=r"f\.safetensors: "):
        patchwords.load(tmp_path / "f.safetensors")


def test_a_file_without_its_hash_is_refused(
    tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    opened = checkpoint(tiny)
    metadata = cards.write(opened.card, opened.state)
    del metadata[DIGEST]
    save_file(opened.state, tmp_path / "f.safetensors", metadata)
    with pytest.raises(ModelError, match=r"f\.safetensors: the file is damaged: its hash"):
        open_checkpoint(tmp_path / "f.safetensors")


@pytest.mark.parametrize("change", ["missing", "surplus", "shape"])
def test_tensors_that_are_not_the_cards_are_listed(
    change: str, tiny: ViTConfig, checkpoint: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    opened = checkpoint(tiny)
    state = dict(opened.state)
    if change == "missing":
        del state["encoder.norm.bias"]
    else:
        state["extra" if change == "surplus" else "encoder.norm.bias"] = torch.zeros(47)
    save_file(state, tmp_path / "f.safetensors", cards.write(opened.card, state))
    said = {
        "missing": r"missing in the file: encoder\.norm\.bias 48",
        "surplus": "not in the model: extra 47",
        "shape": r"encoder\.norm\.bias is 47 in the file and 48 in the model",
    }
    with pytest.raises(ModelError, match=said[change]):
        open_checkpoint(tmp_path / "f.safetensors")


def test_a_card_follows_its_model_to_another_size(tiny: ViTConfig) -> None:
    card = Card(model=tiny, classes=NAMES, source="s", licence="l")
    other = replace(tiny, image=(32, 24), channels=1, classes=2)
    found = cards.fitted(card, other, ("x", "y"))
    assert (found.model, found.classes, found.source, found.licence) == (other, ("x", "y"), "s", "l")
    assert (found.preprocess.size, found.preprocess.mean, found.preprocess.deviation) == ((32, 24), (0.5,), (0.5,))
