"""What a library's names could hold but it would not compute: each says so in words, or nothing where all is well."""

from patchwords.layers.position import Learned1D, rows_before_patches
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig


def has_every_row(config: ViTConfig) -> bool:
    """Whether there is a position for each token."""
    match config.position:
        case Learned1D(over=over):
            return rows_before_patches(over, config.special) == len(config.special)
        case position:
            return position.kind == "fixed-1d"


def beyond_class_token(config: Config) -> str:
    """transformers and torchvision know the class token and a row for each token, nothing else."""
    if not isinstance(config, ViTConfig):
        return ""
    plain = config.special == ("class",) and config.pool.kind == "class" and config.encoder == "global"
    alone = plain and has_every_row(config)
    return "" if alone else "anything but a class token, its pool and a position for every token"


def beyond_timm(config: Config) -> str:
    """There a distillation token stands alone beside the class token, both with a position, and both are asked."""
    if not isinstance(config, ViTConfig) or "distillation" not in config.special:
        return ""
    both = config.special == ("class", "distillation") and config.pool.kind == "distilled"
    return "" if both and has_every_row(config) else "a distillation token in anything but a distilled DeiT"


def beyond_flax(config: Config) -> str:
    """The official code and big_vision have biases on q, k and v always."""
    return "attention without biases" if isinstance(config, ViTConfig) and config.biases == "none" else ""


def beyond_torchvision(config: Config) -> str:
    """There a picture and its patches are square, too."""
    if isinstance(config, ViTConfig) and (len(set(config.image)) > 1 or len(set(config.patch)) > 1):
        return "pictures or patches that are not square"
    return beyond_flax(config) or beyond_class_token(config)


def beyond_transformers(config: Config) -> str:
    """There a hidden layer belongs to the bare ViTModel (its pooler), never to a classifier."""
    if config.head.kind == "mlp" and config.classes:
        return "a hidden layer before the classifier"
    return beyond_class_token(config)


def beyond_deit(config: Config) -> str:
    """In transformers a classifier sees the class token alone, or there are two, one for each of both tokens."""
    if not isinstance(config, ViTConfig):
        return ""
    if config.head.kind == "mlp" and config.classes:
        return "a hidden layer before the classifier"
    if config.head.kind == "distilled" and not config.classes:
        return "a distilled model without classes"
    asked = config.pool.kind in ("class", "distilled") and config.encoder == "global"
    both = config.special == ("class", "distillation") and asked and has_every_row(config)
    return "" if both else "anything but a class and a distillation token, their pool and a position for every token"


def beyond_beit(config: Config) -> str:
    """There is a class token always, and a position for each token if there are positions at all."""
    if not isinstance(config, ViTConfig):
        return ""
    placed = config.position.kind in ("none", "relative-bias") or has_every_row(config)
    return "" if config.special == ("class",) and placed else "anything but a class token, or positions for some tokens"


def beyond_transformers_beit(config: Config) -> str:
    """There queries and values have biases always; of an oblong grid it takes the biases' rows for columns."""
    if not isinstance(config, ViTConfig):
        return ""
    if config.biases != "qv":
        return "attention with anything but biases for queries and values"
    oblong = len(set(config.patch)) > 1 or (len(set(config.image)) > 1 and config.position.kind != "none")
    return "pictures or patches that are not square" if oblong else beyond_beit(config)


def beyond_whole_windows(config: Config) -> str:
    """torchvision and transformers know square windows that no stage's map is too small for."""
    if not isinstance(config, SwinConfig) or {*config.windows} == {config.window} == {config.window[::-1]}:
        return ""
    return "windows that are not square, or larger than a stage's map"


def beyond_microsoft(config: Config) -> str:
    """The authors' code pads nothing; and what tells their names from timm's is that a stage ends with merging."""
    if not isinstance(config, SwinConfig):
        return ""
    if any(rows != cols for rows, cols in config.windows):
        return "windows that are not square"
    sides = [pair for both in zip(config.grids, config.windows, strict=True) for pair in zip(*both, strict=True)]
    if any(length % window for length, window in sides):
        return "windows that do not divide every map"
    if any(rows % 2 or cols % 2 for rows, cols in config.grids[:-1]):
        return "a map with an odd side, which is merged"
    return beyond_both_sides(config) or ("" if len(config.depths) > 1 else "a single stage")


def beyond_both_sides(config: SwinConfig) -> str:
    """The authors and transformers move no window along a map that is one window high."""
    (tall, wide), shifted = config.window, [grid for grid, n in zip(config.grids, config.depths, strict=True) if n > 1]
    if any((rows <= tall) != (cols <= wide) for rows, cols in shifted):
        return "a map that is one window high and several wide, or the other way round"
    return ""


def beyond_transformers_swin(config: Config) -> str:
    """There some norms have an epsilon that nobody can set."""
    if not isinstance(config, SwinConfig):
        return ""
    if config.epsilon != 1e-5:
        return f"an epsilon of {config.epsilon}: only 1e-5"
    return beyond_both_sides(config) or beyond_whole_windows(config)
