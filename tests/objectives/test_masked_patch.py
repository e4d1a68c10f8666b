"""Section 4.6 and App. B.1.2: what is corrupted, what is predicted of it, and that it is learned."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords import settings
from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import standardise
from patchwords.errors import UsageError
from patchwords.layers.pool import Attend, Mean
from patchwords.models.names import Config, read
from patchwords.models.vit import ViTConfig
from patchwords.objectives.kinds import ObjectiveKind
from patchwords.objectives.masked_patch import HIDDEN, KEPT, SWAPPED, Colours, MaskedPatch, MaskedPatchPrediction
from patchwords.objectives.objective import Batch, Objective, Surroundings

Randomised = Callable[[nn.Module], nn.Module]

CONFIG = ViTConfig(depth=1, width=32, mlp=48, heads=2, patch=(8, 8), image=(32, 24), classes=0)
TARGETS = ("mean-colour", "downsized", "pixels")


def around(config: Config) -> Surroundings:
    def nobody(*_: Any) -> Any:
        raise AssertionError("this objective learns from nobody")

    shades = (0.5, 0.4, 0.3, 0.5)[: config.channels]
    preprocess = Preprocess(size=config.image, mean=shades, deviation=shades)
    return Surroundings(preprocess=preprocess, classes=(), open=nobody, answers=nobody)


def built(config: Config = CONFIG, **given: Any) -> MaskedPatchPrediction:
    return settings.read(given, MaskedPatch).build(config.build(), around(config))


def batch(objective: MaskedPatchPrediction, count: int = 4, first: int = 0) -> Batch:
    config, indices = objective.model.config, np.arange(first, first + count)
    images = torch.rand(count, config.channels, *config.image, generator=torch.Generator().manual_seed(1))
    drawn = objective.drawn(0, np.zeros_like(indices), indices)
    tensors = {name: torch.from_numpy(rows) for name, rows in drawn.items()}
    return {"image": standardise(images, around(config).preprocess), **tensors}


@pytest.mark.parametrize("ratio", [0.15, 0.5, 1.0])
def test_the_same_number_of_different_patches_is_corrupted_in_every_picture(ratio: float) -> None:
    objective = built(ratio=ratio)
    corrupted = objective.drawn(0, np.zeros(50, dtype=np.int64), np.arange(50))["corrupted"]
    assert corrupted.shape == (50, round(12 * ratio))
    assert all(len(set(row)) == len(row) for row in corrupted.tolist())


def test_of_the_corrupted_patches_80_percent_are_hidden_10_swapped_and_10_stay() -> None:
    objective = built()
    drawn = objective.drawn(0, np.zeros(20_000, dtype=np.int64), np.arange(20_000))
    number = drawn["fate"].size  # 120,000 patches
    for fate, share in {HIDDEN: 0.8, SWAPPED: 0.1, KEPT: 0.1}.items():
        assert abs((drawn["fate"] == fate).mean() - share) < 5 * math.sqrt(share * (1 - share) / number)
    by_place = np.bincount(drawn["corrupted"][drawn["fate"] == SWAPPED], minlength=12) / 20_000
    assert np.abs(by_place - 0.05).max() < 5 * math.sqrt(0.05 / 20_000)  # half, and a tenth of it


def test_a_swapped_patch_is_given_any_other_one_of_its_picture() -> None:
    objective = built()
    drawn = objective.drawn(0, np.zeros(20_000, dtype=np.int64), np.arange(20_000))
    distance = (drawn["other"] - drawn["corrupted"]) % 12
    counts = np.bincount(distance.ravel(), minlength=12)
    assert counts[0] == 0
    assert np.abs(counts[1:] / distance.size - 1 / 11).max() < 5 * math.sqrt(1 / 11 / distance.size)


@pytest.mark.parametrize("which", [[0], [5, 3], [7, 6, 5, 4, 3, 2, 1, 0]])
def test_what_is_drawn_depends_on_the_address_alone(which: list[int]) -> None:
    objective, views, indices = built(), np.array([0, 0, 1, 1, 2, 0, 3, 0]), np.arange(8)
    whole, some = objective.drawn(5, views, indices), objective.drawn(5, views[which], indices[which])
    assert {name: rows.tolist() for name, rows in some.items()} == {
        name: rows[which].tolist() for name, rows in whole.items()
    }
    again = objective.drawn(6, views, indices)
    assert all((again[name] != rows).any() for name, rows in whole.items())


def test_embeddings_are_corrupted_as_it_was_drawn() -> None:
    objective, patches = built(), torch.randn(64, 12, 32)
    given = batch(objective, 64)
    found = objective.corrupt(patches, given)
    seen = set()
    for row in range(64):
        untouched = [place for place in range(12) if place not in given["corrupted"][row]]
        torch.testing.assert_close(found[row, untouched], patches[row, untouched], rtol=0, atol=0)
        names = ("corrupted", "fate", "other")
        for place, fate, other in zip(*(given[name][row].tolist() for name in names), strict=True):
            wanted = {HIDDEN: objective.mask_token[0, 0], SWAPPED: patches[row, other], KEPT: patches[row, place]}
            assert torch.equal(found[row, place], wanted[fate])  # the other one's own, not what became of it
            seen.add(fate)
    assert seen == {HIDDEN, SWAPPED, KEPT}


def by_hand(image: Tensor, cell: int, tile: int) -> list[list[int]]:
    """The classes of every patch of a picture (channels, height, width) with values in [0, 1], pixel by pixel."""
    channels, height, width = image.shape
    found = []
    for top in range(0, height, cell):
        for left in range(0, width, cell):
            numbers = []
            for y in range(top, top + cell, tile):
                for x in range(left, left + cell, tile):
                    means = [float(image[channel, y : y + tile, x : x + tile].mean()) for channel in range(channels)]
                    levels = [min(7, math.floor(8 * mean)) for mean in means]
                    numbers.append(sum(level * 8 ** (channels - 1 - place) for place, level in enumerate(levels)))
            found.append(numbers)
    return found


@pytest.mark.parametrize(("kind", "side"), [("mean-colour", 1), ("downsized", 4)])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_classes_are_three_bits_of_each_channels_mean(kind: str, side: int, channels: int) -> None:
    config = replace(CONFIG, channels=channels)
    objective = built(config, target=kind)
    assert isinstance(objective.target, Colours)
    images = torch.rand(2, channels, 32, 24)
    images[0, :, :8, :8], images[0, :, :8, 8:16] = 1.0, 0.0  # white and black patches
    found = objective.target(standardise(images, around(config).preprocess))
    assert found.tolist() == [by_hand(image, 8, 8 // side) for image in images]
    assert found[0, 0].tolist() == [8**channels - 1] * side * side
    assert found[0, 1].tolist() == [0] * side * side
    assert objective.head.out_features == side * side * 8**channels


def test_what_lies_beyond_black_and_white_counts_as_these() -> None:
    objective = built()
    images = torch.full((1, 3, 32, 24), 9.0)
    images[:, :, :16] = -9.0
    assert sorted(set(objective.target(images).flatten().tolist())) == [0, 511]


def test_the_papers_sizes_of_the_three_targets() -> None:
    config = replace(read("ViT-B/16"), depth=1, width=24, heads=2, mlp=24, classes=0)
    outputs = {kind: built(config, target=kind).head.out_features for kind in TARGETS}
    assert outputs == {"mean-colour": 512, "downsized": 16 * 512, "pixels": 256 * 3}


def test_the_loss_is_over_the_corrupted_patches_each_from_its_own_token() -> None:
    objective = built().eval()
    given = batch(objective)
    x, grid = objective.model.embed.project(given["image"])
    z = objective.model.encoder(objective.model.embed.assemble(objective.corrupt(x, given), grid))
    logits = objective.head(z.patches)  # of all patches
    wanted = objective.target(given["image"])[:, :, 0]
    losses, right = [], []
    for row in range(4):
        for place in given["corrupted"][row].tolist():
            losses.append(F.cross_entropy(logits[row, place], wanted[row, place]))
            right.append(float(logits[row, place].argmax() == wanted[row, place]))
    loss, numbers = objective(given)
    torch.testing.assert_close(loss, torch.stack(losses).mean())
    assert float(numbers["accuracy"]) == pytest.approx(sum(right) / len(right))


def test_pixels_are_regressed_by_their_squared_distance() -> None:
    objective = built(target="pixels").eval()
    given = batch(objective)
    loss, numbers = objective(given)
    prediction, errors = objective.predict(given), []
    for row in range(4):
        for number, place in enumerate(given["corrupted"][row].tolist()):
            top, left = 8 * (place // 3), 8 * (place % 3)
            patch = given["image"][row, :, top : top + 8, left : left + 8].permute(1, 2, 0).flatten()
            errors.append((prediction[row, number] - patch).square().mean())
    torch.testing.assert_close(loss, torch.stack(errors).mean())
    assert numbers == {}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize(
    "small_config", ["plain", "mean", "1d every", "relative", "axial", "hybrid root", "regularised"], indirect=True
)
def test_every_trainable_parameter_receives_a_gradient(
    small_config: ViTConfig, kind: str, randomised: Randomised
) -> None:
    objective = built(replace(small_config, classes=0), target=kind)
    randomised(objective)
    loss, _ = objective(batch(objective, 8))
    loss.backward()
    missing = [name for name, each in objective.named_parameters() if each.grad is None or not each.grad.any()]
    assert missing == []


def test_the_loss_of_a_batch_is_the_mean_of_its_pieces() -> None:
    objective = built().eval()
    whole = batch(objective, 6)
    pieces = [{name: rows[start : start + 2] for name, rows in whole.items()} for start in (0, 2, 4)]
    torch.testing.assert_close(objective(whole)[0], torch.stack([objective(piece)[0] for piece in pieces]).mean())


def test_it_owns_its_mask_and_head_beside_the_model() -> None:
    objective = built()
    assert isinstance(objective, Objective)
    owned = {name for name in objective.state_dict() if not name.startswith("model.")}
    assert owned == {"mask_token", "head.weight", "head.bias"}
    assert MaskedPatch().classes(10) == 0
    assert settings.read({"kind": "masked_patch"}, MaskedPatch) == MaskedPatch(ratio=0.5, target="mean-colour")
    assert settings.change(_Recipe(), {"objective": "masked_patch"}).objective == MaskedPatch()


@pytest.mark.parametrize("kind", TARGETS)
def test_it_runs_under_bfloat16_with_a_loss_in_float32(kind: str) -> None:
    objective = built(target=kind).eval()
    given = batch(objective)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = objective(given)
    assert loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(objective(given)[0].detach()), rel=0.05)


@pytest.mark.parametrize("kind", ["mean-colour", "downsized"])
def test_it_compiles_as_one_graph(kind: str) -> None:
    objective = built(target=kind).eval()
    given = batch(objective)
    wanted, _ = objective(given)
    objective.compile(fullgraph=True, backend="eager")
    torch.testing.assert_close(objective(given)[0], wanted)


@pytest.mark.parametrize(
    ("change", "given", "sentence"),
    [
        ({"pool": Mean(norm="after")}, {}, 'set parts.pool.kind="class"'),
        ({"pool": Attend()}, {}, "would not train pool.probe"),
        ({"classes": 5}, {}, "would not train head.classifier.weight"),
        ({"channels": 4}, {}, "4 channels of 8 levels are too many classes"),
        ({"patch": (2, 2)}, {"target": "downsized"}, "a patch of 2x2 pixels cannot be downsized to 4x4"),
        ({"patch": (32, 24)}, {}, "a picture of one patch has no other"),
    ],
)
def test_what_cannot_be_learned_so_is_refused(change: dict[str, Any], given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        built(replace(CONFIG, **change), **given)


@pytest.mark.parametrize("ratio", [0.0, 1.1])
def test_a_ratio_is_a_share(ratio: float) -> None:
    with pytest.raises(UsageError, match="is no share of the patches"):
        MaskedPatch(ratio=ratio)


def test_a_resnet_has_no_patches(small_configs: dict[str, Config]) -> None:
    with pytest.raises(UsageError, match="the model is a resnet: choose a ViT"):
        built(small_configs["resnet pre"])


def test_hidden_colours_are_learned_from_the_visible_ones() -> None:
    """Pictures of one shade each, which no place tells: a guess is right once in eight times."""
    objective = built(replace(CONFIG, channels=1, image=(16, 16), patch=(4, 4)))
    optimizer, accuracies = torch.optim.AdamW(objective.parameters(), lr=3e-3), []
    for step in range(200):
        shades = torch.rand(64, 1, 1, 1, generator=torch.Generator().manual_seed(step))
        drawn = objective.drawn(0, np.full(64, step), np.arange(64))
        tensors = {name: torch.from_numpy(rows) for name, rows in drawn.items()}
        loss, numbers = objective({"image": (shades.expand(-1, -1, 16, 16) - 0.5) / 0.5, **tensors})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracies.append(float(numbers["accuracy"]))
    assert np.mean(accuracies[:5]) < 0.3
    assert np.mean(accuracies[-20:]) > 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class _Recipe:
    """Stands for a recipe, which chooses one of all objectives."""

    objective: ObjectiveKind = MaskedPatch(ratio=0.1)  # noqa: RUF009 (a frozen value)
