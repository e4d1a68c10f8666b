"""BEiT: blocks of patches are hidden, and the words that a tokenizer has for them are told from the others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import standardise
from patchwords.errors import ModelError, UsageError
from patchwords.layers.pool import Attend, Mean
from patchwords.layers.position import Relative
from patchwords.models.names import Config, read
from patchwords.models.tokenizer import Tokenizer, TokenizerConfig
from patchwords.models.vit import ViTConfig
from patchwords.objectives.beit import BEiT, MaskedImageModelling
from patchwords.objectives.objective import Batch, Guide, Surroundings

Randomised = Callable[[nn.Module], nn.Module]

GREY = Preprocess(size=(16, 16), mean=(0.5,), deviation=(0.5,))
STUDENT = ViTConfig(depth=2, width=32, mlp=48, heads=2, patch=(4, 4), image=(16, 16), channels=1, classes=0)
WORDS = TokenizerConfig(vocabulary=8, groups=2, blocks=1, width=8, image=(8, 8), channels=1)


def tokenizer(config: TokenizerConfig = WORDS, preprocess: Preprocess = GREY) -> Guide:
    torch.manual_seed(1)
    return Guide(config.build().eval().requires_grad_(False), preprocess)


def around(guide: Guide, preprocess: Preprocess = GREY) -> Surroundings:
    def nothing(_: Guide) -> Any:
        raise AssertionError("words are asked for each time")

    return Surroundings(preprocess=preprocess, classes=(), open=lambda name: guide, answers=nothing)


def made(config: Config = STUDENT, guide: Guide | None = None, **changes: Any) -> MaskedImageModelling:
    settings = BEiT(tokenizer="words", **changes)
    return settings.build(config.build(), around(guide or tokenizer()))


def batch(objective: MaskedImageModelling, images: Tensor, seed: int = 0) -> Batch:
    count = images.shape[0]
    drawn = objective.drawn(seed, np.zeros(count, dtype=np.int64), np.arange(count))
    return {"image": images} | {name: torch.from_numpy(array) for name, array in drawn.items()}


def test_the_loss_is_the_cross_entropy_of_the_words_at_the_hidden_places(randomised: Randomised) -> None:
    objective = randomised(made()).eval()
    data = batch(objective, torch.randn(3, 1, 16, 16))
    loss, numbers = objective(data)
    logits = objective.predict(data["image"], data["masked"])
    words = objective.words(data["image"])
    assert words.shape == (3, 16)
    each, right = [], []
    for row in range(3):
        for place, patch in enumerate(data["masked"][row].tolist()):
            each.append(-logits[row, place].log_softmax(0)[words[row, patch]])
            right.append(int(logits[row, place].argmax()) == int(words[row, patch]))
    torch.testing.assert_close(loss, torch.stack(each).mean())
    assert float(numbers["accuracy"]) == pytest.approx(sum(right) / len(right))


def test_hidden_patches_are_replaced_and_the_others_are_not(randomised: Randomised) -> None:
    """By hand: what the encoder sees, through its final norm and the objective's head."""
    objective = randomised(made()).eval()
    data = batch(objective, torch.randn(2, 1, 16, 16))
    patches, grid = objective.model.embed.project(data["image"])
    for row in range(2):
        for place in data["masked"][row].tolist():
            patches[row, place] = objective.mask_token[0, 0]
    z = objective.model.encoder(objective.model.embed.assemble(patches, grid)).patches
    expected = torch.stack([objective.head(z[row, data["masked"][row]]) for row in range(2)])
    torch.testing.assert_close(objective.predict(data["image"], data["masked"]), expected)


