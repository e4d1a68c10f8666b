"""The one door to the libraries that we are measured beside: their models, with our weights, where they are installed.

They are found when asked for by name and never needed; what is not there is a remark.
"""

import importlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, TypeVar

from torch import Tensor, nn

from patchwords.bench.row import OURS
from patchwords.errors import ModelError, PatchwordsError, UsageError
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import Learned1D, rows_before_patches
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.settings import nearest
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.recognise import choose
from patchwords.weights.rules import State, give, listed

T = TypeVar("T")
logger = logging.getLogger("patchwords")

PEERS = ("timm", "transformers", "torchvision")


def library(name: str) -> ModuleType:
    """A peer's own module; UsageError where it is not installed."""
    if name not in PEERS:
        raise UsageError(f"{name!r} is no peer; {nearest(name, PEERS)}")
    return part(name, "")


def part(name: str, within: str) -> ModuleType:
    """A module within a peer."""
    try:
        return importlib.import_module(f"{name}.{within}" if within else name)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        reason = "is not installed" if missing == name else f"cannot be imported ({error})"
        raise UsageError(f"{name} {reason}") from None


def installed(names: tuple[str, ...], note: Callable[[str], None]) -> dict[str, str]:
    """The versions of those that are there; of the others it is said that they are not."""
    found = {}
    for name in names:
        try:
            found[name] = str(getattr(library(name), "__version__", "of unknown version"))
        except UsageError as error:
            if name not in PEERS:
                raise UsageError(f"{name!r} is nobody who can be measured; {nearest(name, (OURS, *PEERS))}") from None
            note(str(error))
    return found


def lenient(who: str, work: Callable[[], T], note: Callable[[str], None]) -> list[T]:
    """What a peer does, or nothing and a remark: its troubles (a compiler, no memory, a library) are not ours."""
    try:
        return [work()]
    except PatchwordsError as error:
        note(f"{who} is left out: {error}")
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        logger.debug("%s failed", who, exc_info=True)
        lines = str(error).strip().splitlines() or ["no reason is given"]
        reason = lines[-1] if lines[0].startswith("Caught") else lines[0]  # a worker's error has its own at the end
        note(f"{who} does not run: {type(error).__name__}: {reason}")
    return []


def twin(name: str, model: Model) -> nn.Module:
    """A peer's model of the same architecture with the same weights, from pictures to logits; ready to answer."""
    state = {key: value.detach().cpu() for key, value in model.state_dict().items()}
    return BUILDERS[name](model.config, state).eval()


class Logits(nn.Module):
    """A model of transformers, which answers with a table, as one that answers with logits."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(pixel_values=images).logits


def _timm(config: Config, state: State) -> nn.Module:
    return _filled(_of_timm(config), "timm", config, state)


def _torchvision(config: Config, state: State) -> nn.Module:
    return _filled(_of_torchvision(config), "torchvision", config, state)


def _transformers(config: Config, state: State) -> nn.Module:
    """Through a folder as it reads them, since what its models call their weights changes from version to version."""
    part("transformers", "utils.logging").disable_progress_bar()
    with TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        convert(Checkpoint(Card(model=config), state, "native"), place, "huggingface")
        (kind,) = json.loads((place / "config.json").read_text())["architectures"]
        model = getattr(library("transformers"), kind).from_pretrained(place, attn_implementation="sdpa")
    return Logits(model)


def _of_timm(config: Config) -> nn.Module:
    sizes: dict[str, Any] = {
        "img_size": config.image,
        "in_chans": config.channels,
        "num_classes": config.classes,
        "patch_size": config.patch[0] if isinstance(config, ViTConfig | SwinConfig) else 0,
    }
    match config:
        case SwinConfig():
            sizes |= {"embed_dim": config.width, "depths": config.depths, "num_heads": config.heads}
            sizes |= {"window_size": config.window[0], "mlp_ratio": config.mlp, "qkv_bias": config.biases == "qkv"}
            return part("timm", "models.swin_transformer").SwinTransformer(**sizes, drop_path_rate=0.0)
        case ViTConfig(pool=ClassToken() | Mean(), block="pre-norm", encoder="global", stem=None):
            sizes |= {"embed_dim": config.width, "depth": config.depth, "num_heads": config.heads}
            sizes |= {"mlp_ratio": config.mlp / config.width, "qkv_bias": config.biases == "qkv"}
            sizes |= {"class_token": "class" in config.special, "reg_tokens": config.special.count("register")}
            sizes |= {"init_values": config.layer_scale, "no_embed_class": _places_patches_alone(config)}
            if isinstance(config.pool, Mean):
                sizes |= {"global_pool": "avg", "fc_norm": config.pool.norm == "after"}
            return part("timm", "models.vision_transformer").VisionTransformer(**sizes)
    raise ModelError("timm is compared with plain ViTs and Swins alone")


def _places_patches_alone(config: ViTConfig) -> bool:
    """Whether special tokens have no positions."""
    position = config.position
    return isinstance(position, Learned1D) and rows_before_patches(position.over, config.special) == 0


def _of_torchvision(config: Config) -> nn.Module:
    match config:
        case SwinConfig():
            return part("torchvision", "models.swin_transformer").SwinTransformer(
                patch_size=list(config.patch),
                embed_dim=config.width,
                depths=list(config.depths),
                num_heads=list(config.heads),
                window_size=list(config.window),
                mlp_ratio=float(config.mlp),
                stochastic_depth_prob=0.0,
                num_classes=config.classes,
            )
        case ViTConfig(block="pre-norm", encoder="global", stem=None):
            return part("torchvision", "models.vision_transformer").VisionTransformer(
                image_size=config.image[0],
                patch_size=config.patch[0],
                num_layers=config.depth,
                num_heads=config.heads,
                hidden_dim=config.width,
                mlp_dim=config.mlp,
                num_classes=config.classes,
            )
    raise ModelError("torchvision is compared with plain ViTs and Swins alone")


BUILDERS: dict[str, Callable[[Config, State], nn.Module]] = {
    "timm": _timm,
    "transformers": _transformers,
    "torchvision": _torchvision,
}


def _filled(module: nn.Module, name: str, config: Config, state: State) -> nn.Module:
    """With our weights, every parameter of it; buffers that follow from the sizes are the library's own."""
    format = choose(name, config)
    if refused := format.refuses(config):
        raise ModelError(f"{name} cannot hold {refused}")
    _compute_as(module, config)
    theirs = give(format.rules(config.heads if isinstance(config, ViTConfig) else 1), state, name)
    missing, surplus = module.load_state_dict(theirs, strict=False)
    own = dict(module.named_parameters())
    if wrong := [key for key in missing if key in own] + list(surplus):
        raise ModelError(f"{name}'s model has other weights than ours gives it: {listed(wrong)}")
    return module


def _compute_as(module: nn.Module, config: Config) -> None:
    """The activation and the norms' epsilon of the configuration, which these libraries have their own ideas of."""
    assert isinstance(config, ViTConfig | SwinConfig)  # others are not built here
    form = "tanh" if config.activation == "gelu-tanh" else "none"
    for inner in module.modules():
        if isinstance(inner, nn.LayerNorm):
            inner.eps = config.epsilon
        if isinstance(inner, nn.GELU):
            inner.approximate = form
