"""How many pictures fit: numbers where the recipe leaves them open, and what was said where it does not."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from patchwords.data.mix import Mix
from patchwords.models.names import Config, read
from patchwords.training import fit
from patchwords.training.distributed import World
from patchwords.training.fit import LARGEST, piece, settled
from patchwords.training.recipe import DataRecipe, Recipe

CPU = World(0, 1, torch.device("cpu"))


@pytest.fixture
def model(small_configs: dict[str, Config]) -> Any:
    return small_configs["plain"].build()


def test_what_the_recipe_says_stays(model: Any) -> None:
    recipe = Recipe(batch=24, micro=6)
    assert settled(recipe, model, 1000, CPU) == recipe


@pytest.mark.parametrize(
    ("samples", "batch"), [(3, 8), (64, 8), (127, 8), (128, 16), (300, 32), (512, 64), (1437, 64), (1_000_000, 64)]
)
def test_automatic_on_a_cpu_is_at_most_64_and_leaves_eight_steps_an_epoch(model: Any, samples: int, batch: int) -> None:
    found = settled(Recipe(batch="auto"), model, samples, CPU)
    assert found.batch == batch
    assert isinstance(found.batch, int)
    assert samples < 64 or samples / batch >= 8


class Gpu(World):
    """A GPU, of which only its name is needed."""

    def told(self, value: Any) -> Any:
        return value


def gpu(size: int = 1) -> Gpu:
    return Gpu(0, size, torch.device("cuda"))


@pytest.mark.parametrize(("fits", "samples", "batch"), [(256, 10**6, 256), (1024, 10**6, 1024), (512, 800, 64)])
def test_automatic_on_a_gpu_is_what_fits_it(
    model: Any, fits: int, samples: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "_largest", lambda recipe, model, world: fits)
    found = settled(Recipe(batch="auto"), model, samples, gpu())
    assert (found.batch, found.micro) == (batch, batch)


def test_automatic_is_what_fits_each_of_several(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "_largest", lambda recipe, model, world: 128)
    assert settled(Recipe(batch="auto"), model, 10**6, gpu(4)).batch == 512


def test_the_first_process_decides(model: Any) -> None:
    class Led(World):
        def told(self, value: Any) -> Any:
            return 48

    assert settled(Recipe(batch="auto"), model, 10**6, Led(1, 2, torch.device("cpu"))).batch == 48


@pytest.mark.parametrize(("limit", "size"), [(7, 8), (17, 16), (100, 64), (10**9, LARGEST)])
def test_the_largest_power_of_two_that_fits_is_found_by_trying(
    limit: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def takes(recipe: Recipe, model: Any, count: int, device: torch.device) -> float:
        tried.append(count)
        return count / limit

    monkeypatch.setattr(fit, "_takes", takes)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1.0 / fit.SPARED, 2.0))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(fit, "prepare", lambda model, **settings: None)
    model = SimpleNamespace(to=lambda device: model, train=lambda: None, zero_grad=lambda set_to_none: None)
    assert fit._largest(Recipe(), model, gpu()) == size  # type: ignore[arg-type]
    assert all(count <= LARGEST for count in tried)


# Pieces for a CPU


@pytest.mark.parametrize(
    "name", ["ViT-Digits/2", "ViT-Ti/16", "ViT-B/16", "ViT-B/16@384", "ViT-L/16", "ViT-G/14", "Swin-L@384"]
)
def test_pieces_on_a_cpu_are_pairs_that_fit_and_larger_models_take_fewer(name: str) -> None:
    found = piece(read(name), 4096)
    assert found >= 2
    assert found % 2 == 0
    assert found <= 4096


def test_a_larger_model_takes_fewer_at_a_time() -> None:
    for names in (
        ("ViT-Ti/16", "ViT-S/16", "ViT-B/16", "ViT-L/16", "ViT-L/16@384"),
        ("Swin-T", "Swin-S", "Swin-B", "Swin-B@384"),
    ):
        counts = [piece(read(name), 4096) for name in names]
        assert counts == sorted(counts, reverse=True)
        assert len(set(counts)) == len(counts)


def test_a_small_batch_is_taken_whole_even_if_it_is_odd() -> None:
    assert piece(read("ViT-Ti/16"), 7) == 7
    assert piece(read("R50x1"), 7) == 7


def test_an_odd_batch_that_is_mixed_can_be_settled(model: Any) -> None:
    recipe = Recipe(batch=7, data=DataRecipe(mix=Mix(mixup=0.8)))
    assert settled(recipe, model, 100, CPU).micro == 7


@pytest.mark.parametrize(
    "config",
    [
        replace(read("ViT-Ti/16"), image=(64, 64), depth=3),  # type: ignore[type-var]
        replace(read("Swin-T"), image=(64, 64), depths=(2, 2, 2, 1)),  # type: ignore[type-var]
    ],
    ids=lambda config: config.kind,
)
def test_the_activations_of_a_piece_stay_below_the_limit(config: Config) -> None:
    """Measured: what autograd keeps of one picture, times the piece."""
    model = config.build()
    kept: dict[int, int] = {}
    parameters = {each.untyped_storage().data_ptr() for each in model.parameters()}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in parameters:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(torch.rand(4, 3, 64, 64))
    measured = sum(kept.values()) / 4
    assert output.requires_grad
    promised = fit.CPU_BYTES / piece(config, 10**9)
    assert 0.5 * measured < promised < 2 * measured
