"""Containers: safetensors, npz, torch's files, Hugging Face folders; read whole or only listed, no pickle ever run."""

import json
import os
import secrets
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from patchwords.errors import ModelError, ResourceError, UsageError, refuse_below_file
from patchwords.weights import modules, npz
from patchwords.weights.rules import State

Depth = Literal["whole", "shapes"]  # shapes: tensors on the meta device, nothing read but headers
TORCH_SUFFIXES = (".pth", ".pt", ".bin")
EXPORTED = (".onnx", ".pt2")
WRAPPERS = ("model", "state_dict", "model_state_dict")  # DeiT and MAE, then trainers of all kinds


@dataclass(frozen=True)
class Contents:
    """What a file or folder holds: tensors by name, safetensors' metadata, the JSON files beside them."""

    tensors: State
    metadata: dict[str, str] = field(default_factory=dict)
    sidecars: dict[str, dict[str, Any]] = field(default_factory=dict)


def read(path: Path, depth: Depth = "whole") -> Contents:
    """The contents of a checkpoint; what cannot be read is an error that names the file."""
    if not path.exists():
        raise UsageError(f"{path} does not exist: give a weights file or a folder with config.json")
    if path.suffix in EXPORTED and path.is_file():
        raise UsageError(
            f"{path.name} is an exported file, which has answers but no weights to read: give the model that it was "
            "made from"
        )
    if not path.is_dir() and (path.suffix not in READERS or not path.is_file()):
        raise UsageError(f"{path.name} is no weights file: {', '.join(READERS)} or a folder are read")
    try:
        contents = _folder(path, depth) if path.is_dir() else READERS[path.suffix](path, depth)
        for name, tensor in contents.tensors.items():
            _check(name, tensor)
    except MemoryError:
        raise
    except Exception as error:  # damaged files make their readers fail in every way there is
        reason = str(error).partition("\n")[0] or type(error).__name__
        if type(error) is not ValueError:
            reason = f"it is damaged, or no such file ({reason}); fetch or write it again"
        raise ModelError(f"{path} cannot be read: {reason}") from error
    return contents


def _check(name: object, tensor: object) -> None:
    if not isinstance(name, str) or not isinstance(tensor, Tensor) or tensor.layout != torch.strided:
        raise ValueError(f"{name!r} is no named, plain tensor")
    if tensor.dtype == torch.bool or tensor.is_complex() or tensor.is_quantized:
        raise ValueError(f"{name} holds {tensor.dtype}, and those are no weights")


def write(path: Path, state: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Tensors to the container that the name's ending asks for, aside first and then in one step."""
    if path.suffix not in WRITERS:
        raise UsageError(f"{path.name} does not say how to write it: end the name in {', '.join(WRITERS)}")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    needed = sum(tensor.nbytes for tensor in tensors.values())
    with writing(path, needed) as aside:
        aside.touch()
        mode = aside.stat().st_mode  # as any new file's; safetensors would make it private
        WRITERS[path.suffix](aside, tensors, metadata or {"format": "pt"})
        aside.chmod(mode)


def write_folder(path: Path, tables: Mapping[str, Mapping[str, Any]], state: Mapping[str, Tensor]) -> None:
    """A Hugging Face folder, whole or not at all."""
    with writing(path, sum(tensor.nbytes for tensor in state.values())) as aside:
        aside.mkdir()
        for name, table in tables.items():
            (aside / name).write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        write(aside / "model.safetensors", state)


@contextmanager
def writing(path: Path, needed: int) -> Iterator[Path]:
    """The old file or the new one, never neither: a name beside it to write to, which is synced and renamed."""
    aside = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        if aside.is_file():
            with aside.open("r+b") as file:
                os.fsync(file.fileno())
        os.replace(aside, path)
    except (OSError, SafetensorError, RuntimeError) as error:  # torch and safetensors have their own for a full disk
        refuse_below_file(path)
        reason = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        raise ResourceError(
            f"{path} could not be written ({reason}); {needed:,} bytes are needed there. Nothing was changed"
        ) from error
    finally:
        if aside.is_dir():
            shutil.rmtree(aside)
        elif aside.exists():
            aside.unlink()


def _safetensors(path: Path, depth: Depth) -> Contents:
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if depth == "whole":  # copied: a tensor that leans on the file changes with it
            return Contents({name: file.get_tensor(name).clone() for name in file.keys()}, metadata)  # noqa: SIM118
        return Contents({name: _promise(file.get_slice(name)) for name in file.keys()}, metadata)  # noqa: SIM118


def _promise(piece: Any) -> Tensor:
    """The shape and kind of a tensor that was not read."""
    kinds = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32"}
    name = piece.get_dtype()
    dtype = getattr(torch, kinds.get(name, ""), None)
    if dtype is None:
        raise ValueError(f"tensors of kind {name} are not weights")
    return torch.empty(piece.get_shape(), dtype=dtype, device="meta")


def _npz(path: Path, depth: Depth) -> Contents:
    return Contents(npz.read(path) if depth == "whole" else npz.shapes(path))


def _save_safetensors(path: Path, state: State, metadata: dict[str, str]) -> None:
    """The same bytes for the same contents: the library writes its metadata in an order that changes."""
    save_file(state, path, metadata=metadata)
    with path.open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode().ljust(length)
        assert len(text) == length, "only the order changes"
        file.seek(8)
        file.write(text)


def _torch(path: Path, depth: Depth) -> Contents:
    mapped = depth == "shapes" and zipfile.is_zipfile(path)  # files older than torch 1.6 cannot be
    device = "cpu" if depth == "whole" else "meta"
    with _running_nothing():
        loaded = torch.load(path, map_location=device, weights_only=True, mmap=mapped)
    for wrapper in WRAPPERS:
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]
            break
    if not isinstance(loaded, dict):
        raise ValueError(f"it holds no table of tensors; known wrappers are {', '.join(WRAPPERS)}")
    for name, tensor in loaded.items():
        _check(name, tensor)
    return Contents({name.removeprefix("module."): tensor for name, tensor in loaded.items()})


