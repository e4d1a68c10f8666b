"""Figure 7, left: the principal components of the filters that see the pixels."""

from patchwords.inspection.exhibits.exhibit import Exhibit
from patchwords.inspection.figures import filters as figure
from patchwords.inspection.filters import principal, visible
from patchwords.inspection.viewer import Viewer
from patchwords.models.swin import SwinConfig
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.models.vit import ViTConfig


def filters(viewer: Viewer) -> Exhibit:
    """Of the patch embedding, or of the first convolution where one comes before it or takes its place."""
    match viewer.subject.card.model:
        case ViTConfig(stem=None) | SwinConfig():
            words, of = "filters", "patch embedding"
        case TokenizerConfig():
            words, of = "input", "input convolution"
        case _:
            words, of = "root", "root convolution"
    kernels = viewer.model.filters()
    components = principal(kernels)
    shares = components.shares.tolist()
    png = figure.filters(visible(components.tiles), shares, heading=f"Principal components of the {of}")
    return Exhibit(words=words, png=png, numbers={"of": of, "shape": list(kernels.shape), "shares": shares})