def test_what_is_hidden_cannot_be_seen(randomised: Randomised) -> None:
    objective = randomised(made()).eval()
    data = batch(objective, torch.randn(1, 1, 16, 16))
    other = data["image"].clone()
    row, col = divmod(int(data["masked"][0, 0]), 4)
    other[:, :, 4 * row : 4 * row + 4, 4 * col : 4 * col + 4] = 9.0
    first, second = (objective.predict(images, data["masked"]) for images in (data["image"], other))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("grid", "blocks"),
    [((14, 14), (78, 16, 75)), ((8, 8), (26, 5, 24)), ((4, 4), (6, 1, 6)), ((24, 24), (230, 47, 220))],
)
def test_the_papers_sizes_scale_with_the_grid(grid: tuple[int, int], blocks: tuple[int, int, int]) -> None:
    assert BEiT().blocks(grid) == blocks


def test_the_paper_hides_75_of_196() -> None:
    assert BEiT(share=0.383).blocks((14, 14))[0] == 75
    assert BEiT(least=4, most=9).blocks((14, 14))[1:] == (4, 9)


def test_masks_have_the_same_count_in_every_row_and_depend_on_their_address_alone() -> None:
    objective = made()
    views, indices = np.arange(50) % 3, np.arange(50)
    masked = objective.drawn(7, views, indices)["masked"]
    assert masked.shape == (50, 6)
    assert (np.diff(masked, axis=1) > 0).all()  # no patch twice
    assert np.array_equal(objective.drawn(7, views[20:], indices[20:])["masked"], masked[20:])
    assert not np.array_equal(objective.drawn(8, views, indices)["masked"], masked)


def test_the_tokenizer_sees_the_same_picture_in_its_own_way() -> None:
    """Normalised by its own card, and so large that its grid is the student's."""
    own = Preprocess(size=(20, 20), mean=(-0.125,), deviation=(1.25,), interpolation="bilinear")
    objective = made(guide=tokenizer(preprocess=own))
    assert objective.words.wanted.size == (8, 8)  # 4x4 patches, and a word every two pixels
    pixels = torch.rand(2, 1, 16, 16)
    words = objective.words(standardise(pixels, GREY))
    small = F.interpolate(pixels, size=(8, 8), mode="bilinear", antialias=True)
    logits = objective.words.model.logits(0.8 * small + 0.1)
    assert (words == logits.argmax(1).flatten(1)).float().mean() > 0.95  # two kernels, the same to rounding


def test_beits_view_of_dall_e_is_112_pixels_for_14x14_patches() -> None:
    student = replace(STUDENT, image=(224, 224), patch=(16, 16), channels=3)
    guide = tokenizer(replace(WORDS, groups=4, channels=3, image=(256, 256)), Preprocess())
    objective = BEiT(tokenizer="dalle").build(student.build(), around(guide, Preprocess()))
    assert objective.words.wanted.size == (112, 112)


def test_a_colour_tokenizer_serves_a_grey_student_and_other_channels_are_refused() -> None:
    colour = tokenizer(replace(WORDS, channels=3), Preprocess(size=(8, 8)))
    assert made(guide=colour).words(torch.randn(1, 1, 16, 16)).shape == (1, 16)
    five = Preprocess(size=(16, 16), mean=(0.5,) * 5, deviation=(0.5,) * 5)
    with pytest.raises(UsageError, match="pictures of 5 channels cannot be shown to a model that takes 1"):
        BEiT(tokenizer="words").build(replace(STUDENT, channels=5).build(), around(tokenizer(), five))


def test_the_tokenizer_is_frozen_not_saved_and_follows_the_device() -> None:
    objective = made().train()
    assert {name.partition(".")[0] for name in objective.state_dict()} == {"model", "mask_token", "head"}
    assert not any(parameter.requires_grad for parameter in objective.words.model.parameters())
    assert not objective.words.model.training
    objective.to("meta")
    assert {parameter.device.type for parameter in objective.words.model.parameters()} == {"meta"}


