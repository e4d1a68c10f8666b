"""Which models take pictures of any size."""

import pytest

from patchwords.errors import UsageError
from patchwords.export.sizes import steps
from patchwords.models.names import read


@pytest.mark.parametrize(("name", "step"), [("BiT-R50x1", 32), ("R26x1", 32)])
def test_resnets_do_in_steps_of_their_stride(name: str, step: int) -> None:
    assert steps(read(name)) == (step, step)


@pytest.mark.parametrize(("config", "step"), [("no positions", (8, 8)), ("resnet post", (8, 8))])
def test_so_do_vits_without_positions(small_configs, config: str, step: tuple[int, int]) -> None:
    assert steps(small_configs[config]) == step


@pytest.mark.parametrize("name", ["ViT-B/16", "Swin-T", "BEiT-B/16", "R26+ViT-S/32", "DALL-E"])
def test_others_are_for_one_size(name: str) -> None:
    with pytest.raises(UsageError, match="--image"):
        steps(read(name))
