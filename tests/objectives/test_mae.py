"""Masked autoencoding: what the encoder sees, what the decoder is asked, and that it is learned."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchwords import settings
from patchwords.data.preprocess import Preprocess
from patchwords.errors import UsageError
from patchwords.layers.pool import Attend, Mean
from patchwords.layers.position import Fixed1D, Learned1D, Relative
from patchwords.layers.tokens import Tokens
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.objectives.mae import MAE, MaskedAutoencoder
from patchwords.objectives.objective import Batch, Objective, Surroundings

Randomised = Callable[[nn.Module], nn.Module]

CONFIG = ViTConfig(
    depth=1, width=32, mlp=48, heads=2, patch=(8, 8), image=(32, 24), classes=0, position=Fixed1D(), activation="gelu"
)
SMALL: dict[str, Any] = {"width": 24, "depth": 2, "heads": 3, "mlp": 40}


def nobody(*_: Any) -> Any:
    raise AssertionError("this objective learns from nobody")


AROUND = Surroundings(preprocess=Preprocess(), classes=(), open=nobody, answers=nobody)


def built(config: Config = CONFIG, **given: Any) -> MaskedAutoencoder:
    return settings.read(SMALL | given, MAE).build(config.build(), AROUND)


def batch(objective: MaskedAutoencoder, count: int = 4) -> Batch:
    config, indices = objective.model.config, np.arange(count)
    images = torch.randn(count, config.channels, *config.image, generator=torch.Generator().manual_seed(1))
    noise = torch.from_numpy(objective.drawn(0, np.zeros_like(indices), indices)["noise"])
    return {"image": images, "noise": noise}


@pytest.mark.parametrize(("ratio", "kept"), [(0.75, 3), (0.5, 6), (0.6, 4), (0.9, 1)])
def test_the_patches_with_the_smallest_noise_stay(ratio: float, kept: int) -> None:
    objective = built(ratio=ratio).eval()
    given = batch(objective, 8)
    _, mask, restore = objective.reconstruct(given)
    assert (mask.sum(1) == 12 - kept).all()
    for row, noise in enumerate(given["noise"]):
        order = sorted(range(12), key=lambda place, noise=noise: float(noise[place]))
        assert sorted((mask[row] == 0).nonzero().flatten().tolist()) == sorted(order[:kept])
        assert [order.index(place) for place in range(12)] == restore[row].tolist()


@pytest.mark.parametrize("which", [[0], [5, 3], [7, 6, 5, 4, 3, 2, 1, 0]])
def test_the_noise_depends_on_the_address_alone(which: list[int]) -> None:
    objective, views, indices = built(), np.array([0, 0, 1, 1, 2, 0, 3, 0]), np.arange(8)
    whole = objective.drawn(5, views, indices)["noise"]
    assert (objective.drawn(5, views[which], indices[which])["noise"] == whole[which]).all()
    assert len(np.unique(whole)) == whole.size
    assert not np.isin(objective.drawn(6, views, indices)["noise"], whole).any()


def test_the_encoder_sees_the_visible_patches_alone_with_their_own_positions() -> None:
    objective = built().eval()
    given = batch(objective)
    order = given["noise"].argsort(1)
    found = objective.encode(given["image"], order)
    assert found.x.shape == (4, 1 + 3, 32)
    whole = objective.model.embed(given["image"])
    for row in range(4):
        visible = torch.cat([whole.special[row], whole.patches[row, order[row, :3]]])[None]
        alone = objective.model.encoder(Tokens(visible, 1, (4, 3)))
        torch.testing.assert_close(found.x[row], alone.x[0])


def test_what_was_taken_away_has_no_say() -> None:
    objective = built().eval()
    given = batch(objective)
    prediction, mask, _ = objective.reconstruct(given)
    hidden = mask.unflatten(1, (4, 3)).repeat_interleave(8, 1).repeat_interleave(8, 2)[:, None]
    other = given | {"image": given["image"] + 5 * hidden}
    assert torch.equal(objective.reconstruct(other).prediction, prediction)
    seen = given | {"image": given["image"] + 5 * (1 - hidden)}
    assert not torch.allclose(objective.reconstruct(seen).prediction, prediction, atol=1e-3)


def by_hand(image: Tensor, place: int, normalise: str) -> Tensor:
    top, left = 8 * (place // 3), 8 * (place % 3)
    pixels = image[:, top : top + 8, left : left + 8].permute(1, 2, 0).flatten()  # row, column, channel
    if normalise == "none":
        return pixels
    return (pixels - pixels.mean()) / (pixels.var(unbiased=True) + 1e-6).sqrt()


@pytest.mark.parametrize("normalise", ["patch", "none"])
def test_the_loss_is_the_squared_error_of_what_was_taken_away(normalise: str) -> None:
    objective = built(normalise=normalise).eval()
    given = batch(objective)
    prediction, mask, _ = objective.reconstruct(given)
    errors = [
        (prediction[row, place] - by_hand(given["image"][row], place, normalise)).square().mean()
        for row, place in mask.nonzero().tolist()
    ]
    loss, numbers = objective(given)
    assert len(errors) == 4 * 9
    torch.testing.assert_close(loss, torch.stack(errors).mean())
    assert numbers == {}


@pytest.mark.parametrize("normalise", ["patch", "none"])
def test_a_perfect_prediction_is_painted_as_the_picture_itself(normalise: str) -> None:
    objective = built(normalise=normalise)
    images = batch(objective)["image"]
    torch.testing.assert_close(objective.paint(images, objective.targets(images)), images)


@pytest.mark.parametrize(
    "small_config",
    ["plain", "mean", "1d over class", "1d over patches", "2d", "sincos", "sinusoidal", "hybrid root", "regularised"],
    indirect=True,
)
def test_every_trainable_parameter_receives_a_gradient(small_config: ViTConfig, randomised: Randomised) -> None:
    objective = built(replace(small_config, classes=0), ratio=0.5)
    randomised(objective)
    loss, _ = objective(batch(objective, 8))
    loss.backward()
    trained = {name: each for name, each in objective.named_parameters() if each.requires_grad}
    assert [name for name, each in trained.items() if each.grad is None or not each.grad.any()] == []
    assert "decoder.position.table" not in trained


def test_the_fixed_tables_are_kept_and_never_trained() -> None:
    objective = built()
    tables = ("model.embed.position.table", "decoder.position.table")
    assert [name for name, each in objective.named_parameters() if not each.requires_grad] == [*tables]
    assert {name: objective.state_dict()[name].shape for name in tables} == {
        tables[0]: (1, 13, 32),
        tables[1]: (1, 13, 24),
    }
    assert not objective.decoder.position.table[:, 0].any()


def test_the_loss_of_a_batch_is_the_mean_of_its_pieces() -> None:
    objective = built().eval()
    whole = batch(objective, 6)
    pieces = [{name: rows[start : start + 2] for name, rows in whole.items()} for start in (0, 2, 4)]
    torch.testing.assert_close(objective(whole)[0], torch.stack([objective(piece)[0] for piece in pieces]).mean())


def test_it_owns_its_decoder_beside_the_model() -> None:
    objective = built()
    assert isinstance(objective, Objective)
    owned = {name for name in objective.state_dict() if not name.startswith("model.")}
    assert all(name.startswith("decoder.") for name in owned)
    assert MAE().classes(10) == 0
    again = built()
    again.load_state_dict(objective.state_dict())
    given = batch(objective)
    assert torch.equal(objective.eval()(given)[0], again.eval()(given)[0])


def test_the_usual_decoder_is_the_papers() -> None:
    size = MAE().decoder
    assert (MAE().ratio, size.width, size.depth, size.heads, size.mlp) == (0.75, 512, 8, 16, 2048)
    assert MAE(width=64, heads=4).decoder.mlp == 256


def test_it_runs_under_bfloat16_with_a_loss_in_float32() -> None:
    objective = built().eval()
    given = batch(objective)
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = objective(given)
    assert loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(objective(given)[0].detach()), rel=0.05)


def test_it_compiles_as_one_graph() -> None:
    objective = built().eval()
    given = batch(objective)
    wanted, _ = objective(given)
    objective.compile(fullgraph=True, backend="eager")
    torch.testing.assert_close(objective(given)[0], wanted)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pool": Mean(norm="after")}, 'set parts.pool.kind="class"'),
        ({"pool": Attend()}, "would not train pool.probe"),
        ({"classes": 5}, "would not train head.classifier.weight"),
        ({"position": Learned1D(at="every")}, "positions learned-1d at every needs all"),
        ({"position": Relative()}, 'set parts.encoder="global" and parts.position.kind="fixed-1d"'),
        ({"encoder": "axial", "special": (), "pool": Mean()}, "axial attention"),
    ],
)
def test_a_model_that_needs_all_patches_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        built(replace(CONFIG, **change))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ratio": 1.0}, "ratio 1.0 is no share of the patches"),
        ({"width": 30, "heads": 4}, "width 30 is not a multiple of its heads 4"),
        ({"width": 30, "heads": 3}, "width 30 is not a multiple of 4"),
        ({"depth": 0}, "depth 0 is below 1"),
        ({"normalise": "all"}, "'all' is not one of patch, none"),
        ({"ratio": 0.99}, "leaves 0 of 12 patches"),
    ],
)
def test_impossible_settings_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        built(**given)


def test_hidden_patches_are_learned_from_the_visible_ones() -> None:
    """Pictures of one slope each, which no place tells: far better than their mean in a few hundred steps."""
    config = replace(CONFIG, channels=1, image=(16, 16), patch=(4, 4), width=48)
    objective = built(config, depth=1, ratio=0.5, normalise="none")
    optimizer, losses = torch.optim.AdamW(objective.parameters(), lr=3e-3), []
    place = torch.linspace(-1, 1, 16)
    for step in range(200):
        slopes = torch.randn(64, 2, 1, 1, 1, generator=torch.Generator().manual_seed(step))
        images = slopes[:, 0] * place[:, None] + slopes[:, 1] * place
        noise = torch.from_numpy(objective.drawn(0, np.full(64, step), np.arange(64))["noise"])
        loss, _ = objective({"image": images, "noise": noise})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    usual = 2 * float(place.square().mean())  # the error of guessing grey
    assert np.mean(losses[:3]) > usual
    assert np.mean(losses[-20:]) < 0.15 * usual
