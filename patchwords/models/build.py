"""`patchwords.build`: a model from its name, as in the paper's Table 1."""

import torch

from patchwords import settings
from patchwords.errors import UsageError
from patchwords.models import names
from patchwords.models.model import Model
from patchwords.models.names import Config


def configure(
    model: str | Config,
    *,
    classes: int | None = None,
    image: int | tuple[int, int] | None = None,
    channels: int | None = None,
) -> Config:
    """The configuration behind a name, with the three numbers that users change."""
    config = model if isinstance(model, Config) else names.read(model, _size(image))
    return settings.change(config, settings.present(classes=classes, image=image, channels=channels))


def _size(image: object) -> str:
    """As it is written in a name; what is no size is left for the settings to refuse."""
    match image:
        case int() if image > 0:
            return f"{image:d}"
        case [int(height), int(width)] if height > 0 and width > 0:
            return f"{height:d}x{width:d}"
    return ""


def build(
    model: str | Config,
    *,
    classes: int | None = None,
    image: int | tuple[int, int] | None = None,
    channels: int | None = None,
) -> Model:
    """A model with random weights: `build("ViT-B/16", classes=5)`, or from a configuration of your own."""
    return configure(model, classes=classes, image=image, channels=channels).build()


def blank(config: Config) -> Model:
    """A model without memory for its parameters, to count them or to fill them from a file."""
    try:
        with torch.device("meta"):
            return config.build()
    except (RuntimeError, TypeError, OverflowError) as error:  # numbers beyond what a tensor can have
        reason = str(error).partition("\n")[0]
        raise UsageError(f"such a model cannot be built: {reason}") from error
