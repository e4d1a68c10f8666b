"""LAMB (You et al., 2020, Algorithm 2): Adam's update with the decay added, as long as the weight it moves."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from patchwords.training.groups import Group


class Lamb(Optimizer):
    """The paper's law with φ(‖x‖) = ‖x‖, for every tensor by itself.

    A group with `decays` False (biases, norms, tokens) is moved by r as it is, which the paper does not say, and timm
    and DeiT-III do: many of them begin at zero, where a length says nothing of how far to go.
    """

    def __init__(self, groups: list[Group], lr: float, betas: tuple[float, float], epsilon: float) -> None:
        defaults = {"lr": lr, "betas": betas, "epsilon": epsilon, "weight_decay": 0.0, "decays": True}
        defaults |= {"capturable": True}  # all that changes is on the device, and nothing waits for it
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            if weights := [weight for weight in group["params"] if weight.grad is not None]:
                self._move(group, weights, [weight.grad for weight in weights])
        return loss

    def _move(self, group: Group, x: list[Tensor], g: list[Tensor]) -> None:
        (beta1, beta2), slots = group["betas"], [self._slots(weight) for weight in x]
        m, v = [each["exp_avg"] for each in slots], [each["exp_avg_sq"] for each in slots]
        steps = [each["step"] for each in slots]
        torch._foreach_add_(steps, 1)
        torch._foreach_lerp_(m, g, 1 - beta1)  # m = β1 m + (1 - β1) g
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, g, g, 1 - beta2)  # v = β2 v + (1 - β2) g²
        r = torch._foreach_div(m, _reached(beta1, steps))  # both begin at zero, and are corrected for it
        root = torch._foreach_div(v, _reached(beta2, steps))
        torch._foreach_sqrt_(root)
        torch._foreach_add_(root, group["epsilon"])
        torch._foreach_div_(r, root)
        torch._foreach_add_(r, x, alpha=group["weight_decay"])  # r = m̂ / (√v̂ + ε) + λ x
        if group["decays"]:
            torch._foreach_mul_(r, _trust(x, r))
        torch._foreach_mul_(r, group["lr"])
        torch._foreach_sub_(x, r)  # x = x - η ‖x‖ / ‖r‖ r

    def _slots(self, weight: Tensor) -> dict[str, Tensor]:
        slots: dict[str, Tensor] = self.state[weight]
        if not slots:
            slots |= {"step": torch.zeros((), dtype=torch.float32, device=weight.device)}
            slots |= {name: torch.zeros_like(weight) for name in ("exp_avg", "exp_avg_sq")}
        return slots


def _reached(beta: float, steps: list[Tensor]) -> tuple[Tensor, ...]:
    """1 - β^step, the share of its end that a mean has reached; to the last digits even where β is almost 1."""
    return torch.stack(steps).mul_(math.log(beta) if beta else -math.inf).expm1_().neg_().unbind()


def _trust(x: list[Tensor], r: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """‖x‖ / ‖r‖ of every tensor, and 1 where either is zero: what is zero must be able to leave it."""
    lengths, moves = torch.stack(torch._foreach_norm(x)), torch.stack(torch._foreach_norm(r))
    return torch.where((lengths > 0) & (moves > 0), lengths / moves, 1.0).unbind()
