"""The last steps on the device: augmented, normalised, erased and mixed, each by its own setting and its own draws."""

import numpy as np
import pytest
import torch
from torch import Tensor

from patchwords.data.augment.augment import Augment, augment, erase
from patchwords.data.finish import Finish
from patchwords.data.mix import Mix, mix
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.transforms import normalise, standardise

PLAIN = Augment(flip=0.0)
COUNT, CLASSES = 12, 5


@pytest.fixture
def images() -> Tensor:
    return torch.randint(0, 256, (COUNT, 3, 8, 10), dtype=torch.uint8)


LABELS = torch.arange(COUNT) % CLASSES
INDICES, VIEWS = np.arange(100, 100 + COUNT), np.arange(COUNT) % 3


def finished(
    images: Tensor,
    augmented: Augment = PLAIN,
    mixed: Mix = Mix(),  # noqa: B008
    preprocess: Preprocess = IMAGENET,
    *,
    part: slice = slice(None),
    seed: int = 3,
    step: int = 7,
    progress: float = 0.0,
) -> dict[str, Tensor]:
    finish = Finish(augmented, mixed, preprocess, CLASSES, seed)
    return finish(images[part], LABELS[part], indices=INDICES[part], views=VIEWS[part], step=step, progress=progress)


def test_without_augmentation_training_sees_what_evaluation_sees(images: Tensor) -> None:
    batch = finished(images)
    assert batch.keys() == {"image", "target"}
    assert batch["image"].dtype == torch.float32
    assert torch.equal(batch["image"], normalise(images, IMAGENET))


def test_targets_are_one_at_the_label(images: Tensor) -> None:
    target = finished(images)["target"]
    assert target.shape == (COUNT, CLASSES)
    assert torch.equal(target, torch.nn.functional.one_hot(LABELS, CLASSES).float())


def test_the_steps_come_in_this_order(images: Tensor) -> None:
    settings, mixing = Augment(flip=0.5, jitter=0.4, erase=0.8), Mix(mixup=0.8)
    x = augment(images.float() / 255, settings, seed=3, views=VIEWS, indices=INDICES)
    x = erase(standardise(x, IMAGENET), 0.8, seed=3, views=VIEWS, indices=INDICES)
    target = torch.nn.functional.one_hot(LABELS, CLASSES).float()
    x, target = mix(x, target, mixing, seed=3, step=7, progress=0.25)
    batch = finished(images, settings, mixing, progress=0.25)
    assert torch.equal(batch["image"], x)
    assert torch.equal(batch["target"], target)


EVERYTHING = Augment(flip=0.5, jitter=0.4, erase=0.5)
MIXED = Mix(mixup=0.8, cutmix=1.0)


@pytest.mark.parametrize("size", [2, 4, 6, 12])
def test_pieces_of_whole_pairs_give_the_same_as_the_whole_batch(images: Tensor, size: int) -> None:
    whole = finished(images, EVERYTHING, MIXED)
    pieces = [finished(images, EVERYTHING, MIXED, part=slice(start, start + size)) for start in range(0, COUNT, size)]
    for name in ("image", "target"):
        torch.testing.assert_close(torch.cat([piece[name] for piece in pieces]), whole[name], rtol=0, atol=1e-5)


def test_the_same_address_gives_the_same_batch_and_another_step_or_seed_another(images: Tensor) -> None:
    once = finished(images, EVERYTHING, MIXED)["image"]
    torch.manual_seed(99)  # torch's own numbers have no say
    assert torch.equal(finished(images, EVERYTHING, MIXED)["image"], once)
    assert not torch.equal(finished(images, EVERYTHING, MIXED, step=8)["image"], once)
    assert not torch.equal(finished(images, EVERYTHING, MIXED, seed=4)["image"], once)


def test_targets_stay_shares_of_one(images: Tensor) -> None:
    for step in range(10):
        target = finished(images, EVERYTHING, MIXED, step=step)["target"]
        torch.testing.assert_close(target.sum(1), torch.ones(COUNT))
        assert target.min() >= 0


def test_mixing_ends_when_the_recipe_says(images: Tensor) -> None:
    mixing = Mix(mixup=0.8, until=0.5)
    assert finished(images, PLAIN, mixing, progress=0.49)["target"].max(1).values.min() < 1
    assert finished(images, PLAIN, mixing, progress=0.5)["target"].max(1).values.min() == 1


def test_the_pictures_that_were_given_are_left_as_they_are(images: Tensor) -> None:
    before = images.clone()
    finished(images, EVERYTHING, MIXED)
    assert torch.equal(images, before)
