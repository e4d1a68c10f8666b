"""config.json, which stands beside the weights in a Hugging Face folder: what it says of the model, and back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from patchwords.errors import ModelError, UsageError
from patchwords.layers.head import TanhMLP
from patchwords.layers.mlp import Activation
from patchwords.layers.pool import Mean, Pool
from patchwords.layers.position import RelativeBias
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.weights.card import Card, Loss
from patchwords.weights.recognise import family

ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu", "gelu_pytorch_tanh": "gelu-tanh", "gelu_new": "gelu-tanh"}
WRITTEN = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}

PROBLEMS: dict[Loss, str] = {"softmax": "single_label_classification", "sigmoid": "multi_label_classification"}

TIMM_POOLS = {"token": ("class", "distilled"), "avg": ("mean",), "map": ("map",)}

# What config.json repeats of the weights' shapes.
SAID = (
    *("model_type", "hidden_size", "num_hidden_layers", "intermediate_size", "patch_size", "num_channels", "qkv_bias"),
    *("embedding_size", "hidden_sizes", "depths", "embed_dim", "num_heads", "window_size", "mlp_ratio"),
    *("use_relative_position_bias", "use_shared_relative_position_bias", "use_absolute_position_embeddings"),
)

# What each kind of model could be asked for and is computed here in one way only.
ONLY: dict[str, dict[str, Any]] = {
    "vit": {"pooler_act": "tanh"},
    "deit": {"pooler_act": "tanh"},
    "vit_mae": {},
    "beit": {},
    "swin": {"use_absolute_embeddings": False, "layer_norm_eps": 1e-5},
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
    epsilon = table.get("layer_norm_eps", ONLY[kind].get("layer_norm_eps", 1e-12))
    computed = {"activation": activation, "epsilon": float(epsilon)}
    return computed | _read_beit(table) if kind == "beit" else computed


def _read_beit(table: Mapping[str, Any]) -> dict[str, Any]:
    """BEiT's layer scale. On an oblong grid transformers takes rows for columns: what it computes is not the model."""
    sides = read_image(table) or (224, 224)
    kinds = ("use_relative_position_bias", "use_shared_relative_position_bias", "use_absolute_position_embeddings")
    asked = [key for key in kinds if table.get(key)]
    if asked and len(set(sides)) > 1:
        raise ModelError(
            f"config.json asks for {asked[0]} on pictures of {sides[0]}x{sides[1]}; only square ones are computed"
        )
    return {"layer_scale": float(table.get("layer_scale_init_value", 0.1)) or None}


def compare(table: Mapping[str, Any], config: Config) -> None:
    """Refuses a config.json that speaks of another model than its weights are."""
    found = write_model(Card(model=config))
    said = {key: table[key] for key in SAID if table.get(key) is not None and key in found}
    if config.classes and "use_mean_pooling" in table and "use_mean_pooling" in found:  # else nobody pools
        said["use_mean_pooling"] = table["use_mean_pooling"]
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
    if said in TIMM_POOLS and config.pool.kind not in TIMM_POOLS[said]:
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


def read_loss(table: Mapping[str, Any]) -> Loss:
    """Whether the classes exclude each other."""
    return "sigmoid" if table.get("problem_type") == PROBLEMS["sigmoid"] else "softmax"


def write_model(card: Card) -> dict[str, Any]:
    """config.json as transformers reads it."""
    config = card.model
    names = card.classes or tuple(f"LABEL_{i}" for i in range(config.classes))
    labels: dict[str, Any] = {
        "id2label": {str(i): name for i, name in enumerate(names)},
        "label2id": {name: i for i, name in enumerate(names)},
        "num_channels": config.channels,
        "image_size": _side(config.image),  # BiT's config.json has no place of its own for it
    }
    if config.classes:
        labels["problem_type"] = PROBLEMS[card.loss]
    if isinstance(config, SwinConfig):
        return labels | _swin(config)
    if isinstance(config, ResNetConfig):
        return labels | _bit(config)
    assert isinstance(config, ViTConfig)  # no names in that format for the others
    return labels | _vit(config) | (_beit(config) if family(config) == "beit" else {})


def _vit(config: ViTConfig) -> dict[str, Any]:
    kind, architecture = _kind(config)
    return {
        "architectures": [architecture],
        "model_type": kind,
        "hidden_size": config.width,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.mlp,
        "hidden_act": WRITTEN[config.activation],
        "layer_norm_eps": config.epsilon,
        "patch_size": _side(config.patch),
        "qkv_bias": config.biases == "qkv",
        "pooler_output_size": config.head.hidden or config.width if isinstance(config.head, TanhMLP) else config.width,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.weight_dropout,
    }


def _side(size: tuple[int, int]) -> int | list[int]:
    """One number where both are the same."""
    return size[0] if size[0] == size[1] else list(size)


def _kind(config: ViTConfig) -> tuple[str, str]:
    """The model_type, and the class that has what the weights have."""
    end = "ForImageClassification" if config.classes else "Model"
    match family(config):
        case "distilled":
            return "deit", "DeiTForImageClassificationWithTeacher"
        case "deit":
            return "deit", f"DeiT{end}"
        case "autoencoder":
            return "vit_mae", "ViTMAEModel"
        case "beit":
            return "beit", f"Beit{end}"
    return "vit", f"ViT{end}"


def _beit(config: ViTConfig) -> dict[str, Any]:
    """What config.json of a BEiT says beside the sizes."""
    position = config.position
    return {
        "use_absolute_position_embeddings": position.at == "stem" and position.kind != "none",
        "use_relative_position_bias": position == RelativeBias(at="every"),
        "use_shared_relative_position_bias": position == RelativeBias(at="shared"),
        "use_mean_pooling": config.pool.kind == "mean",
        "layer_scale_init_value": config.layer_scale or 0.0,
        "drop_path_rate": config.stochastic_depth,
    }


def _swin(config: SwinConfig) -> dict[str, Any]:
    return {
        "architectures": ["SwinForImageClassification" if config.classes else "SwinModel"],
        "model_type": "swin",
        "embed_dim": config.width,
        "depths": list(config.depths),
        "num_heads": list(config.heads),
        "window_size": config.window[0],
        "mlp_ratio": float(config.mlp),
        "hidden_act": WRITTEN[config.activation],
        "patch_size": _side(config.patch),
        "qkv_bias": config.biases == "qkv",
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.weight_dropout,
        "drop_path_rate": config.stochastic_depth,
    } | ONLY["swin"]


def _bit(config: ResNetConfig) -> dict[str, Any]:
    return {
        "architectures": ["BitForImageClassification"],
        "model_type": "bit",
        "embedding_size": config.width,
        "hidden_sizes": [4 * config.width * 2**i for i in range(len(config.units))],
        "depths": list(config.units),
    } | ONLY["bit"]
