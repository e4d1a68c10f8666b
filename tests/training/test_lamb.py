"""LAMB's law where it is easily read: lengths, the start, the exceptions."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from patchwords.training.lamb import Lamb


def lamb(*weights: Tensor, decays: bool = True, decay: float = 0.0) -> Lamb:
    group: dict[str, Any] = {"params": list(weights), "weight_decay": decay, "decays": decays}
    return Lamb([group], lr=0.01, betas=(0.9, 0.999), epsilon=1e-6)


def weight(*values: float, gradient: tuple[float, ...]) -> nn.Parameter:
    parameter = nn.Parameter(torch.tensor(values))
    parameter.grad = torch.tensor(gradient)
    return parameter


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_weight_of_any_length_moves_by_the_rate_times_that_length(size: float) -> None:
    x = weight(3 * size, 4 * size, gradient=(7.0, -2.0))
    start = x.detach().clone()
    lamb(x).step()
    assert_close((x - start).norm(), torch.tensor(0.01 * 5 * size), rtol=1e-3, atol=0.0)


def test_the_first_step_goes_by_the_gradients_signs_because_both_moments_are_corrected() -> None:
    x = weight(3.0, 4.0, gradient=(70.0, -0.2))
    lamb(x, decays=False).step()
    assert_close(x.detach(), torch.tensor([3.0 - 0.01, 4.0 + 0.01]))


def test_a_weight_that_joins_later_is_corrected_from_its_own_first_step() -> None:
    early, late = weight(3.0, gradient=(1.0,)), weight(4.0, gradient=(1.0,))
    optimizer, late.grad = lamb(early, late, decays=False), None
    optimizer.step()
    late.grad = torch.tensor([50.0])
    optimizer.step()
    assert_close(late.detach(), torch.tensor([4.0 - 0.01]))
    assert [optimizer.state[each]["step"].item() for each in (early, late)] == [2, 1]


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.0), (0.5, 0.999999)])
@pytest.mark.parametrize("steps", [1, 2, 1000])
def test_the_correction_is_exact_where_a_beta_is_almost_one(betas: tuple[float, float], steps: int) -> None:
    """In single precision 1 - 0.999999 has two digits left; the moments of a constant gradient are its own."""
    x = weight(3.0, gradient=(2.0,))
    optimizer = Lamb([{"params": [x], "decays": False}], lr=0.01, betas=betas, epsilon=1e-12)
    optimizer.state[x] |= {"step": torch.tensor(steps - 1.0)}
    optimizer.state[x] |= {"exp_avg": torch.tensor([2 * (1 - betas[0] ** (steps - 1))])}
    optimizer.state[x] |= {"exp_avg_sq": torch.tensor([4 * (1 - betas[1] ** (steps - 1))])}
    optimizer.step()
    assert_close(x.detach(), torch.tensor([3.0 - 0.01]), rtol=1e-6, atol=0.0)


def test_the_decay_is_part_of_what_is_scaled() -> None:
    x = weight(3.0, 4.0, gradient=(0.0, 0.0))
    lamb(x, decay=0.5).step()
    assert_close(x.detach(), torch.tensor([3.0, 4.0]) * (1 - 0.01))  # whatever the decay: r is along x, and as long


def test_a_weight_of_zeros_leaves_zero_and_one_without_a_gradient_stays() -> None:
    zeros, still = weight(0.0, 0.0, gradient=(5.0, -5.0)), weight(3.0, 4.0, gradient=(0.0, 0.0))
    lamb(zeros, still).step()
    assert_close(zeros.detach(), torch.tensor([-0.01, 0.01]))
    assert torch.equal(still.detach(), torch.tensor([3.0, 4.0]))


def test_what_never_decays_is_not_scaled() -> None:
    x = weight(300.0, gradient=(5.0,))
    lamb(x, decays=False).step()
    assert_close(x.detach(), torch.tensor([300.0 - 0.01]))


def test_a_closure_computes_the_gradients_and_gives_the_loss() -> None:
    x = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = lamb(x)

    def closure() -> Tensor:
        loss = (x**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 25
    assert x.detach().norm() < 5


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_never_waits_for_the_gpu_and_is_that_of_the_cpu() -> None:
    torch.manual_seed(0)
    here = [nn.Parameter(torch.randn(64, 32)), nn.Parameter(torch.zeros(8, 8))]
    there = [nn.Parameter(x.detach().cuda()) for x in here]
    slow, fast = lamb(*here, decay=0.1), lamb(*there, decay=0.1)
    for _ in range(3):
        for x, y in zip(here, there, strict=True):
            x.grad = torch.randn_like(x)
            y.grad = x.grad.cuda()
        slow.step()
        torch.cuda.set_sync_debug_mode("error")
        try:
            fast.step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    for x, y in zip(here, there, strict=True):
        assert_close(y.detach().cpu(), x.detach(), rtol=1e-5, atol=1e-6)
