"""Pictures made on the spot: files for loaders that look like photographs to a decoder, and gratings to learn from."""

import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from patchwords.data.sources.source import Pixels

HEIGHT, WIDTH = 375, 500  # of a usual photograph on the web
BYTES = 100_000
DISTINCT = 1024  # files that differ; the others are further names of these
OCTAVES = 8
TURNS, LENGTHS = 10, 10  # angles and wave lengths that tell the classes of gratings apart
WIDE = 0.9  # of the way to its neighbour a class reaches: some pictures are hard to tell, as some always are


def photographs(folder: Path, count: int, classes: int, *, seed: int = 0) -> Path:
    """So many JPEG files of about 100 KB in class folders; detail at every scale, as photographs have it."""
    random = np.random.default_rng(seed)
    scene = _scene(random)
    views = [_view(scene, random) for _ in range(min(count, DISTINCT))]
    quality = _quality(views[:4])
    with ThreadPoolExecutor() as threads:
        files = list(threads.map(lambda view: _jpeg(view, quality), views))
    for number in range(classes):
        (folder / f"class-{number:04}").mkdir(parents=True)
    for number in range(count):
        place = folder / f"class-{number % classes:04}" / f"{number:07}.jpg"
        if number < len(files):
            place.write_bytes(files[number])
        else:
            twin = number % len(files)
            os.link(folder / f"class-{twin % classes:04}" / f"{twin:07}.jpg", place)
    return folder


def shelf() -> Path | None:
    """A folder in memory, where there is one: what is measured is the loader, not the disk."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and os.access(memory, os.W_OK) else None


def gratings(
    count: int, classes: int, image: tuple[int, int], device: torch.device, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """uint8 pictures of waves whose angle and length tell their class, under noise, and the labels."""
    labels = torch.randint(classes, (count,), device=device, generator=generator)
    drawn = torch.rand(count, 6, device=device, generator=generator)
    angle = math.pi * (labels % TURNS + WIDE * drawn[:, 0]) / TURNS
    length = 5 * 1.25 ** ((labels // TURNS) % LENGTHS + WIDE * drawn[:, 1])
    rows, cols = (torch.arange(side, device=device, dtype=torch.float32) for side in image)
    along = angle.cos()[:, None, None] * rows[:, None] + angle.sin()[:, None, None] * cols
    wave = torch.sin(2 * math.pi * (along / length[:, None, None] + drawn[:, 2, None, None]))
    noise = torch.randn(count, 3, *image, device=device, generator=generator)
    tint = 0.3 + 0.4 * drawn[:, 3:, None, None]
    pixels = 255 * (tint + 0.15 * wave[:, None] + 0.15 * noise)
    return pixels.clamp(0, 255).to(torch.uint8), labels


def _scene(random: np.random.Generator) -> Pixels:
    """Noise of many scales, the finer the fainter, four times as large as a picture."""
    size = (2 * HEIGHT, 2 * WIDTH)
    total = np.zeros((3, *size), dtype=np.float32)
    for octave in range(OCTAVES):
        cells = [max(2, side >> (OCTAVES - 1 - octave)) for side in size]
        noise = torch.from_numpy(random.standard_normal((1, 3, *cells), dtype=np.float32))
        total += F.interpolate(noise, size, mode="bilinear")[0].numpy() * 0.9**octave
    total = (total - total.min()) / (total.max() - total.min())
    return (255 * total).astype(np.uint8).transpose(1, 2, 0)


def _view(scene: Pixels, random: np.random.Generator) -> Pixels:
    """A part of the scene, turned over or not, in a light of its own."""
    top, left = (int(random.integers(0, side + 1)) for side in (HEIGHT, WIDTH))
    view = scene[top : top + HEIGHT, left : left + WIDTH, random.permutation(3)]
    view = view[:, ::-1] if random.random() < 0.5 else view
    return np.clip(view * random.uniform(0.8, 1.2) + random.uniform(-20, 20), 0, 255).astype(np.uint8)


def _quality(views: list[Pixels]) -> int:
    """The one at which files are nearest to the size wanted."""
    return min(
        range(60, 99), key=lambda quality: abs(sum(len(_jpeg(view, quality)) for view in views) - BYTES * len(views))
    )


def _jpeg(view: Pixels, quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(view).save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()
