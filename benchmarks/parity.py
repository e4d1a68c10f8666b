"""How far our logits are from the references': `python benchmarks/parity.py FOLDER`, a row for each reference in it.

A reference is a folder with weights as its library wrote them (params.npz or model.safetensors, config.json for
transformers) and io.npz with inputs and logits.
"""

import logging
import sys
from pathlib import Path

import numpy as np
import torch

import patchwords
from patchwords.weights.autoencoder import open_autoencoder

CASES = {  # folder: weights within it, options of `load`, names of inputs and logits
    "A1_official_token": ("params.npz", {}, "inputs", "logits"),
    "A2_official_prelogits": ("params.npz", {}, "inputs", "logits"),
    "A3_official_gap": ("params.npz", {}, "inputs", "logits"),
    "A4_official_hybrid": ("params.npz", {}, "inputs", "logits"),
    "A6_timm_vit": ("model.safetensors", {"heads": 3}, "inputs", "logits"),
    "A6_timm_resnetv2_bit": ("model.safetensors", {}, "inputs", "logits"),
    "A6_timm_deit_distilled": ("model.safetensors", {"heads": 3}, "inputs", "logits"),
    "A6_timm_beit": ("model.safetensors", {}, "inputs", "logits"),
    "A6_timm_swin": ("model.safetensors", {"trained_at": 32}, "inputs", "logits"),
    "A7_hf_vit": ("", {}, "pixel_values", "logits"),
    "A7_hf_vit, 16 to 24 pixels": ("", {"image": 24, "positions": "bicubic"}, "inputs_interp", "logits_interp"),
    "A7_hf_deit_teacher": ("", {}, "pixel_values", "logits"),
    "A7_hf_beit": ("", {}, "pixel_values", "logits"),
    "A7_hf_swin": ("", {}, "pixel_values", "logits"),
    "A8_torchvision_swin": ("model.safetensors", {"trained_at": 32}, "inputs", "logits"),
    "A8_torchvision_vit": ("model.safetensors", {"heads": 3}, "inputs", "logits"),
}
AUTOENCODERS = ("A7_hf_mae", "A7_hf_mae_normpix")  # with the noise that decides what is hidden
RESIZED = {
    f"A5_official_posemb_resize, {4 * g} pixels": (f"inputs_{g}x{g}", f"logits_{g}x{g}", 4 * g) for g in (3, 4, 6, 9)
}


def difference(weights: Path, options: dict[str, object], io: Path, inputs: str, logits: str) -> float:
    with np.load(io) as arrays:
        images, expected = torch.from_numpy(arrays[inputs]), torch.from_numpy(arrays[logits])
    if images.shape[-1] == 3:  # the official code has channels last
        images = images.permute(0, 3, 1, 2)
    with torch.inference_mode():
        return float((patchwords.load(weights, **options).eval()(images) - expected).abs().max())


def reconstruction(case: Path) -> float:
    """Of the predicted patches and the loss, of which the larger."""
    with np.load(case / "io.npz") as arrays:
        batch = {"image": torch.from_numpy(arrays["pixel_values"]), "noise": torch.from_numpy(arrays["noise"])}
        predicted, loss = torch.from_numpy(arrays["pred"]), float(arrays["loss"])
    objective = open_autoencoder(case).build().eval()
    with torch.inference_mode():
        found = objective.reconstruct(batch).prediction
        return max(float((found - predicted).abs().max()), abs(float(objective(batch)[0]) - loss))


def main(folder: Path) -> None:
    logging.disable(logging.WARNING)
    for name, (weights, options, inputs, logits) in CASES.items():
        case = folder / name.partition(",")[0]
        print(f"{name:<42} {difference(case / weights, options, case / 'io.npz', inputs, logits):.1e}")
    for name in AUTOENCODERS:
        print(f"{name:<42} {reconstruction(folder / name):.1e}")
    for name, (inputs, logits, image) in RESIZED.items():
        weights, io = folder / "A1_official_token" / "params.npz", folder / name.partition(",")[0] / "io.npz"
        print(f"{name:<42} {difference(weights, {'image': image}, io, inputs, logits):.1e}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("say where the references are: python benchmarks/parity.py FOLDER")
    main(Path(sys.argv[1]))
