"""TOML: what is written is read as the same table."""

import random
import tomllib
from typing import Any

import pytest

from patchwords.errors import UsageError
from patchwords.training.run.toml import toml

WORDS = ["a", "B-2_c", "", "1", "two words", "dot.ted", "é", "🌷", 'quo"te', "back\\slash", "\t\r\n\b\f\x00\x1f\x7f"]
NUMBERS = [0, -1, 2**70, 1e-3, 1e16, 1e300, 5e-324, -0.0, 0.1 + 0.2, 3.0, float("inf"), -float("inf"), float("nan")]


def random_value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(6 if depth else 4)
    if kind < 4:
        return [chance.choice(NUMBERS), chance.choice(WORDS), chance.random() < 0.5, chance.uniform(-1e9, 1e9)][kind]
    if kind == 4:
        return [random_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return random_table(chance, depth - 1)


def random_table(chance: random.Random, depth: int) -> dict[str, Any]:
    return {chance.choice(WORDS): random_value(chance, depth) for _ in range(chance.randrange(5))}


def test_tables_written_as_toml_are_read_as_they_were() -> None:
    chance = random.Random(0)
    for _ in range(1_000):
        table = random_table(chance, 3)
        again = tomllib.loads(toml(table))
        assert repr(sort(again)) == repr(sort(table))  # as text, since nan is not nan


def sort(value: Any) -> Any:
    """Sections come after plain values in TOML, so the order of keys may change."""
    if isinstance(value, dict):
        return {key: sort(value[key]) for key in sorted(value)}
    return [sort(inner) for inner in value] if isinstance(value, list) else value


def test_a_recipe_reads_well() -> None:
    table = {
        "optimizer": {"kind": "adam", "betas": (0.9, 0.999), "per": None},
        "data": {"crop": {"scale": [0.08, 1.0]}},
        "parts": {"head.kind": "mlp"},
        "model": "ViT-S/16",
        "empty": {},
        "clip": 1.0,
    }
    assert toml(table) == (
        'model = "ViT-S/16"\nclip = 1.0\n\n[optimizer]\nkind = "adam"\nbetas = [0.9, 0.999]\n\n'
        '[data.crop]\nscale = [0.08, 1.0]\n\n[parts]\n"head.kind" = "mlp"\n\n[empty]\n'
    )


def test_what_toml_cannot_state_is_refused() -> None:
    with pytest.raises(UsageError, match="no text"):
        toml({"weights": "photo-\udc80"})
    with pytest.raises(TypeError, match="cannot be written"):
        toml({"path": [None]})
