"""He et al., 2022: the autoencoders' parameters, to the last one, and the recipes of the paper and of section 4.6."""

from dataclasses import replace

import pytest
import torch

from patchwords import settings
from patchwords.data.augment.augment import Augment
from patchwords.data.mix import Mix
from patchwords.data.transforms import RandomCrop
from patchwords.layers.pool import ClassToken
from patchwords.models.names import read
from patchwords.models.vit import ViTConfig
from patchwords.objectives.mae import MAE
from patchwords.objectives.masked_patch import MaskedPatch
from patchwords.objectives.supervised import Supervised
from patchwords.training import recipe
from patchwords.training.optimizer import AdamW, scaled


@pytest.mark.parametrize(
    ("name", "whole", "trained", "encoder"),
    [
        ("MAE-B/16", 111_907_840, 111_655_680, 85_798_656),
        ("MAE-L/16", 329_541_888, 329_239_296, 303_301_632),
        ("MAE-H/14", 657_074_508, 656_613_964, 630_764_800),
    ],
)
def test_parameters(name: str, whole: int, trained: int, encoder: int) -> None:
    config = read(name)
    assert isinstance(config, ViTConfig)
    with torch.device("meta"):
        objective = MAE().build(replace(config, classes=0, pool=ClassToken()).build())
    parameters = list(objective.parameters())
    assert sum(each.numel() for each in parameters) == whole
    assert sum(each.numel() for each in parameters if each.requires_grad) == trained
    assert sum(each.numel() for each in objective.model.parameters()) == encoder


@pytest.mark.parametrize(("name", "model"), [("b16", "MAE-B/16"), ("l16", "MAE-L/16"), ("h14", "MAE-H/14")])
def test_pre_training_as_in_table_8(name: str, model: str) -> None:
    found = recipe.read(f"mae/pretrain-{name}")
    assert (found.model, found.batch, found.duration) == (model, 4096, "800 epochs")
    assert found.optimizer == AdamW(lr=1.5e-4, per=256, decay=0.05, betas=(0.9, 0.95))
    assert scaled(found.optimizer, 4096) == pytest.approx(2.4e-3)
    assert (found.schedule.warmup, found.schedule.shape) == ("40 epochs", "cosine")
    assert found.objective == MAE(ratio=0.75, width=512, depth=8, heads=16, normalise="patch")
    assert found.data.crop == RandomCrop(scale=(0.2, 1.0))
    assert (found.data.augment, found.data.mix) == (Augment(flip=0.5), Mix())  # and no colours
    with torch.device("meta"):
        MAE().build(settings.change(read(model), {"classes": 0, **settings.dotted(found.parts)}).build())


@pytest.mark.parametrize(
    ("name", "epochs", "lr", "layer_decay", "skipped"),
    [("b16", 100, 5e-4, 0.65, 0.1), ("l16", 50, 1e-3, 0.75, 0.2), ("h14", 50, 1e-3, 0.75, 0.3)],
)
def test_fine_tuning_as_in_table_9(name: str, epochs: int, lr: float, layer_decay: float, skipped: float) -> None:
    found = recipe.read(f"mae/finetune-{name}")
    assert (found.batch, found.duration, found.schedule.warmup) == (1024, f"{epochs} epochs", "5 epochs")
    assert found.optimizer == AdamW(lr=lr, per=256, decay=0.05, layer_decay=layer_decay)
    assert (found.parts["stochastic_depth"], found.parts["pool"]) == (skipped, {"kind": "mean", "norm": "after"})
    assert found.objective == Supervised(smoothing=0.1)
    assert (found.data.mix.mixup, found.data.mix.cutmix, found.data.augment.erase) == (0.8, 1.0, 0.25)


def test_masked_patch_prediction_as_in_appendix_b() -> None:
    found = recipe.read("masked-patch")
    assert (found.model, found.batch, found.duration) == ("ViT-B/16", 4096, "1000k steps")
    assert found.optimizer == AdamW(lr=2e-4, decay=0.0)
    assert (found.schedule.warmup, found.schedule.shape) == ("10k steps", "cosine")
    assert found.objective == MaskedPatch(ratio=0.5, target="mean-colour")
