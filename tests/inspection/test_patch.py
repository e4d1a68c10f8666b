"""One patch of one layer: its row of the weights, on the grid."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.inspection.patch import patch_attention
from patchwords.layers.position import Relative
from patchwords.models.names import Config
from patchwords.models.vit import ViT, ViTConfig

Randomise = Callable[[nn.Module], nn.Module]

PLAIN = ViTConfig(depth=3, width=16, mlp=24, heads=2, patch=(8, 8), image=(32, 24), classes=5)


@pytest.fixture(params=["plain", "registers", "relative"])
def model(request: pytest.FixtureRequest, randomised: Randomise) -> ViT:
    kinds = {
        "plain": PLAIN,
        "registers": replace(PLAIN, special=("class", "register", "register")),
        "relative": replace(PLAIN, position=Relative(std=1.0)),
    }
    return randomised(kinds[request.param].build()).eval()


def images(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 32, 24)


@pytest.mark.parametrize("layer", [1, 3])
@pytest.mark.parametrize("place", [(1, 1), (3, 2), (4, 3)])
def test_the_weights_of_a_patch_are_its_row_on_the_grid(model: ViT, layer: int, place: tuple[int, int]) -> None:
    pictures, special = images(), len(model.config.special)
    found = patch_attention(model, pictures, layer, place)
    assert found.patches.shape == (2, 2, 4, 3)
    assert found.special.shape == (2, 2, special)
    with torch.inference_mode():
        (weights,) = model.attention(pictures, at=[layer])
    row = weights[:, :, special + 3 * (place[0] - 1) + place[1] - 1]
    torch.testing.assert_close(found.patches.flatten(2), row[..., special:])
    torch.testing.assert_close(found.special, row[..., :special])


def test_patches_and_special_tokens_together_have_all_of_the_attention(model: ViT) -> None:
    found = patch_attention(model, images(), 2, (1, 1))
    torch.testing.assert_close(found.patches.sum((2, 3)) + found.special.sum(2), torch.ones(2, 2))


@pytest.mark.parametrize("layer", [0, 4, -1])
def test_a_layer_that_is_not_there_is_refused(model: ViT, layer: int) -> None:
    with pytest.raises(UsageError, match=f"there is no layer {layer}: layers are numbered 1 to 3"):
        patch_attention(model, images(), layer, (1, 1))


@pytest.mark.parametrize("place", [(5, 1), (1, 4), (0, 1), (1, 0), (-1, 1)])
def test_a_patch_outside_of_the_grid_is_refused(model: ViT, place: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=f"no patch in row {place[0]}, column {place[1]}: rows .* 1 to 4, .* 1 to 3"):
        patch_attention(model, images(), 1, place)


@pytest.mark.parametrize("small_config", ["axial", "axial relative", "resnet pre"], indirect=True)
def test_a_model_without_attention_between_all_tokens_is_refused(small_config: Config) -> None:
    pictures = torch.zeros(1, small_config.channels, *small_config.image)
    with pytest.raises(UsageError, match=r"a ResNet has no attention weights|attention has no weights between"):
        patch_attention(small_config.build(), pictures, 1, (1, 1))
