"""numpy's archives of arrays, in which Flax's weights are kept; no pickle within is read."""

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from patchwords.weights.rules import State

MOST_UNPACKED = 16  # times the size of an archive: weights hardly shrink when packed


def shapes(path: Path) -> State:
    """Tensors on the meta device; headers are checked against the archive, so that no lie about a size is believed."""
    state = {}
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > MOST_UNPACKED * path.stat().st_size:
            raise ValueError(f"it unpacks to more than {MOST_UNPACKED} times its size")
        for member in archive.infolist():
            with archive.open(member) as file:
                promise = _npy_header(file)
                if file.tell() + promise.nbytes != member.file_size:
                    raise ValueError(f"{member.filename} is not as long as its header says")
            state[member.filename.removesuffix(".npy")] = promise
    return state


def read(path: Path) -> State:
    """All tensors, the headers first."""
    shapes(path)
    with np.load(path, allow_pickle=False) as arrays:
        return {name: _from_numpy(arrays[name]) for name in arrays.files}


def write(path: Path, state: State) -> None:
    arrays = {
        name: tensor.view(torch.int16).numpy().view("V2") if tensor.dtype == torch.bfloat16 else tensor.numpy()
        for name, tensor in state.items()
    }
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _npy_header(file: IO[bytes]) -> Tensor:
    """The shape and kind of an array that was not read."""
    version = np.lib.format.read_magic(file)
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in headers:
        raise ValueError(f"version {version} of numpy's format is not known")
    shape, _, dtype = headers[version](file)
    return torch.empty(shape, dtype=_torch_kind(dtype), device="meta")


def _from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    if array.dtype == np.dtype("V2"):  # numpy has no bfloat16: JAX writes its bits
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"arrays of kind {array.dtype} are not weights")
    return torch.from_numpy(array)


def _torch_kind(dtype: np.dtype[Any]) -> torch.dtype:
    return _from_numpy(np.empty(1, dtype)).dtype
