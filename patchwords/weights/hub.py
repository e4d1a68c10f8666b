"""config.json and preprocessor_config.json, the two files beside the weights in a Hugging Face folder."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchwords.data.preprocess import Interpolation, Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.head import TanhMLP
from patchwords.layers.mlp import Activation
from patchwords.layers.pool import Mean, Pool
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card

ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu-tanh", "gelu_new": "gelu-tanh"}
FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic", 1: "lanczos"}  # Pillow's numbers

TIMM_POOLS = {"token": "class", "avg": "mean", "map": "map"}

# What config.json repeats of the weights' shapes.
SAID = (
    *("hidden_size", "num_hidden_layers", "intermediate_size", "patch_size", "num_channels", "qkv_bias"),
    *("embedding_size", "hidden_sizes", "depths"),
)

# What each kind of model could be asked for and is computed here in one way only.
ONLY: dict[str, dict[str, Any]] = {
    "vit": {"pooler_act": "tanh"},
    "bit": {
        "layer_type": "preactivation",
        "global_padding": None,
        "embedding_dynamic_padding": False,
        "num_groups": 32,
        "hidden_act": "relu",
        "output_stride": 32,
        "width_factor": 1,
    },
}


@contextmanager
def understanding(path: Path) -> Iterator[None]:
    """A file beside the weights that is not as its library writes it is an error of that file."""
    try:
        yield
    except (TypeError, ValueError, KeyError, AttributeError, UsageError) as error:
        raise ModelError(f"a JSON file of {path} is not as it should be: {type(error).__name__} {error}") from error


def read_model(table: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that config.json decides."""
    if (kind := table.get("model_type")) not in ONLY:
        raise ModelError(f"config.json is of a {kind!r} model; {' and '.join(ONLY)} are read")
    if other := [key for key, value in ONLY[kind].items() if table.get(key, value) != value]:
        raise ModelError(
            f"config.json asks for {other[0]} = {table[other[0]]!r}; only {ONLY[kind][other[0]]!r} is computed"
        )
    if kind == "bit":
        return {}
    activation = ACTIVATIONS.get(table.get("hidden_act", "gelu"))
    if activation is None:
        raise ModelError(f"config.json asks for {table['hidden_act']!r}; {', '.join(ACTIVATIONS)} are known")
    return {"activation": activation, "epsilon": float(table.get("layer_norm_eps", 1e-12))}


def compare(table: Mapping[str, Any], config: ViTConfig | ResNetConfig) -> None:
    """Refuses a config.json that speaks of another model than its weights are."""
    found = write_model(Card(model=config))
    said = {key: table[key] for key in SAID if table.get(key) is not None and key in found}
    if config.classes and table.get("id2label"):
        said["classes"], found["classes"] = len(table["id2label"]), config.classes
    for key, value in said.items():
        if value not in (found[key], [found[key]] * 2):
            raise ModelError(f"config.json says {key} = {value!r}, the weights are of {found[key]!r}")


def read_pool(table: Mapping[str, Any], config: ViTConfig) -> Pool:
    """The pool that timm's config.json names, which its tensors tell only in part."""
    said = table.get("global_pool")
    if said == "avg" and config.pool.kind == "class":
        return Mean()  # the class token is there, and not asked
    if said in TIMM_POOLS and TIMM_POOLS[said] != config.pool.kind:
        raise ModelError(f"config.json says global_pool = {said!r}, the weights have a {config.pool.kind!r} pool")
    return config.pool


def read_image(table: Mapping[str, Any]) -> tuple[int, int] | None:
    size = table.get("image_size")
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


def read_heads(table: Mapping[str, Any]) -> int | None:
    heads = table.get("num_attention_heads")
    if heads is not None and (type(heads) is not int or heads < 1):
        raise ValueError(f"num_attention_heads is {heads!r}")
    return heads


