"""`patchwords.build`: a model from its name, as in the paper's Table 1."""

from dataclasses import replace

from patchwords.models import names
from patchwords.models.names import Config
from patchwords.models.resnet import ResNet
from patchwords.models.vit import ViT

Model = ViT | ResNet


def configure(
    model: str | Config,
    *,
    classes: int | None = None,
    image: int | tuple[int, int] | None = None,
    channels: int | None = None,
) -> Config:
    """The configuration behind a name, with the three numbers that users change."""
    config = names.read(model) if isinstance(model, str) else model
    pair = (image, image) if isinstance(image, int) else image
    return replace(
        config,
        classes=config.classes if classes is None else classes,
        image=config.image if pair is None else pair,
        channels=config.channels if channels is None else channels,
    )


def build(
    model: str | Config,
    *,
    classes: int | None = None,
    image: int | tuple[int, int] | None = None,
    channels: int | None = None,
) -> Model:
    """A model with random weights: `build("ViT-B/16", classes=5)`, or from a configuration of your own."""
    return configure(model, classes=classes, image=image, channels=channels).build()
