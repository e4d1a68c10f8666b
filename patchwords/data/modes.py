"""What every kind of pixel becomes: RGB or grey, 8 bits a channel, nothing transparent (docs/pictures.md)."""

import numpy as np
from PIL import Image

WHITES = {"I": (255.0, 65535.0), "F": (1.0, 255.0, 65535.0)}  # the first that holds the largest value


def flatten(image: Image.Image) -> Image.Image:
    """RGB or L with 8 bits a channel; what is transparent lies on white."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _to_eight_bits(image)
    if image.mode == "LAB":
        return _from_lab(image)
    if image.has_transparency_data:
        return _on_white(image)
    if image.mode in ("RGB", "L"):
        return image
    return image.convert("L" if image.mode == "1" else "RGB")


def convert(image: Image.Image, channels: int) -> Image.Image:
    """From RGB or L to the one that has so many channels."""
    mode = "L" if channels == 1 else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _to_eight_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    if image.mode.startswith("I;16"):
        grey = (values >> 8).astype(np.uint8)  # as Pillow does with 16-bit colours
    else:
        values = np.nan_to_num(values.astype(np.float32), posinf=0.0, neginf=0.0)
        most = float(values.max())
        white = next((white for white in WHITES[image.mode] if most <= white), most)
        grey = np.rint(np.clip(values, 0, None) * (255.0 / white)).astype(np.uint8)
    if "transparency" in image.info:
        grey[values == image.info["transparency"]] = 255
    return Image.fromarray(grey)


def _from_lab(image: Image.Image) -> Image.Image:
    from PIL import ImageCms  # for this rare kind alone

    lab, rgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    converted = ImageCms.profileToProfile(image, lab, rgb, outputMode="RGB")
    assert converted is not None
    return converted


def _on_white(image: Image.Image) -> Image.Image:
    layer = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
    ground = Image.new("RGB", layer.size, "white")
    ground.paste(layer, mask=layer.getchannel("A"))
    return ground
