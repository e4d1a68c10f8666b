"""A tokenizer learns its vocabulary: the discrete VAE of DALL-E (arXiv 2102.12092), by the Gumbel-softmax relaxation.

The encoder says how likely each code word is at each place; words drawn by that law, mixed softly so that gradients
pass, must suffice to paint the picture again. The mixtures harden as the temperature falls.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.models.tokenizer import Tokenizer
from patchwords.objectives.code_decoder import CodeDecoder
from patchwords.objectives.objective import Batch, Numbers, Objective, Surroundings
from patchwords.settings import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenize:
    """The temperature from first to last, and how much it costs to leave words of the vocabulary unused."""

    kind: ClassVar[str] = "tokenizer"
    following: ClassVar[str] = (
        "`patchwords train DATA --recipe beit/pretrain-b16 --set objective.tokenizer={run}` learns its words"
    )
    warm: float = 1.0
    cold: float = 1 / 16
    usage: float = 0.1

    def __post_init__(self) -> None:
        check(self)
        if not 0 < self.cold <= self.warm < float("inf"):
            raise UsageError(f"the temperature falls from {self.warm} to {self.cold}: choose 0 < cold <= warm")
        if not 0 <= self.usage < float("inf"):
            raise UsageError(f"usage {self.usage} is no weight: choose 0 (unused words cost nothing) or more")

    def classes(self, of_data: int) -> int:
        """None: nothing is asked about labels."""
        return 0

    def build(self, model: Model, around: Surroundings) -> "DiscreteVAE":
        if not isinstance(model, Tokenizer):
            raise UsageError(
                f"objective tokenizer trains a tokenizer, and the model is a {model.config.kind}: "
                f"choose one such as Tokenizer-512/4"
            )
        return DiscreteVAE(model, self)


class DiscreteVAE(Objective):
    """Pictures to the mean squared error of what their code words paint, plus the cost of an unused vocabulary.

    The square is the likelihood of a normal law of fixed width. DALL-E's logit-Laplace is sharper, but needs pixels
    within (0, 1), whatever the run's normalisation, and a decoder that also tells its own uncertainty.
    """

    needs = ("image",)
    model: Tokenizer
    progress: Tensor

    def __init__(self, model: Tokenizer, settings: Tokenize):
        super().__init__()
        self.model = model
        self.settings = settings
        self.decoder = CodeDecoder(model.config)
        self.register_buffer("progress", torch.zeros(()))

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        images = batch["image"]
        logits = self.model.logits(images).float()  # (batch, vocabulary, rows, cols)
        words = self.mixed(logits) if self.training else certain(logits)
        painted = self.decoder(words).float()
        error = F.mse_loss(painted, images.float())
        used, perplexity = spread(logits.argmax(1), self.model.config.vocabulary)
        loss = error + self.settings.usage * surplus(logits)
        return loss, {"reconstruction": error.detach(), "usage": used, "perplexity": perplexity}

    def mixed(self, logits: Tensor) -> Tensor:
        """Words drawn by their probabilities, softly (Jang et al., 2017): the colder, the nearer to a single one."""
        noise = -torch.empty_like(logits).exponential_().log()  # Gumbel's law
        return ((logits + noise) / self.temperature).softmax(1)

    @property
    def temperature(self) -> Tensor:
        """Geometric in the share of the training that is done."""
        warm, cold = self.settings.warm, self.settings.cold
        return warm * (cold / warm) ** self.progress

    def after_step(self, progress: float) -> None:
        self.progress.fill_(progress)


def certain(logits: Tensor) -> Tensor:
    """The likeliest word at each place and no other, as the tokenizer will be used: (batch, vocabulary, rows, cols)."""
    return F.one_hot(logits.argmax(1), logits.shape[1]).movedim(3, 1).to(logits.dtype)


def surplus(logits: Tensor) -> Tensor:
    """KL(mean law of all places ‖ uniform), in nats: 0 where all words are as likely, ln(vocabulary) where one is all.

    Each place may be sure of its word; only their mean is asked to be even.
    """
    mean = logits.softmax(1).mean((0, 2, 3))  # (vocabulary)
    return (mean * (mean * mean.shape[0]).clamp_min(torch.finfo(mean.dtype).tiny).log()).sum()


@torch.no_grad()
def spread(words: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    """How much of the vocabulary is in these words: the share of as many as there could be, and the perplexity.

    There could be no more than there are places, so that a small batch does not look like a collapse.
    The perplexity is the number of words that were as spread if all were as frequent: 1 where all places agree.
    """
    counts = torch.zeros(vocabulary, device=words.device).scatter_add(
        0, words.flatten(), torch.ones(words.numel(), device=words.device)
    )
    shares = counts / words.numel()
    used = (counts > 0).float().sum() / min(vocabulary, words.numel())
    return used, torch.special.entr(shares).sum().exp()