def _module(path: Path, depth: Depth) -> Contents:
    """DALL-E's pickled encoder."""
    mapped = depth == "shapes" and zipfile.is_zipfile(path)
    with _running_nothing():
        return Contents(modules.read(path, "cpu" if depth == "whole" else "meta", mapped))


@contextmanager
def _running_nothing() -> Iterator[None]:
    """Says that a pickle with more than tensors is refused, where torch advises to run it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UnpicklingError as error:
        raise ValueError(
            "it holds Python objects beside tensors, and those are never run: ask for safetensors or a plain state_dict"
        ) from error


def _folder(path: Path, depth: Depth) -> Contents:
    """A Hugging Face folder: config.json and one safetensors file, several with an index, or pytorch_model.bin."""
    names = ("config.json", "preprocessor_config.json")
    sidecars = {name: _json(path / name) for name in names if (path / name).is_file()}
    if (path / "model.safetensors").is_file():
        contents = _safetensors(path / "model.safetensors", depth)
        return Contents(contents.tensors, contents.metadata, sidecars)
    if (index := path / "model.safetensors.index.json").is_file():
        shards = sorted(set(_json(index).get("weight_map", {}).values()))
        if wrong := [shard for shard in shards if Path(shard).name != shard]:
            raise ValueError(f"the index names {wrong[0]}, which is not a file of the folder")
        state = {name: tensor for shard in shards for name, tensor in _safetensors(path / shard, depth).tensors.items()}
        return Contents(state, {}, sidecars)
    if (path / "pytorch_model.bin").is_file():
        return Contents(_torch(path / "pytorch_model.bin", depth).tensors, {}, sidecars)
    raise ValueError(
        "the folder has no model.safetensors, no index of several, and no pytorch_model.bin: "
        "give the folder of a run or of transformers, or a weights file"
    )


def _json(path: Path) -> dict[str, Any]:
    table = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(table, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return table


READERS: dict[str, Callable[[Path, Depth], Contents]] = {
    ".safetensors": _safetensors,
    ".npz": _npz,
    **dict.fromkeys(TORCH_SUFFIXES, _torch),
    ".pkl": _module,
}
WRITERS: dict[str, Callable[[Path, State, dict[str, str]], object]] = {
    ".safetensors": lambda path, state, metadata: _save_safetensors(path, state, metadata),
    ".npz": lambda path, state, metadata: npz.write(path, state),
    **dict.fromkeys(TORCH_SUFFIXES, lambda path, state, metadata: torch.save(state, path)),
}
