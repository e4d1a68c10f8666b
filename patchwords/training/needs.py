"""Whether the data gives what an objective reads, and no crops that nobody would look at: said before training."""

import numpy as np
import torch

from patchwords.data.finish import Finish
from patchwords.data.picture import Size
from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.objectives.objective import Objective
from patchwords.training.recipe import Recipe

CROPS = "large"  # the key of a batch under which all large crops of a picture stand together


def expect_needs(objective: Objective, recipe: Recipe, finish: Finish) -> None:
    """Refuses a recipe whose objective and crops do not go together."""
    one = np.zeros(1, dtype=np.int64)
    given = {*finish.gives, *objective.drawn(recipe.seed, one, one)}
    kind, glimpses = recipe.objective.kind, recipe.data.glimpses
    if lacking := [key for key in objective.needs if key not in given]:
        raise UsageError(f"objective {kind} needs further crops ({', '.join(lacking)}): set data.glimpses.large = 1")
    if glimpses.gives and CROPS not in objective.needs:
        raise UsageError(
            f"objective {kind} sees one crop of a picture, and data.glimpses gives {glimpses.large + glimpses.small} "
            "more: set data.glimpses.large and data.glimpses.small to 0"
        )
    if glimpses.small:
        _expect_small(objective.model, glimpses.size)


@torch.no_grad()
def _expect_small(model: Model, size: Size) -> None:
    """Asks the model about one black crop."""
    place = next(model.parameters()).device
    try:
        model.eval().glimpse(torch.zeros(1, model.config.channels, *size, device=place))
    except UsageError as error:
        raise UsageError(f"small crops of {size[0]}x{size[1]} pixels (data.glimpses.size): {error}") from None
