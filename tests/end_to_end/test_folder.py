"""A folder of pictures: learned from nothing, fine-tuned at a higher resolution, probed; and arrays; and bad data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from patchwords.errors import DataError, ModelError
from patchwords.training.train import Run, train
from patchwords.weights.load import card_of, load

FLOWERS = {"daisy": (240, 240, 230), "poppy": (200, 30, 40), "sunflower": (250, 200, 20), "violet": (110, 50, 160)}
AT_ONCE = {"data.workers": 0, "schedule.warmup": "0 steps"}
SMALL = {"parts.depth": 2, "data.workers": 0}


def paint(number: int, colour: tuple[int, int, int]) -> Image.Image:
    """A blossom somewhere in the grass, of another size, shade and place each time."""
    chance = np.random.default_rng(number)
    height, width = (int(side) for side in chance.integers(48, 96, 2))
    grass = chance.normal((60, 120, 40), 25, (height, width, 3)).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(grass)
    shade = tuple(int(c) for c in (np.array(colour) + chance.normal(0, 12, 3)).clip(0, 255))
    radius = int(chance.integers(12, 20))
    row, column = (int(chance.integers(radius, side - radius)) for side in (height, width))
    ImageDraw.Draw(picture).ellipse((column - radius, row - radius, column + radius, row + radius), shade)
    return picture


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "flowers"
    for label, (name, colour) in enumerate(FLOWERS.items()):
        (folder / name).mkdir(parents=True)
        for number in range(30):
            paint(100 * label + number, colour).save(folder / name / f"{number}.jpg", quality=90)
    (folder / "LICENSE.txt").write_text("All of these are made up.")
    return folder


@pytest.fixture(scope="module")
def learned(flowers: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    change = SMALL | {"data.crop.scale": [0.5, 1.0], "data.mix.mixup": 0.0, "data.mix.cutmix": 0.0}
    change |= {"data.augment.policy": "none", "data.augment.erase": 0.0, "optimizer.lr": 3e-3}
    out = tmp_path_factory.mktemp("runs") / "scratch"
    return train(flowers, model="ViT-Mu/16", image=32, batch=16, epochs=15, change=change, out=out, device="cpu")


def weights(run: Run) -> dict[str, torch.Tensor]:
    return run.model.state_dict()


def test_colours_are_learned_in_seconds(learned: Run) -> None:
    assert learned.scores.count == 24
    assert learned.scores.accuracy > 0.9
    assert card_of(learned.model).classes == tuple(FLOWERS)


def test_it_is_the_same_from_a_cache_or_with_workers(flowers: Path, tmp_path: Path) -> None:
    """Workers change no bit; a cache has its own way to cut, and learns as well."""
    losses = {}
    for name, change in {"none": {}, "workers": {"data.workers": 2}, "memory": {"data.cache": "memory"}}.items():
        run = train(
            flowers, model="ViT-Mu/16", image=32, epochs=1, out=tmp_path / name, change=SMALL | change, device="cpu"
        )
        rows = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
        losses[name] = [row["loss"] for row in rows]
    assert losses["none"] == losses["workers"]
    assert losses["memory"] == pytest.approx(losses["none"], abs=0.3)


def test_it_is_fine_tuned_at_a_higher_resolution(flowers: Path, learned: Run, tmp_path: Path) -> None:
    model = learned.folder / "model.safetensors"
    tuned = train(
        flowers,
        weights=model,
        image=64,
        batch=16,
        epochs=2,
        lr=0.003,
        out=tmp_path / "tuned",
        device="cpu",
        change=AT_ONCE,
    )
    assert card_of(tuned.model).preprocess.size == tuned.model.config.image == (64, 64)
    assert weights(tuned)["embed.position.table"].shape[1] == 4 * 4 + 1
    assert tuned.scores.accuracy > 0.8
    assert (tmp_path / "tuned" / "recipe.toml").read_text().count("sgd") == 1  # the recipe for weights


def test_other_classes_get_a_new_head(flowers: Path, learned: Run, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("poppy", "violet"):
        (folder / name).symlink_to(flowers / name)
    tuned = train(
        folder, weights=learned.folder, batch=16, epochs=3, lr=0.01, out=tmp_path / "run", device="cpu", change=AT_ONCE
    )
    assert tuned.model.config.classes == 2
    assert weights(tuned)["head.classifier.weight"].shape[0] == 2
    assert tuned.scores.accuracy > 0.8


def test_a_probe_leaves_the_backbone_as_it_is(flowers: Path, learned: Run, tmp_path: Path) -> None:
    before = load(learned.folder).state_dict()
    probe = train(
        flowers, weights=learned.folder, recipe="probe", epochs=2, batch=16, out=tmp_path, device="cpu", change=AT_ONCE
    )
    after = weights(probe)
    assert {name for name in before if not torch.equal(before[name], after[name])} <= {
        "head.classifier.weight",
        "head.classifier.bias",
    }
    assert not torch.equal(before["head.classifier.weight"], after["head.classifier.weight"])
    assert probe.scores.accuracy > 0.8


def test_weights_of_another_model_are_refused(flowers: Path, learned: Run, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds another model than ViT-Ti/16"):
        train(flowers, model="ViT-Ti/16", weights=learned.folder, out=tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_arrays_are_learned_too(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    labels = np.arange(120) % 3
    images = chance.integers(0, 90, (120, 16, 16), dtype=np.uint8)
    for label in range(3):
        images[labels == label, 5 * label : 5 * label + 5] += 120  # a bright band high, in the middle, or low
    np.savez(tmp_path / "bands.npz", images=images, labels=labels, classes=["high", "middle", "low"])
    run = train(
        tmp_path / "bands.npz",
        model="ViT-Mu/4",
        image=16,
        epochs=8,
        batch=16,
        lr=3e-3,
        out=tmp_path / "run",
        device="cpu",
        change={"data.crop": "whole", "data.mix.mixup": 0.0, "data.mix.cutmix": 0.0, "data.augment.policy": "none"},
    )
    assert run.scores.accuracy > 0.9
    assert card_of(run.model).classes == ("high", "middle", "low")


def test_sigmoids_and_bfloat16_and_recomputation_and_pieces_learn(flowers: Path, tmp_path: Path) -> None:
    change = SMALL | {"objective.loss": "sigmoid", "precision": "bf16", "recompute": True, "micro": 8, "average": 0.9}
    run = train(flowers, model="ViT-Mu/16", image=32, batch=32, epochs=2, out=tmp_path, device="cpu", change=change)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert losses[-1] < losses[0]
    assert run.report.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # inductor's own
def test_a_compiled_run_learns_the_same(flowers: Path, tmp_path: Path) -> None:
    losses: dict[bool, list[float]] = {}
    for compiled in (False, True):
        out = tmp_path / str(compiled)
        change = SMALL | {"compile": compiled}
        train(flowers, model="ViT-Mu/16", image=32, batch=16, epochs=1, out=out, device="cpu", change=change)
        rows = (out / "metrics.jsonl").read_text().splitlines()
        losses[compiled] = [json.loads(row)["loss"] for row in rows]
    assert losses[True] == pytest.approx(losses[False], abs=1e-3)


def one_class(folder: Path, paint: Callable[[int], Image.Image]) -> None:
    (folder / "only").mkdir()
    for number in range(5):
        paint(number).save(folder / "only" / f"{number}.jpg")


def nothing(folder: Path, paint: Callable[[int], Image.Image]) -> None:
    """An empty folder."""


def singles(folder: Path, paint: Callable[[int], Image.Image]) -> None:
    for number in range(1000):
        (folder / f"class {number}").mkdir()
        paint(number % 7).save(folder / f"class {number}" / "1.jpg")


def texts(folder: Path, paint: Callable[[int], Image.Image]) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        for number in range(10):
            (folder / name / f"{number}.jpg").write_text("this is no picture")


@pytest.mark.parametrize("fill", [nothing, one_class, singles, texts])
def test_data_that_cannot_be_learned_from_is_refused(fill: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    fill(tmp_path / "data", lambda number: Image.new("RGB", (8, 8), (number, 0, 0)))
    with pytest.raises(DataError) as caught:
        train(tmp_path / "data", model="ViT-Mu/16", image=32, out=tmp_path / "run", device="cpu", change=SMALL)
    assert caught.value.exit_code == 3
