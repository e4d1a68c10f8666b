"""The customary way beside ours: timm's loader with its augmentation, and a plain compiled step."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from patchwords.bench.peers import part
from patchwords.data.preprocess import IMAGENET
from patchwords.data.sources.source import Labels, Pixels
from patchwords.speed.precision import Precision, autocast
from patchwords.training.optimizer import AdamW

POLICY = "rand-m9-mstd0.5-inc1"
MIXUP, CUTMIX, SMOOTHING = 0.8, 1.0, 0.1


def loader(
    folder: Path, *, image: tuple[int, int], batch: int, classes: int, workers: int, device: torch.device
) -> Iterable[Any]:
    """timm's own, as its training script sets it up: worker processes, RandAugment, Mixup and CutMix, a prefetcher."""
    data = part("timm", "data")
    return data.create_loader(
        data.ImageDataset(str(folder)),
        input_size=(3, *image),
        batch_size=batch,
        is_training=True,
        auto_augment=POLICY,
        interpolation="random",
        mean=IMAGENET.mean,
        std=IMAGENET.deviation,
        num_workers=workers,
        collate_fn=data.FastCollateMixup(
            mixup_alpha=MIXUP, cutmix_alpha=CUTMIX, label_smoothing=SMOOTHING, num_classes=classes
        ),
        device=device,
        use_prefetcher=True,
        persistent_workers=False,
    )


class Small(Dataset[tuple[Tensor, int]]):
    """Small pictures as such loops have them: Pillow's, with torchvision's transforms."""

    def __init__(self, pixels: Pixels, labels: Labels):
        transforms = part("torchvision", "transforms")
        self.pictures = [Image.fromarray(each) for each in pixels]
        self.labels = labels
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(pixels.shape[1:3], padding=4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
            ]
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.pictures[index]), int(self.labels[index])


def small_loader(pixels: Pixels, labels: Labels, *, batch: int, workers: int) -> Iterable[Any]:
    """torch's own loader with worker processes that stay."""
    return DataLoader(
        Small(pixels, labels),
        batch,
        shuffle=True,
        num_workers=workers,
        pin_memory=torch.cuda.is_available(),
        drop_last=True,
        persistent_workers=workers > 0,
    )


def stepping(
    module: nn.Module, settings: AdamW, precision: Precision, device: torch.device, *, compiled: bool
) -> Callable[[Any, int], Tensor]:
    """A step on pictures and targets: autocast, the fused AdamW, and the compiler if wanted."""
    module.to(device).train()
    descent = torch.optim.AdamW(module.parameters(), lr=settings.lr, weight_decay=settings.decay, fused=True)
    function = torch.compile(module, dynamic=False) if compiled else module

    def step(loaded: Any, number: int) -> Tensor:
        images, target = (tensor.to(device, non_blocking=True) for tensor in loaded)
        descent.zero_grad(set_to_none=True)
        with autocast(precision, device):
            loss = F.cross_entropy(function(images), target)
        loss.backward()
        descent.step()
        return loss.detach()

    return step
