"""A model as a graph of torch's operators, for a batch of any number of pictures."""

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from patchwords.errors import ModelError
from patchwords.export.pixels import OfPixels
from patchwords.export.quiet import quiet
from patchwords.export.sizes import steps
from patchwords.export.wish import Wish
from patchwords.models.names import Config
from patchwords.weights.subject import Subject

BATCH = 2  # of the pictures that are shown while it is traced; one would be taken for all there ever are
LEAST, MOST = 2, 256  # steps of a side, where it may be any


@torch.no_grad()
def trace(subject: Subject, wish: Wish) -> ExportedProgram:
    """The graph; where each operator was called from, which names files of this machine, is left out."""
    config = subject.card.model
    height, width = steps(config) if wish.sizes == "any" else (1, 1)
    dims = {0: Dim("batch", min=1), **(_sides(wish, height, width) if wish.sizes == "any" else {})}
    module, example = _module(subject, wish), _example(config, wish)
    try:
        with quiet():
            program = torch.export.export(module.eval(), (example,), dynamic_shapes=(dims,))
    except Exception as error:  # whatever the tracer, or a model that looks at its input, has to say
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{subject.name} cannot be exported: {type(error).__name__} {reason}") from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    return program


def _module(subject: Subject, wish: Wish) -> nn.Module:
    return OfPixels(subject.model, subject.card.preprocess) if wish.input == "pixels" else subject.model


def _sides(wish: Wish, height: int, width: int) -> dict[int, object]:
    """The axes of height and width, in steps that the model can take."""
    axes = (1, 2) if wish.input == "pixels" else (2, 3)
    names = zip(axes, ("height", "width"), (height, width), strict=True)
    return {axis: step * Dim(name, min=LEAST, max=MOST) for axis, name, step in names}


def _example(config: Config, wish: Wish) -> Tensor:
    """Pictures to trace with, of the model's size; of any size, of one that no other axis has."""
    size = config.image
    if wish.sizes == "any":
        down, across = steps(config)
        size = (7 * down, 6 * across)
    if wish.input == "pixels":
        return torch.zeros(BATCH, *size, config.channels, dtype=torch.uint8)
    return torch.zeros(BATCH, config.channels, *size)
