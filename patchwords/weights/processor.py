"""preprocessor_config.json, which stands beside config.json: how pictures are prepared, from there and back."""

from collections.abc import Mapping
from dataclasses import replace
from math import floor
from typing import Any

from patchwords.data.preprocess import Interpolation, Preprocess
from patchwords.errors import ModelError

FILTERS: dict[int, Interpolation] = {2: "bilinear", 3: "bicubic", 1: "lanczos"}  # Pillow's numbers


def read(sidecars: Mapping[str, Mapping[str, Any]], image: tuple[int, int]) -> Preprocess | None:
    """From transformers' preprocessor_config.json, or from the `pretrained_cfg` in timm's config.json."""
    if table := sidecars.get("preprocessor_config.json"):
        return _from_processor(table, image)
    if table := sidecars.get("config.json", {}).get("pretrained_cfg"):
        return _from_timm(table, image)
    return None


def _from_processor(table: Mapping[str, Any], image: tuple[int, int]) -> Preprocess:
    """Its resize to height and width squashes, `shortest_edge` keeps the proportions; then perhaps a central crop."""
    value = Preprocess(size=image, interpolation=FILTERS[table.get("resample", 2)])
    scale = 255 * table.get("rescale_factor", 1 / 255) if table.get("do_rescale", True) else 255  # ours divides by 255
    mean, deviation = table.get("image_mean", value.mean), table.get("image_std", value.deviation)
    if not table.get("do_normalize", True):
        mean, deviation = [0.0] * len(mean), [1.0] * len(deviation)
    value = replace(value, mean=tuple(m / scale for m in mean), deviation=tuple(d / scale for d in deviation))
    size = table.get("size")
    if isinstance(size, dict) and (edge := size.get("shortest_edge")):
        crop = _sides(table.get("crop_size") or edge)[0] if table.get("do_center_crop", True) else edge
        return replace(value, fit="crop", crop=crop / edge)
    if size and table.get("do_center_crop"):  # as DeiT's, which is a single number in files before 2022
        return replace(value, fit="centre", crop=_share(_sides(table["crop_size"]), _sides(size)))
    return value


def _sides(size: Any) -> tuple[int, int]:
    """Height and width, which older files write as one number."""
    return (size["height"], size["width"]) if isinstance(size, dict) else (size, size)


def _share(crop: tuple[int, int], cover: tuple[int, int]) -> float:
    """The share of both sides that is seen of what was resized to `cover`."""
    share = min(part / whole for part, whole in zip(crop, cover, strict=True))
    if (found := (_cover(crop[0], share), _cover(crop[1], share))) != cover:
        raise ValueError(f"crop_size {crop} and size {cover} are of different shapes: {found} would fit")
    return share


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
    cover = {"height": _cover(height, value.crop), "width": _cover(width, value.crop)}
    if value.fit == "crop" and height != width:
        raise ModelError(
            f"transformers resizes by the short side of a picture alone, and cannot cut the middle of {height}x{width} "
            'out of it: only a square one, or with preprocess.fit = "centre"'
        )
    return table | {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": cover["height"]} if value.fit == "crop" else cover,
        "do_center_crop": True,
        "crop_size": {"height": height, "width": width},
    }


def _cover(side: int, share: float) -> int:
    """What a side is resized to before its middle is cut out: in whole pixels, as `transforms.whole_box` has it."""
    return floor(side / share + 1e-9)
