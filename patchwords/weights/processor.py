"""preprocessor_config.json, which stands beside config.json: how pictures are prepared, from there and back."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchwords.data.preprocess import Interpolation, Preprocess

FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic", 1: "lanczos"}  # Pillow's numbers


def read(sidecars: Mapping[str, Mapping[str, Any]], image: tuple[int, int]) -> Preprocess | None:
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


def write(value: Preprocess) -> dict[str, Any]:
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
