"""How many pictures fit: the batch where the recipe leaves it open, and the pieces in which a CPU takes it."""

from dataclasses import replace

import torch
from torch import Tensor

from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.speed.attention import fastest
from patchwords.speed.precision import autocast
from patchwords.speed.prepare import prepare
from patchwords.training.distributed import World
from patchwords.training.recipe import Recipe

LARGEST = 1024
SPARED = 0.8  # of a GPU's memory is used at most
CPU_BYTES = 2 << 30  # of activations at a time; without a GPU's error message there is only the system's killer
RESNET_PIECE = 32


def settled(recipe: Recipe, model: Model, samples: int, world: World) -> Recipe:
    """The recipe with numbers where it said `auto` or nothing; the first process decides."""
    batch = recipe.batch
    if batch == "auto":
        most = max(8, 1 << (max(samples // 8, 8)).bit_length() - 1)  # at least eight steps an epoch
        batch = min(LARGEST, most, _largest(recipe, model, world) if world.device.type == "cuda" else 64)
        batch = world.told(batch * world.size)
    if world.size > 1 and batch < 2 * world.size:
        raise UsageError(f"batch {batch} is too small for {world.size} processes: two pictures each at least")
    crops = recipe.data.glimpses.pictures(model.config.image)
    micro = recipe.micro or (piece(model.config, batch, crops) if world.device.type == "cpu" else batch)
    return replace(recipe, batch=batch, micro=micro)


def piece(config: Config, batch: int, crops: float = 1.0) -> int:
    """Pictures at a time whose activations fit a small computer, an even number; of each the model sees so many."""
    match config:
        case ViTConfig():
            kept = config.depth * config.tokens * (10 * config.width + 2 * config.mlp)
        case SwinConfig():
            stages = zip(config.depths, config.grids, config.widths, strict=True)
            kept = sum(depth * rows * cols * (10 + 2 * config.mlp) * width for depth, (rows, cols), width in stages)
        case _:
            return min(batch, _even(RESNET_PIECE / crops))
    return min(batch, _even(CPU_BYTES / (4 * kept * crops)))  # four bytes each, saved for the backward pass


def _even(number: float) -> int:
    """So many pairs, and one at least."""
    return max(2, int(number) // 2 * 2)


def _largest(recipe: Recipe, model: Model, world: World) -> int:
    """The largest power of two that takes a step on this GPU."""
    model.to(world.device).train()
    prepare(
        model,
        kernels=recipe.kernels,
        recomputed=recipe.recompute,
        compiled=False,
        device=world.device,
        precision=recipe.precision,
        note=lambda _: None,  # the run says it when it is prepared itself
    )
    size, free = 8, torch.cuda.mem_get_info(world.device)[0] * SPARED
    while size < LARGEST and _takes(recipe, model, 2 * size, world.device) < free:
        size *= 2
    model.zero_grad(set_to_none=True)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(world.device)  # the run's own peak begins here
    return size


def _takes(recipe: Recipe, model: Model, size: int, device: torch.device) -> float:
    """Bytes at most for one step, or infinitely many."""
    torch.cuda.reset_peak_memory_stats(device)
    try:
        with fastest(device), autocast(recipe.precision, device):
            _answered(recipe, model, size, device).backward()
    except torch.OutOfMemoryError:
        return float("inf")
    return torch.cuda.max_memory_allocated(device)


def _answered(recipe: Recipe, model: Model, size: int, device: torch.device) -> Tensor:
    """A sum over what the model says of all crops of so many black pictures; the small ones are asked about apart."""
    config, glimpses = model.config, recipe.data.glimpses
    whole = torch.zeros(size * (1 + glimpses.large), config.channels, *config.image, device=device)
    said: Tensor = model(whole).sum()
    if not glimpses.small:
        return said
    small = torch.zeros(size * glimpses.small, config.channels, *glimpses.size, device=device)
    return said + model.glimpse(small).sum()
