"""The kernel of a round does to every picture what the groups of operations do."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from patchwords.data.augment import colour, geometry, rounds
from patchwords.data.augment.augment import Augment, augment
from patchwords.data.augment.policy import Policy, RandAugment, ThreeAugment, TrivialAugment
from patchwords.data.augment.rounds import OPERATIONS, Round, fastest, run
from patchwords.ops.draws import Numbers

triton = pytest.importorskip("patchwords.data.augment.rounds_triton", reason="Triton is not installed")

COUNT, SIZE = 6, (14, 17)


def numbers(name: str) -> list[Numbers]:
    """Some for each operation, over all that it may be asked for."""
    random = np.random.default_rng()
    warps = np.concatenate(
        [
            geometry.rotation(random.uniform(-40, 40, 2), SIZE),
            geometry.shear_x(random.uniform(-0.5, 0.5, 2), SIZE),
            geometry.translation_y(random.uniform(-6, 6, 2), SIZE),
        ],
        axis=1,
    )
    hole = geometry.square(random.uniform(1, 5, COUNT), random.random((2, COUNT)), SIZE)
    given: dict[str, list[Numbers]] = {
        "bilinear": [*warps, np.full(COUNT, 0.5)],
        "nearest": [*warps, np.full(COUNT, 0.25)],
        "cover": [*hole, np.full(COUNT, 0.4)],
        "posterise": [2.0 ** random.integers(0, 8, COUNT)],
        "solarise": [random.integers(0, 257, COUNT).astype(np.float64)],
        "solarise-add": [random.integers(0, 111, COUNT).astype(np.float64)],
        "hue": [random.uniform(-0.5, 0.5, COUNT)],
        "blur": list(colour.gaussian_taps(random.uniform(0.1, 2.0, COUNT))),
    }
    return given.get(name, [random.uniform(0.1, 1.9, COUNT)])


def pictures(kind: torch.dtype, device: torch.device, channels: int = 3) -> Tensor:
    levels = torch.randint(0, 256, (COUNT, channels, *SIZE), dtype=torch.uint8, device=device)
    return levels if kind == torch.uint8 else levels / 255


def assert_twins(given: Tensor, drawn: list[Round]) -> None:
    before = given.clone()
    found, wanted = triton.run(given, drawn), run(given, drawn)
    assert found.dtype == torch.float32
    assert torch.equal(given, before)
    torch.testing.assert_close(found, wanted, rtol=0, atol=5e-6)


KINDS = pytest.mark.parametrize("kind", [torch.uint8, torch.float32], ids=str)
CPU = torch.device("cpu")
POLICIES: list[Policy] = [
    RandAugment(deviation=0.5, probability=0.8),
    RandAugment(table="big-vision", magnitude=12),
    TrivialAugment(),
    ThreeAugment(),
]


@KINDS
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_its_twin(name: str, kind: torch.dtype, device: torch.device) -> None:
    drawn = Round.empty(COUNT)
    chosen = np.array([0, 2, 3, 5])  # the others stay as they are
    drawn.put(chosen, name, *(column[chosen] for column in numbers(name)))
    assert_twins(pictures(kind, device), [drawn])


@KINDS
@pytest.mark.parametrize("name", triton.LOOKING)
def test_large_and_flat_pictures_are_known_as_a_whole(name: str, kind: torch.dtype, device: torch.device) -> None:
    """More pixels than are looked at together; a channel of one value, and pictures of two and of few levels."""
    given = torch.randint(0, 256, (4, 3, 97, 83), dtype=torch.uint8, device=device)
    given[0, 1] = 77
    given[1] = 255 * (given[1] > 200)
    given[2] = given[2] // 64 + 128
    given[3] = 0
    drawn = Round.empty(4)
    drawn.put(np.arange(4), name, np.random.default_rng().uniform(0.1, 1.9, 4))
    assert_twins(given if kind == torch.uint8 else given / 255, [drawn])


def test_what_the_kernel_knows_are_operations() -> None:
    assert set(triton.NAMES) <= {"identity", *OPERATIONS}


@KINDS
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.kind} {getattr(policy, 'table', '')}")
def test_whole_policies_come_out_alike(policy: Policy, kind: torch.dtype, device: torch.device) -> None:
    """The operations after the first may be cut at a level: a few pixels in the next one."""
    given, settings = pictures(kind, device), Augment(policy=policy)
    changed = partial(augment, given, settings, seed=3, views=np.arange(COUNT) % 2, indices=np.arange(COUNT))
    difference = (changed(run=triton.run) - changed(run=run)).abs()
    assert (difference > 5e-6).float().mean() < 0.01


@pytest.mark.parametrize("channels", [1, 4])
def test_other_than_three_channels_go_to_the_twin(channels: int, device: torch.device) -> None:
    drawn = Round.empty(COUNT)
    drawn.put(np.arange(COUNT), "invert")
    assert_twins(pictures(torch.uint8, device, channels), [drawn])


def test_no_rounds_leave_the_pictures(device: torch.device) -> None:
    assert_twins(pictures(torch.uint8, device), [])
    assert_twins(pictures(torch.float32, device), [Round.empty(COUNT)])


def test_the_kernel_is_for_gpus_and_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    assert fastest(CPU, notes.append) is run
    assert fastest(torch.device("cuda"), notes.append) is triton.run
    assert notes == []
    monkeypatch.setattr(rounds, "find_spec", lambda name: None)
    assert fastest(torch.device("cuda"), notes.append) is run
    (note,) = notes
    assert "Triton is not installed" in note
