"""One question to every model, where it looks: rollout, evidence, or a sentence."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.inspection.rollout import attention_map
from patchwords.inspection.sight import sight
from patchwords.models.names import Config

Randomise = Callable[[nn.Module], nn.Module]


def images(config: Config, batch: int = 3) -> Tensor:
    return torch.randn(batch, config.channels, *config.image)


def test_every_model_shows_where_it_looks_or_says_that_it_cannot(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    pictures = images(small_config)
    if model.shows == "nothing":
        with pytest.raises(UsageError, match="cannot show where it looks"):
            sight(model, pictures)
        return
    found = sight(model, pictures)
    assert found.kind == {"gaze": "rollout", "evidence": "evidence"}[model.shows]
    assert len(found.maps) == 3
    assert found.maps.ndim == 3
    assert found.maps.dtype == np.float32
    assert found.maps.min() >= 0
    assert np.isfinite(found.maps).all()


@pytest.mark.parametrize("small_config", ["plain", "map", "mean"], indirect=True)
def test_where_there_is_attention_it_is_the_rollout(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    pictures = images(small_config)
    assert (sight(model, pictures).maps == attention_map(model, pictures).numpy()).all()


@pytest.mark.parametrize("small_config", ["axial", "resnet pre", "resnet post"], indirect=True)
class TestEvidence:
    def test_it_is_for_the_predicted_class(self, small_config: Config, randomised: Randomise) -> None:
        model = randomised(small_config.build()).eval()
        pictures = images(small_config)
        with torch.inference_mode():
            predicted = model(pictures).argmax(1)
        assert (sight(model, pictures).maps == sight(model, pictures, predicted).maps).all()

    def test_what_speaks_against_the_class_is_cut_off(self, small_config: Config, randomised: Randomise) -> None:
        model = randomised(small_config.build()).eval()
        pictures, of = images(small_config), torch.tensor([4, 0, 2])
        with torch.inference_mode():
            evidence = model.evidence(pictures, of)
        found = sight(model, pictures, of)
        assert (evidence < 0).any()
        assert (found.maps == evidence.clamp(min=0).numpy()).all()

    @pytest.mark.parametrize("of", [-1, 5])
    def test_a_class_that_is_not_there_is_refused(self, small_config: Config, of: int) -> None:
        with pytest.raises(UsageError, match="there are classes 0 to 4, and evidence for no others"):
            sight(small_config.build().eval(), images(small_config), torch.tensor([0, of, 1]))

    def test_without_classes_there_is_nothing_to_show(self, small_config: Config) -> None:
        model = replace(small_config, classes=0).build().eval()
        with pytest.raises(UsageError, match="cannot show where it looks"):
            sight(model, images(small_config))
