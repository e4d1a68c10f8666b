"""Polyak averaging: the model that is evaluated and kept is a moving average of the one that is trained."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from patchwords.errors import ModelError


class Average:
    """A moving average of all that a model saves: its parameters, and its buffers with them.

    A share `decay` of the average stays at each step, less at first: (1 + step) / (10 + step) until that is larger,
    so that a short run is not held at its random start.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        followed = model.state_dict()  # where the model's tensors are, for good: a step should not ask again
        self.tensors = {name: tensor.clone() for name, tensor in followed.items()}
        pairs = [(self.tensors[name], tensor) for name, tensor in followed.items()]
        self.smooth = [pair for pair in pairs if pair[0].is_floating_point()]
        self.counts = [pair for pair in pairs if not pair[0].is_floating_point()]  # which have no average

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Takes in the model after the update with this number, from 0."""
        kept = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_([old for old, _ in self.smooth], [new for _, new in self.smooth], 1 - kept)
        for old, new in self.counts:
            old.copy_(new)

    def state(self) -> dict[str, Tensor]:
        """The averaged tensors under the model's names."""
        return dict(self.tensors)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """What `state` gave, taken back."""
        for name in sorted(self.tensors.keys() | tensors.keys()):
            given, known = tensors.get(name), self.tensors.get(name)
            if given is None or known is None or given.shape != known.shape or given.dtype != known.dtype:
                raise ModelError(
                    f"the saved average does not fit the model at {name}: it holds {_described(given)}, "
                    f"the model has {_described(known)}"
                )
        _copy(tensors, self.tensors)

    def copy_to(self, model: nn.Module) -> None:
        """Puts the average into a model."""
        _copy(self.tensors, model.state_dict())

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """The model is the average inside, and afterwards what it was, to the bit."""
        trained = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        try:
            self.copy_to(model)
            yield
        finally:
            _copy(trained, model.state_dict())


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])


def _described(tensor: Tensor | None) -> str:
    return "none" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
