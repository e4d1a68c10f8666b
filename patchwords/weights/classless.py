"""What to do with a model that has no classes, where somebody asks it for some."""

from patchwords.models.names import Config
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.objectives.tokenizer import Tokenize


def towards_classes(config: Config) -> str:
    """How labels come into it: a tokenizer is never fine-tuned, what learns its words is."""
    if isinstance(config, TokenizerConfig):
        words = Tokenize.following.format(run="MODEL")
        return f"a tokenizer makes words of pictures: {words}, and what has learned them is fine-tuned with labels"
    return "fine-tune the model with labels (`patchwords train DATA --weights MODEL`)"
