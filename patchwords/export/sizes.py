"""Which models take pictures of any size, and in which steps."""

from patchwords.errors import UsageError
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig

FIXED = "choose one size with --image, for example --image 384"


def steps(config: Config) -> tuple[int, int]:
    """What height and width must be multiples of; a model that is for one size is refused."""
    match config:
        case ResNetConfig(units=units):
            return (2 << len(units),) * 2  # the root halves twice, each stage but the first once
        case ViTConfig(position=position) if position.kind == "none":
            return config.cell
        case ViTConfig():
            raise UsageError(
                f"a ViT's positions ({config.position.kind}) are for one grid of patches, so the file cannot take "
                f"pictures of any size: {FIXED}, and the positions are resampled for it"
            )
        case SwinConfig():
            raise UsageError(f"a Swin's windows are laid out for one size when it is exported: {FIXED}")
        case _:
            raise UsageError(f"this model is for pictures of one size: {FIXED}")
