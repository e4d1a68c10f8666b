"""A tokenizer learns: what its words paint, how the mixtures harden, and that its vocabulary stays in use."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords import settings
from patchwords.data.preprocess import Preprocess
from patchwords.errors import UsageError
from patchwords.models.names import read
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.objectives.code_decoder import CodeDecoder
from patchwords.objectives.objective import Surroundings
from patchwords.objectives.tokenizer import DiscreteVAE, Tokenize, certain, spread, surplus

SMALL = TokenizerConfig(vocabulary=16, groups=2, blocks=1, width=16, image=(8, 8), channels=1)


def nobody(*_: object) -> Any:
    raise AssertionError("a tokenizer asks nobody")


AROUND = Surroundings(preprocess=Preprocess(), classes=(), open=nobody, answers=nobody)


def made(**changes: Any) -> DiscreteVAE:
    return Tokenize(**changes).build(SMALL.build(), AROUND)


LINES = [[a, a, b, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)] + [[-1.0, 1.0, -1.0, 1.0], [1.0, -1.0, 1.0, -1.0]]
TILES = torch.tensor([*LINES, [0.0] * 4, [0.5] * 4])


def pictures(count: int, seed: int = 0) -> Tensor:
    """Tiles of 2x2 pixels, each one of eight: as many words would tell everything."""
    generator = torch.Generator().manual_seed(seed)
    chosen = TILES[torch.randint(8, (count, 4, 4), generator=generator)]  # (count, rows, cols, pixels)
    return F.pixel_shuffle(chosen.permute(0, 3, 1, 2), 2)


def trained(objective: DiscreteVAE, steps: int) -> DiscreteVAE:
    optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-2)
    for step in range(steps):
        loss, _ = objective({"image": pictures(16, seed=step)})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        objective.after_step((step + 1) / steps)
    return objective.eval()


@pytest.fixture(scope="module")
def learned() -> DiscreteVAE:
    torch.manual_seed(0)
    return trained(made(), 250)


def test_it_learns_to_paint_pictures_from_words_alone(learned: DiscreteVAE) -> None:
    _, numbers = learned({"image": pictures(64, seed=10_000)})
    assert float(numbers["reconstruction"]) < 0.3 * float(pictures(64).var())


def test_the_vocabulary_does_not_collapse(learned: DiscreteVAE) -> None:
    _, numbers = learned({"image": pictures(64, seed=10_000)})
    assert float(numbers["usage"]) > 0.6
    assert float(numbers["perplexity"]) > 7


def test_without_its_cost_less_of_the_vocabulary_is_used(learned: DiscreteVAE) -> None:
    torch.manual_seed(0)
    free = trained(made(usage=0.0), 250)
    batch = {"image": pictures(64, seed=10_000)}
    assert float(free(batch)[1]["perplexity"]) < float(learned(batch)[1]["perplexity"]) - 1


def test_the_numbers_tell_of_a_collapse() -> None:
    objective = made().eval()
    torch.nn.init.zeros_(objective.model.output.weight)
    objective.model.output.bias.data[3] = 1.0
    _, numbers = objective({"image": pictures(64)})
    assert float(numbers["perplexity"]) == pytest.approx(1.0)
    assert float(numbers["usage"]) == pytest.approx(1 / 16)


@pytest.mark.parametrize("count", [1, 2, 64])
def test_even_words_are_full_use_in_a_batch_of_any_size(count: int) -> None:
    words = torch.arange(count * 16).reshape(count, 4, 4) % 64
    used, perplexity = spread(words, 64)
    assert float(used) == 1.0
    assert float(perplexity) == pytest.approx(min(64, count * 16), rel=1e-5)


def test_use_over_a_whole_pass_by_hand() -> None:
    used, perplexity = spread(torch.tensor([0, 0, 0, 0, 5, 5, 7, 9]), 10)
    assert float(used) == pytest.approx(4 / 8)  # eight places could have held eight words
    shares = [1 / 2, 1 / 4, 1 / 8, 1 / 8]
    assert float(perplexity) == pytest.approx(math.exp(-sum(p * math.log(p) for p in shares)))


def test_the_cost_is_zero_for_an_even_vocabulary_and_its_logarithm_for_a_single_word() -> None:
    even = 50 * F.one_hot(torch.arange(16).reshape(1, 4, 4), 16).movedim(3, 1).float()  # each place sure of its own
    single = torch.zeros(1, 16, 4, 4)
    single[:, 3] = 50.0
    assert float(surplus(even)) == pytest.approx(0.0, abs=1e-6)
    assert float(surplus(single)) == pytest.approx(math.log(16))
    assert float(surplus(torch.zeros(1, 16, 4, 4))) == pytest.approx(0.0, abs=1e-6)


def test_the_cost_is_differentiable_where_a_word_has_no_probability() -> None:
    logits = torch.full((1, 4, 1, 1), -1e4)
    logits[:, 0] = 0.0
    logits.requires_grad_()
    surplus(logits).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_the_temperature_falls_with_the_progress_which_is_saved() -> None:
    objective = made(warm=1.0, cold=1 / 16)
    for progress, temperature in ((0.0, 1.0), (0.5, 0.25), (1.0, 1 / 16)):
        objective.after_step(progress)
        assert float(objective.temperature) == pytest.approx(temperature)
    again = made()
    again.load_state_dict(objective.state_dict())
    assert float(again.temperature) == pytest.approx(1 / 16)


def test_mixtures_are_laws_and_harden_as_the_temperature_falls() -> None:
    objective, logits = made(), torch.randn(4, 16, 8, 8)
    surest = []
    for progress in (0.0, 0.5, 1.0):
        objective.after_step(progress)
        mixed = objective.mixed(logits)
        torch.testing.assert_close(mixed.sum(1), torch.ones(4, 8, 8))
        surest.append(float(mixed.amax(1).mean()))
    assert surest[0] < surest[1] < surest[2]
    assert surest[2] > 0.9


def test_words_are_drawn_by_their_probabilities() -> None:
    objective = made()
    law = torch.tensor([0.5, 0.3, 0.2])
    drawn = objective.mixed(law.log()[None, :, None, None].expand(1, 3, 200, 200)).argmax(1)
    torch.testing.assert_close(torch.bincount(drawn.flatten()) / 40_000, law, atol=0.01, rtol=0)


def test_evaluation_paints_from_the_likeliest_words_and_is_the_same_each_time() -> None:
    objective, batch = made().eval(), {"image": pictures(8)}
    first, second = objective(batch)[0], objective(batch)[0]
    assert torch.equal(first, second)
    logits = objective.model.logits(batch["image"])
    painted = objective.decoder(F.one_hot(logits.argmax(1), 16).movedim(3, 1).float())
    torch.testing.assert_close(first, F.mse_loss(painted, batch["image"]) + 0.1 * surplus(logits))
    objective.train()
    assert not torch.equal(objective(batch)[0], objective(batch)[0])


def test_certain_words_are_one_at_each_place() -> None:
    words = certain(torch.tensor([[0.0, 5.0], [1.0, 2.0]])[None, :, None])  # (1, 2 words, 1, 2 places)
    assert words.tolist() == [[[[0.0, 1.0]], [[1.0, 0.0]]]]


@pytest.mark.parametrize("name", ["Tokenizer-8/1@6", "Tokenizer-8/2@6", "Tokenizer-8/4@8"])
def test_the_decoder_mirrors_the_encoder(name: str) -> None:
    config = settings.change(read(name), {"width": 8})
    assert isinstance(config, TokenizerConfig)
    pixels = CodeDecoder(config)(config.build().logits(torch.randn(2, 3, *config.image)).softmax(1))
    assert pixels.shape == (2, 3, *config.image)


def test_every_trainable_parameter_receives_a_gradient() -> None:
    objective = made()
    objective({"image": pictures(4)})[0].backward()
    missing = [name for name, each in objective.named_parameters() if each.grad is None or not each.grad.any()]
    assert missing == []


def test_the_objective_owns_a_decoder_and_its_progress_beside_the_model() -> None:
    objective = made()
    beside = {name.partition(".")[0] for name in objective.state_dict() if not name.startswith("model.")}
    assert beside == {"decoder", "progress"}
    assert objective.needs == ("image",)
    assert Tokenize().classes(10) == 0


def test_the_loss_is_computed_in_float32_under_bfloat16() -> None:
    objective = made()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, numbers = objective({"image": pictures(4)})
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    assert all(number.isfinite() for number in numbers.values())


def test_it_compiles_into_one_graph() -> None:
    objective = made().eval()
    batch = {"image": pictures(4)}
    expected = objective(batch)[0]
    objective.compile(fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(objective(batch)[0], expected)
    objective.train()
    objective(batch)[0].backward()


def test_only_a_tokenizer_is_trained_so() -> None:
    with pytest.raises(UsageError, match="trains a tokenizer, and the model is a vit: choose one such as"):
        Tokenize().build(read("ViT-Digits/2").build(), AROUND)


@pytest.mark.parametrize(
    "wrong", [{"cold": 0.0}, {"cold": 2.0}, {"warm": math.inf}, {"usage": -1.0}, {"usage": math.nan}]
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Tokenize(**wrong)
