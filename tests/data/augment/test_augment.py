"""Augmenting: every picture by its own address, whatever stands beside it; settings that mean nothing are refused."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor

from patchwords.data.augment import colour
from patchwords.data.augment.augment import Augment, _jitter, augment, erase
from patchwords.data.augment.byol import Byol
from patchwords.data.augment.policy import NoPolicy, RandAugment, ThreeAugment, TrivialAugment
from patchwords.errors import UsageError
from patchwords.settings import read, write

NOTHING = Augment(flip=0.0)
EVERYTHING = {
    "flip": Augment(),
    "deit": Augment(policy=RandAugment(deviation=0.5, probability=0.5), jitter=0.3),
    "timm": Augment(policy=RandAugment(operations=3)),
    "torchvision": Augment(policy=RandAugment(table="torchvision")),
    "big-vision": Augment(policy=RandAugment(table="big-vision", magnitude=15.0)),
    "trivial": Augment(policy=TrivialAugment()),
    "deit 3": Augment(policy=ThreeAugment(), jitter=0.3),
    "jitter": Augment(jitter=0.4),
    "byol": Augment(policy=Byol()),
}


def run(images: Tensor, settings: Augment, seed: int = 0, view: int = 0, first: int = 0) -> Tensor:
    count = len(images)
    return augment(images, settings, seed=seed, views=np.full(count, view), indices=np.arange(first, first + count))


def erased(images: Tensor, probability: float, seed: int = 0, view: int = 0, first: int = 0) -> Tensor:
    count = len(images)
    return erase(images, probability, seed=seed, views=np.full(count, view), indices=np.arange(first, first + count))


@pytest.mark.parametrize("name", EVERYTHING)
@pytest.mark.parametrize("shape", [(3, 37, 45), (1, 16, 16), (5, 9, 12)])
def test_a_batch_is_its_pictures_one_by_one_bit_for_bit(name: str, shape: tuple[int, int, int]) -> None:
    images = torch.rand(24, *shape)
    together = run(images, EVERYTHING[name], seed=3)
    alone = torch.cat([run(images[i : i + 1], EVERYTHING[name], seed=3, first=i) for i in range(24)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("name", EVERYTHING)
def test_pictures_stay_between_black_and_white_and_the_given_ones_stay_as_they_are(name: str) -> None:
    images = torch.rand(64, 3, 24, 20)
    images[:8] = 0
    images[8:16] = 1
    kept = images.clone()
    changed = run(images, EVERYTHING[name])
    assert changed.shape == images.shape
    assert changed.dtype == torch.float32
    assert 0 <= changed.min() <= changed.max() <= 1
    assert not torch.equal(changed, images)
    assert torch.equal(images, kept)


@pytest.mark.parametrize("name", EVERYTHING)
def test_seed_view_and_index_are_the_address(name: str) -> None:
    images = torch.rand(1, 3, 12, 12).expand(64, 3, 12, 12)
    changed = run(images, EVERYTHING[name])
    assert torch.equal(run(images, EVERYTHING[name]), changed)
    for other in ({"seed": 1}, {"view": 1}, {"first": 64}):
        assert not torch.equal(run(images, EVERYTHING[name], **other), changed)


def test_nothing_is_nothing() -> None:
    images = torch.rand(8, 3, 10, 10)
    changed = run(images, NOTHING)
    assert torch.equal(changed, images)
    assert changed.data_ptr() != images.data_ptr()


def test_half_of_the_pictures_are_mirrored() -> None:
    images = torch.rand(1, 3, 5, 4).expand(2000, 3, 5, 4)
    changed = run(images, Augment(flip=0.5))
    is_mirrored = (changed == images.flip(3)).flatten(1).all(1)
    is_same = (changed == images).flatten(1).all(1)
    assert (is_mirrored ^ is_same).all()
    assert is_mirrored.float().mean() == pytest.approx(0.5, abs=0.04)
    assert torch.equal(run(images, Augment(flip=1.0)), images.flip(3))


def test_jitter_is_the_three_factors_in_one_of_six_orders() -> None:
    (image,) = torch.rand(1, 3, 8, 8)
    (changed,) = run(image[None], Augment(flip=0.0, jitter=0.4), seed=5)
    operations = {"brightness": colour.brightness, "contrast": colour.contrast, "colour": colour.colour}
    names, x = [], image[None]
    for round_ in _jitter(0.4, 5, np.array([0]), np.array([0])):
        names.append(str(round_.names[0]))
        x = operations[names[-1]](x, torch.tensor(round_.numbers[:, 0], dtype=torch.float32))
    assert sorted(names) == ["brightness", "colour", "contrast"]
    assert torch.equal(x[0], changed)


def test_jitter_draws_all_orders_and_factors_evenly() -> None:
    rounds = _jitter(0.3, 0, np.zeros(6000, dtype=int), np.arange(6000))
    orders, counts = np.unique(np.stack([round_.names for round_ in rounds], axis=1), axis=0, return_counts=True)
    assert len(orders) == 6
    np.testing.assert_allclose(counts / 6000, 1 / 6, atol=0.02)
    for name in ("brightness", "contrast", "colour"):
        factors = np.concatenate([round_.numbers[round_.names == name, 0] for round_ in rounds])
        assert len(factors) == 6000
        assert factors.min() == pytest.approx(0.7, abs=0.01)
        assert factors.max() == pytest.approx(1.3, abs=0.01)
        assert factors.mean() == pytest.approx(1.0, abs=0.01)


def test_jitter_above_one_makes_no_negative_pictures() -> None:
    rounds = _jitter(1.5, 0, np.zeros(500, dtype=int), np.arange(500))
    assert all(round_.numbers[:, 0].min() >= 0 for round_ in rounds)


def test_grey_pictures_are_augmented_too() -> None:
    images = torch.rand(200, 1, 16, 16)
    changed = run(images, Augment(flip=0.0, policy=RandAugment()))
    assert not torch.equal(changed, images)
    assert 0 <= changed.min() <= changed.max() <= 1


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (2, 2), (3, 1)])
@pytest.mark.parametrize("name", EVERYTHING)
def test_tiny_pictures_pass(name: str, size: tuple[int, int]) -> None:
    images = torch.rand(64, 3, *size)
    assert run(images, EVERYTHING[name]).shape == images.shape
    assert erased(images, 1.0).shape == images.shape


def test_erasing_puts_normal_noise_into_a_rectangle() -> None:
    images = torch.full((300, 3, 40, 48), 7.0)
    changed = erased(images, 1.0)
    is_noise = changed != 7
    assert torch.equal(is_noise[:, 0], is_noise[:, 1])
    rows, columns = is_noise[:, 0].any(2), is_noise[:, 0].any(1)
    assert torch.equal(is_noise[:, 0], rows[:, :, None] & columns[:, None, :])
    share = is_noise.float().mean((1, 2, 3))
    assert share.min() > 0.01
    assert share.max() < 0.36
    noise = changed[is_noise]
    assert noise.mean() == pytest.approx(0, abs=0.02)
    assert noise.std() == pytest.approx(1, abs=0.02)
    assert not torch.equal(changed[0], changed[1])


def test_erasing_happens_as_often_as_asked() -> None:
    images = torch.zeros(4000, 1, 8, 8)
    assert (erased(images, 0.25) != 0).flatten(1).any(1).float().mean() == pytest.approx(0.25, abs=0.03)
    assert torch.equal(erased(images, 0.0), images)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_erasing_does_not_depend_on_the_batch(dtype: torch.dtype) -> None:
    images = torch.randn(12, 3, 21, 17).to(dtype)
    kept = images.clone()
    together = erased(images, 0.6, seed=4)
    alone = torch.cat([erased(images[i : i + 1], 0.6, seed=4, first=i) for i in range(12)])
    assert together.dtype == dtype
    assert torch.equal(together, alone)
    assert torch.equal(images, kept)
    assert not torch.equal(together, erased(images, 0.6, seed=5))
    assert not torch.equal(together, erased(images, 0.6, seed=4, view=1))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"flip": 1.5}, "flip 1.5 is not a probability: choose a number between 0 and 1"),
        ({"erase": -0.1}, "erase -0.1 is not a probability"),
        ({"jitter": -0.1}, "jitter -0.1 is not a finite number from 0 on"),
        ({"jitter": float("inf")}, "jitter inf is not a finite number"),
        ({"repeats": 0}, "repeats 0 is below 1"),
        ({"policy": "randaugment"}, "policy: 'randaugment' is not a part; choose from"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Augment(**settings)


def test_settings_are_read_from_a_recipe() -> None:
    table = {
        "policy": {"kind": "randaugment", "deviation": 0.5, "probability": 0.5},
        "jitter": 0.3,
        "erase": 0.25,
        "repeats": 3,
    }
    wanted = Augment(policy=RandAugment(deviation=0.5, probability=0.5), jitter=0.3, erase=0.25, repeats=3)
    assert read(table, Augment) == wanted
    assert read({"policy": "3-augment"}, Augment).policy == ThreeAugment()
    assert read({}, Augment).policy == NoPolicy()
    for settings in EVERYTHING.values():
        assert read(write(settings), Augment) == settings
    with pytest.raises(UsageError, match="randaugment, trivialaugment, 3-augment"):
        read({"policy": "autoaugment"}, Augment)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("name", EVERYTHING)
def test_a_gpu_makes_about_the_same_pictures_and_is_never_waited_for(name: str) -> None:
    images = torch.rand(64, 3, 64, 80)
    wanted = erased(run(images, EVERYTHING[name]), 0.5)
    there = images.cuda()
    erased(run(there, EVERYTHING[name]), 0.5)  # tables are copied once
    torch.cuda.set_sync_debug_mode("error")
    try:
        made = erased(run(there, EVERYTHING[name]), 0.5)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    apart = (made.cpu() - wanted).abs()
    assert (apart > 1e-4).float().mean() < 1e-3  # a level may fall on the other side of a threshold
    alone = [run(there[i : i + 1], EVERYTHING[name], first=i) for i in range(8)]
    assert torch.equal(torch.cat(alone), run(there, EVERYTHING[name])[:8])


@pytest.mark.gpu
def test_a_gpu_augments_with_deterministic_algorithms_alone() -> None:
    images = torch.rand(64, 3, 64, 64, device="cuda")
    torch.use_deterministic_algorithms(True)
    try:
        for settings, seed in product(EVERYTHING.values(), range(2)):
            assert torch.equal(run(images, settings, seed=seed), run(images, settings, seed=seed))
    finally:
        torch.use_deterministic_algorithms(False)
