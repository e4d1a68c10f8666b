"""Builds the models of the paper, checks their sizes, and takes one through every checkpoint format and back.

Run it with `python examples/paper_models.py`.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from sklearn.datasets import load_digits

import patchwords
from patchwords.models.cost import cost
from patchwords.models.names import read
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.convert import convert

PUBLISHED = {  # parameters with 1000 classes at 224 pixels, as the published checkpoints have them
    "ViT-B/16": 86_567_656,
    "ViT-L/32": 306_535_400,
    "ViT-H/14": 632_045_800,
    "R50+ViT-B/16": 98_659_112,
    "BiT-R50x1": 25_549_352,
    "BiT-R152x4": 936_533_224,
}
FORMATS = {
    "native": "digits.safetensors",
    "official": "official.npz",
    "big_vision": "big_vision.npz",
    "timm": "timm.safetensors",
    "huggingface": "huggingface",
    "torchvision": "torchvision.pth",
}


def check_sizes() -> None:
    print("The paper's models, counted:")
    for name, parameters in PUBLISHED.items():
        found = cost(read(name))
        assert found.parameters == parameters, f"{name} has {found.parameters} parameters, not {parameters}"
        print(f"  {name:<14} {found.parameters:>12,} parameters, as published; {found.macs / 1e9:7.3f} G multiply-adds")


def check_formats() -> None:
    torch.manual_seed(0)
    model = patchwords.build("ViT-Digits/2").eval()
    torch.nn.init.normal_(model.head.classifier.weight)  # a fresh head is zero, and would prove nothing
    digits = torch.from_numpy(load_digits().images[:5]).float()[:, None] / 8 - 1  # (batch, 1, 8, 8)
    print("\nViT-Digits/2 with random weights, written and read again:")
    with TemporaryDirectory() as folder, torch.inference_mode():
        logits = model(digits)
        patchwords.save(model, Path(folder) / "model.safetensors")
        checkpoint = open_checkpoint(Path(folder) / "model.safetensors")
        for name, file in FORMATS.items():
            convert(checkpoint, Path(folder) / file, name)
            back = open_checkpoint(Path(folder) / file, heads=4)
            assert all(torch.equal(back.state[key], tensor) for key, tensor in checkpoint.state.items())
            print(f"  {name:<12} {len(back.state)} tensors, every bit the same")
        again = patchwords.load(Path(folder) / "model.safetensors").eval()
        assert torch.equal(again(digits), logits)
    print("  the loaded model gives the same logits for five digits")


if __name__ == "__main__":
    check_sizes()
    check_formats()