def read_classes(table: Mapping[str, Any], classes: int) -> tuple[str, ...]:
    """Class names in order, unless they are the library's placeholders."""
    names = {int(number): name for number, name in (table.get("id2label") or {}).items()}
    if wrong := [name for name in names.values() if not isinstance(name, str)]:
        raise ValueError(f"the label {wrong[0]!r} is no text")
    if sorted(names) != list(range(classes)) or all(names[i] == f"LABEL_{i}" for i in names):
        return ()
    return tuple(names[i] for i in range(classes))


def read_preprocess(sidecars: Mapping[str, Mapping[str, Any]], image: tuple[int, int]) -> Preprocess | None:
    """From transformers' preprocessor_config.json, or from the `pretrained_cfg` in timm's config.json."""
    if table := sidecars.get("preprocessor_config.json"):
        return _from_processor(table, image)
    if table := sidecars.get("config.json", {}).get("pretrained_cfg"):
        return _from_timm(table, image)
    return None


def _from_processor(table: Mapping[str, Any], image: tuple[int, int]) -> Preprocess:
    """Its resize to height and width squashes; `shortest_edge` with a central crop keeps the proportions."""
    value = Preprocess(size=image, interpolation=FILTERS[table.get("resample", 2)])
    scale = 255 * table.get("rescale_factor", 1 / 255) if table.get("do_rescale", True) else 255  # ours divides by 255
    mean, deviation = table.get("image_mean", value.mean), table.get("image_std", value.deviation)
    if not table.get("do_normalize", True):
        mean, deviation = [0.0] * len(mean), [1.0] * len(deviation)
    value = replace(value, mean=tuple(m / scale for m in mean), deviation=tuple(d / scale for d in deviation))
    size = table.get("size")
    edge = size.get("shortest_edge") if isinstance(size, dict) else None
    if not edge:
        return value
    crop = (table.get("crop_size") or {}).get("height", edge) if table.get("do_center_crop", True) else edge
    return replace(value, fit="crop", crop=crop / edge)


def _from_timm(table: Mapping[str, Any], image: tuple[int, int]) -> Preprocess:
    return Preprocess(
        size=image,
        fit="squash" if table.get("crop_mode") == "squash" else "crop",
        crop=float(table.get("crop_pct", 0.875)),
        interpolation=table.get("interpolation", "bicubic"),
        mean=tuple(table["mean"]),
        deviation=tuple(table["std"]),
    )


def write_model(card: Card) -> dict[str, Any]:
    """config.json as transformers reads it."""
    config = card.model
    names = card.classes or tuple(f"LABEL_{i}" for i in range(config.classes))
    labels = {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        "num_channels": config.channels,
    }
    return labels | (_bit(config) if isinstance(config, ResNetConfig) else _vit(config))


def _vit(config: ViTConfig) -> dict[str, Any]:
    activations = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
        "architectures": ["ViTForImageClassification" if config.classes else "ViTModel"],
        "model_type": "vit",
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp,
        "hidden_act": activations[config.activation],
        "layer_norm_eps": config.epsilon,
        "image_size": config.image[0] if config.image[0] == config.image[1] else list(config.image),
        "patch_size": config.patch[0] if config.patch[0] == config.patch[1] else list(config.patch),
        "qkv_bias": config.biases == "qkv",
        "pooler_output_size": config.head.hidden or config.width if isinstance(config.head, TanhMLP) else config.width,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.weight_dropout,
    }


def _bit(config: ResNetConfig) -> dict[str, Any]:
    return {
        "architectures": ["BitForImageClassification"],
        "model_type": "bit",
        "embedding_size": config.width,
        "hidden_sizes": [4 * config.width * 2**i for i in range(len(config.units))],
        "depths": list(config.units),
    } | ONLY["bit"]


def write_preprocess(value: Preprocess) -> dict[str, Any]:
    height, width = value.size
    filters = {name: number for number, name in FILTERS.items()}
    table: dict[str, Any] = {
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(value.mean),
        "image_std": list(value.deviation),
        "resample": filters[value.interpolation],
    }
    if value.fit == "squash":
        return table | {"image_processor_type": "ViTImageProcessor", "size": {"height": height, "width": width}}
    return table | {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": round(height / value.crop)},
        "do_center_crop": True,
        "crop_size": {"height": height, "width": width},
    }