@pytest.mark.parametrize(
    "config",
    [
        STUDENT,
        replace(STUDENT, position=Relative()),
        replace(STUDENT, special=(), pool=Mean()),
        replace(STUDENT, layer_scale=0.1, special=("class", "register")),
        replace(STUDENT, special=(), pool=Mean(), encoder="axial"),
    ],
    ids=["class", "relative", "mean", "registers", "axial"],
)
def test_every_trainable_parameter_receives_a_gradient(config: ViTConfig, randomised: Randomised) -> None:
    objective = randomised(made(config))
    objective(batch(objective, torch.randn(4, 1, 16, 16)))[0].backward()
    missing = [name for name, each in objective.named_parameters() if each.grad is None or not each.grad.any()]
    assert missing == []


def test_the_loss_is_float32_and_the_words_are_the_same_under_bfloat16() -> None:
    objective = made()
    data = batch(objective, torch.randn(4, 1, 16, 16))
    words = objective.words(data["image"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, _ = objective(data)
        assert torch.equal(objective.words(data["image"]), words)
    assert loss.dtype == torch.float32


def test_evaluation_is_the_same_each_time() -> None:
    objective = made(replace(STUDENT, dropout=0.1, stochastic_depth=0.2)).eval()
    data = batch(objective, torch.randn(4, 1, 16, 16))
    assert torch.equal(objective(data)[0], objective(data)[0])


def test_it_compiles_into_one_graph() -> None:
    objective = made()
    data = batch(objective, torch.randn(4, 1, 16, 16))
    expected = objective(data)[0]
    objective.compile(fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(objective(data)[0], expected)


def stripes(count: int, seed: int) -> Tensor:
    """Each picture is of one grey, lit from one side: what is seen tells what is hidden."""
    generator = torch.Generator().manual_seed(seed)
    level = 2 * torch.rand(count, 1, 1, 1, generator=generator) - 1
    side = torch.linspace(-1, 1, 16)[None, None, None] * torch.randint(2, (count, 1, 1, 1), generator=generator)
    return (level + side).expand(-1, 1, 16, 16).contiguous()


def test_it_learns_to_tell_the_words_far_better_than_by_their_frequency() -> None:
    guide = tokenizer(replace(WORDS, vocabulary=32))
    objective = made(guide=guide)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=3e-3)
    for step in range(80):
        loss, _ = objective(batch(objective, stripes(32, step), seed=step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    data = batch(objective.eval(), stripes(256, 10_000))
    words = objective.words(data["image"]).gather(1, data["masked"])
    commonest = torch.bincount(words.flatten(), minlength=32).max() / words.numel()
    _, numbers = objective(data)
    assert float(numbers["accuracy"]) > float(commonest) + 0.15


def test_a_model_that_would_be_trained_in_part_is_refused() -> None:
    with pytest.raises(UsageError, match=r'set parts\.pool\.kind="class"'):
        made(replace(STUDENT, pool=Mean(norm="after")))
    with pytest.raises(UsageError, match="would not train pool"):
        made(replace(STUDENT, pool=Attend()))
    with pytest.raises(UsageError, match="the model is a resnet: choose a ViT"):
        made(replace(read("R50x1"), image=(16, 16), channels=1, classes=0))


def test_who_gives_the_words_must_be_said_and_be_a_tokenizer() -> None:
    with pytest.raises(UsageError, match=r"nobody says which words to learn: train a tokenizer"):
        BEiT().build(STUDENT.build(), around(tokenizer()))
    with pytest.raises(ModelError, match=r"objective\.tokenizer words is no tokenizer"):
        made(guide=Guide(STUDENT.build(), GREY))


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"share": 1.0}, {"least": 0}, {"least": 5, "most": 4}])
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        BEiT(**wrong)


def test_a_grid_too_small_to_hide_a_share_of_is_refused() -> None:
    with pytest.raises(UsageError, match=r"share 0\.1 of 4 patches hides 0: some must be hidden"):
        BEiT(share=0.1).blocks((2, 2))


def test_nothing_is_asked_about_labels() -> None:
    assert BEiT().classes(10) == 0
    assert isinstance(tokenizer().model, Tokenizer)
    assert made().needs == ("image", "masked")
