"""What a checkpoint holds: tensors in safetensors files and a state in JSON, all of it finite."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from patchwords.errors import NonFiniteError
from patchwords.training.run.manifest import DamagedError
from patchwords.weights import files

SUFFIX = ".safetensors"


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Copies, since the format refuses tensors that share their memory, as the views of one buffer do."""
    plain = torch.contiguous_format
    copies = {name: tensor.detach().to("cpu", copy=True, memory_format=plain) for name, tensor in tensors.items()}
    files.write(path, copies)


def read_tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Copies too: a tensor that leans on the file would change with it."""
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name).clone()
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error


def refuse_poison(where: str, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """One pass over what can be infinite or no number at all; a device is waited for once all of it is under way."""
    floating = [(name, tensor) for name, tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]
    finite = [torch.isfinite(tensor).all() for _, tensor in floating]
    if poisoned := [name for (name, _), whole in zip(floating, finite, strict=True) if not whole]:
        others = f" and {len(poisoned) - 1} more" if len(poisoned) > 1 else ""
        raise NonFiniteError(
            f"{where}: {poisoned[0]}{others} holds numbers that are not finite, so nothing was saved; "
            "the checkpoints before it stand"
        )


def write_state(state: Mapping[str, Any]) -> bytes:
    """JSON that reads back as it was given, but for tuples, which become lists."""
    _check(dict(state), "state")
    return (json.dumps(state, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def read_state(path: Path) -> dict[str, Any]:
    try:
        state = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    if not isinstance(state, dict):
        raise DamagedError(f"{path} is not a JSON object")
    return state


def _check(value: Any, where: str) -> None:
    match value:
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"{where} has the key {key!r}, which JSON would turn into a text")
                _check(inner, f"{where}.{key}")
        case list() | tuple():
            for index, inner in enumerate(value):
                _check(inner, f"{where}[{index}]")
        case float() if not math.isfinite(value):
            raise NonFiniteError(f"{where} is {value}, so nothing was saved; the checkpoints before it stand")
