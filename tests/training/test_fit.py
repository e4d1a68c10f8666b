"""How many pictures fit: numbers where the recipe leaves them open, and what was said where it does not."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from patchwords.data.glimpses import Glimpses
from patchwords.data.mix import Mix
from patchwords.models.names import Config, read
from patchwords.objectives.dino import Dino
from patchwords.training import fit
from patchwords.training.distributed import World
from patchwords.training.fit import LARGEST, piece, settled
from patchwords.training.recipe import DataRecipe, Recipe

CPU = World(0, 1, torch.device("cpu"))
SEVERAL = Glimpses(large=1, small=8)  # of 96x96


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


@pytest.mark.parametrize("name", ["ViT-S/16", "Swin-T", "R50x1"])
def test_of_pictures_that_come_in_several_crops_fewer_are_taken(name: str) -> None:
    one, ten = piece(read(name), 4096), piece(read(name), 4096, SEVERAL.pictures((224, 224)))
    assert one / 4 <= ten <= one / 3  # 2 crops and 8 of an area of 0.18


def test_the_crops_of_the_recipe_are_counted() -> None:
    model = replace(read("ViT-S/16"), depth=2).build()  # type: ignore[type-var]
    recipe = Recipe(batch=1024, data=DataRecipe(glimpses=SEVERAL))
    assert settled(recipe, model, 10**6, CPU).micro == piece(model.config, 1024, SEVERAL.pictures((224, 224)))
    assert settled(Recipe(batch=1024), model, 10**6, CPU).micro == piece(model.config, 1024)


def test_a_gpu_is_tried_with_all_crops_of_a_picture(small_configs: dict[str, Config]) -> None:
    model, seen = small_configs["plain"].build(), []
    size = model.config.image
    model.register_forward_pre_hook(lambda module, given: seen.append(given[0].shape))
    glimpse = model.glimpse
    model.glimpse = lambda images: seen.append(images.shape) or glimpse(images)  # type: ignore[method-assign]
    recipe = Recipe(data=DataRecipe(glimpses=Glimpses(large=1, small=3, size=size)))
    fit._answered(recipe, model, 4, CPU.device).backward()
    assert seen == [(8, 3, *size), (12, 3, *size)]
    seen.clear()
    fit._answered(Recipe(), model, 4, CPU.device).backward()
    assert seen == [(4, 3, *size)]


def test_the_activations_of_several_crops_are_those_that_the_objective_keeps() -> None:
    config = replace(read("ViT-Ti/16"), image=(64, 64), depth=3)  # type: ignore[type-var]
    glimpses = Glimpses(large=1, small=4, size=(32, 32))
    objective = Dino(outputs=16, hidden=16, bottleneck=8).build(config.build()).train()
    batch = {"large": torch.rand(4, 2, 3, 64, 64), "small": torch.rand(4, 4, 3, 32, 32)}
    measured = kept(objective, lambda: objective(batch)[0]) / 4
    promised = fit.CPU_BYTES / piece(config, 10**9, glimpses.pictures((64, 64)))
    assert 0.5 * measured < promised < 2 * measured


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
    measured = kept(model, lambda: model(torch.rand(4, 3, 64, 64))) / 4
    promised = fit.CPU_BYTES / piece(config, 10**9)
    assert 0.5 * measured < promised < 2 * measured


def kept(module: nn.Module, asked: Callable[[], torch.Tensor]) -> int:
    """The bytes that autograd keeps for the backward pass, beside the parameters."""
    found: dict[int, int] = {}
    parameters = {each.untyped_storage().data_ptr() for each in module.parameters()}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in parameters:
            found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = asked()
    assert output.requires_grad
    return sum(found.values())
