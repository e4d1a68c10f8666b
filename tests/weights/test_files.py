"""Containers: written whole or not at all, listed without reading, and whatever a file holds, nothing in it is run."""

import io
import json
import os
import pickle
import random
import stat
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import patchwords
from patchwords.errors import ModelError, PatchwordsError, ResourceError, UsageError
from patchwords.models.vit import ViTConfig
from patchwords.weights import files
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert

Open = Callable[..., Checkpoint]

STATE = {
    "a": torch.randn(3, 4),
    "b/c": torch.randn(5).half(),
    "d.e": torch.randn(2, 1, 3).bfloat16(),
    "f": torch.tensor(2.5, dtype=torch.float64),
    "empty": torch.zeros(0, 3),
    "turned": torch.randn(4, 3).mT,
}
SUFFIXES = [".safetensors", ".npz", ".pth", ".pt", ".bin"]
suffixes = pytest.mark.parametrize("suffix", SUFFIXES)


@suffixes
def test_what_is_written_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"f{suffix}"
    files.write(path, STATE)
    found = files.read(path).tensors
    assert sorted(found) == sorted(STATE)
    for name, tensor in STATE.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        assert torch.equal(found[name], tensor)


@suffixes
def test_shapes_are_right_and_hold_no_memory(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"f{suffix}"
    files.write(path, STATE)
    found = files.read(path, "shapes").tensors
    assert sorted(found) == sorted(STATE)
    for name, tensor in STATE.items():
        assert found[name].is_meta
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)


def test_shapes_of_a_torch_file_older_than_its_zip_are_read(tmp_path: Path) -> None:
    torch.save({"a": torch.randn(3, 4)}, tmp_path / "f.pth", _use_new_zipfile_serialization=False)
    found = files.read(tmp_path / "f.pth", "shapes").tensors
    assert found["a"].is_meta
    assert found["a"].shape == (3, 4)


KINDS = {
    "timm": ["f.safetensors", "f.pth"],
    "official": ["f.npz"],
    "huggingface": ["folder"],
    "native": ["n.safetensors"],
}
PLACES = [(format, place) for format, places in KINDS.items() for place in places]
places = pytest.mark.parametrize(("format", "place"), PLACES, ids=[" ".join(pair) for pair in PLACES])


@places
def test_a_checkpoint_is_described_from_its_shapes_alone(
    format: str, place: str, tiny: ViTConfig, checkpoint: Open, tmp_path: Path
) -> None:
    convert(checkpoint(tiny), tmp_path / place, format)
    whole = open_checkpoint(tmp_path / place, heads=3)
    listed = open_checkpoint(tmp_path / place, heads=3, depth="shapes")
    assert (listed.card, listed.format, listed.notes) == (whole.card, whole.format, whole.notes)
    assert all(tensor.is_meta for tensor in listed.state.values())
    assert {k: v.shape for k, v in listed.state.items()} == {k: v.shape for k, v in whole.state.items()}


def test_shapes_of_an_npz_are_read_without_its_data(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    files.write(path, {"a": torch.randn(1000)})
    body = bytearray(path.read_bytes())
    body[2000] ^= 1
    path.write_bytes(body)
    assert files.read(path, "shapes").tensors["a"].shape == (1000,)
    with pytest.raises(ModelError, match="cannot be read"):
        files.read(path)


def test_shapes_of_a_safetensors_file_are_read_without_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.safetensors"
    files.write(path, {"a": torch.randn(1000)})
    opened = files.safe_open

    class Closed:
        """The header, and no way to the tensors."""

        def __init__(self, *args: Any, **kwargs: Any):
            self.file = opened(*args, **kwargs)
            self.metadata, self.keys, self.get_slice = self.file.metadata, self.file.keys, self.file.get_slice

        def __enter__(self) -> "Closed":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.__exit__(None, None, None)

    monkeypatch.setattr(files, "safe_open", Closed)
    assert files.read(path, "shapes").tensors["a"].shape == (1000,)
    with pytest.raises(ModelError, match="get_tensor"):
        files.read(path)


# ---- Written whole or not at all.


@suffixes
def test_a_writer_that_fails_leaves_the_old_file_and_nothing_beside_it(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"f{suffix}"
    files.write(path, {"a": torch.ones(3)})
    before = path.read_bytes()

    def half(aside: Path, *_: object) -> None:
        aside.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(files.WRITERS, suffix, half)
    with pytest.raises(ResourceError, match=r"No space left on device\); 12 bytes are needed"):
        files.write(path, {"a": torch.zeros(3)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", files.WRITERS)
def test_a_full_disk_is_a_matter_of_resources_in_every_container(suffix: str, tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys, torch\n"
        "from pathlib import Path\n"
        "from patchwords.errors import ResourceError\n"
        "from patchwords.weights import files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try:\n"
        "    files.write(Path(sys.argv[1]), {'a': torch.ones(100_000)})\n"
        "except ResourceError as error:\n"
        "    assert '400,000 bytes' in str(error)\n"
        "    print('refused')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / f"f{suffix}")], capture_output=True, text=True, check=False
    )
    assert answer.stdout == "refused\n", answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(files.WRITERS, ".safetensors", full)
    with pytest.raises(ResourceError, match="No space left"):
        files.write_folder(tmp_path / "folder", {"config.json": {}}, {"a": torch.ones(1)})
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_is_interrupted_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with files.writing(path, 0) as aside:
            aside.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_file_is_synced_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append("fsync"), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), rename(*paths)))
    files.write(tmp_path / "f.safetensors", {"a": torch.ones(1)})
    assert done[:2] == ["fsync", "replace"]


def test_the_writer_never_opens_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    path.write_bytes(b"old")
    with files.writing(path, 0) as aside:
        aside.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)], ids=oct)
def test_a_new_file_has_the_permissions_that_any_new_file_has(mask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        files.write(tmp_path / "f.safetensors", {"a": torch.ones(1)})
        assert os.umask(mask) == mask  # and the mask is left as it was
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f.safetensors").stat().st_mode) == mode


def test_folders_on_the_way_are_made(tmp_path: Path) -> None:
    files.write(tmp_path / "a" / "b" / "f.npz", {"a": torch.ones(1)})
    assert (tmp_path / "a" / "b" / "f.npz").is_file()


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written, since .*/file is a file and no folder: choose another"):
        files.write(tmp_path / "file" / "m.safetensors", {"a": torch.zeros(1)})


def test_a_place_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "f.npz").mkdir()
    with pytest.raises(PatchwordsError):
        files.write(tmp_path / "f.npz", {"a": torch.ones(1)})


@pytest.mark.parametrize("name", ["weights", "weights.h5", "weights.SAFETENSORS", "weights.ckpt"])
def test_an_unknown_ending_is_refused_both_ways(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=name):
        files.write(tmp_path / name, STATE)
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UsageError, match=name):
        files.read(tmp_path / name)


def test_a_file_that_is_not_there_is_a_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        files.read(tmp_path / "f.npz")


# ---- Hostile files.


class Trap:
    """A pickle that makes a file when it is opened."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.marker), "w")


def traps(marker: Path) -> Iterator[tuple[str, bytes]]:
    """Hostile bodies of torch files and arrays, by name."""
    for protocol in (0, 2, 4):
        yield f"pickle{protocol}.pth", pickle.dumps({"a": Trap(marker)}, protocol)
    for name, held in {"object": Trap(marker), "table": {"model": {"a": Trap(marker)}}, "list": [Trap(marker)]}.items():
        for zipped in (True, False):
            body = io.BytesIO()
            torch.save(held, body, _use_new_zipfile_serialization=zipped)
            yield f"{name}-{zipped}.pth", body.getvalue()
            yield f"{name}-{zipped}.bin", body.getvalue()
    body = io.BytesIO()
    np.savez(body, a=np.array([Trap(marker)], dtype=object))
    yield "object.npz", body.getvalue()
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("a.npy", pickle.dumps(Trap(marker)))
    yield "pickle.npz", body.getvalue()
    yield "renamed.npz", pickle.dumps(Trap(marker))
    yield "renamed.safetensors", pickle.dumps(Trap(marker))
    array = io.BytesIO()
    np.save(array, np.array([Trap(marker)], dtype=object))
    yield "array.npz", array.getvalue()


@pytest.mark.filterwarnings("ignore::UserWarning")  # numpy and torch say what they refuse
@pytest.mark.parametrize("depth", ["whole", "shapes"])
def test_no_pickle_is_ever_run(depth: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    count = 0
    for name, body in traps(marker):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(ModelError, match=name):
            files.read(tmp_path / name, depth)
        assert not marker.exists(), name
        count += 1
    assert count == 20
    pickle.loads(pickle.dumps(Trap(marker))).close()
    assert marker.exists()  # the trap works


def test_no_pickle_of_a_folder_is_ever_run(tmp_path: Path) -> None:
    torch.save({"a": Trap(tmp_path / "marker")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError):
        open_checkpoint(tmp_path)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    "held",
    [
        [torch.ones(1)],
        torch.ones(1),
        {"a": 3},
        {"a": "text"},
        {0: torch.ones(1)},
        {("a", "b"): torch.ones(1)},
        {"model": {0: torch.ones(1)}},
        {"a": [torch.ones(1)]},
        {"a": torch.ones(3).to_sparse()},
        {"a": torch.ones(3).bool()},
        {"a": torch.ones(3) * 1j},
    ],
    ids=lambda held: repr(held).replace("\n", " ")[:50],
)
@pytest.mark.filterwarnings("ignore")
def test_a_torch_file_that_holds_no_plain_weights_is_refused(held: object, tmp_path: Path) -> None:
    torch.save(held, tmp_path / "f.pth")
    with pytest.raises(ModelError, match=r"f\.pth"):
        files.read(tmp_path / "f.pth")


@pytest.mark.parametrize("depth", ["whole", "shapes"])
@pytest.mark.parametrize("kind", [torch.bool, torch.complex64], ids=str)
def test_tensors_that_are_no_weights_are_refused_in_every_container(
    kind: torch.dtype, depth: Any, tmp_path: Path
) -> None:
    accepted = []
    for suffix in (".safetensors", ".npz", ".pth"):
        files.write(tmp_path / f"f{suffix}", {"a": torch.ones(3).to(kind)})
        try:
            files.read(tmp_path / f"f{suffix}", depth)
        except ModelError:
            continue
        accepted.append(suffix)
    assert accepted == []


def npy(shape: tuple[int, ...], data: bytes = b"\0" * 16, kind: str = "<f4") -> bytes:
    """An array whose header says what it likes."""
    body = io.BytesIO()
    np.lib.format.write_array_header_1_0(body, {"descr": kind, "fortran_order": False, "shape": shape})
    return body.getvalue() + data


NPZ_LIES: dict[str, bytes] = {
    "more than there is": npy((10**13,)),
    "less than there is": npy((2,)),
    "more than can be": npy((10**30,)),
    "negative": npy((-4,)),
    "too many axes": npy((1,) * 70),
    "objects": npy((4,), kind="|O"),
    "records": npy((4,), kind="|V7"),
    "text": npy((2,), kind="<U2"),
    "no header": b"\x93NUMPY",
    "header without end": b"\x93NUMPY\x01\x00\xff\xff{'descr'",
    "unknown version": b"\x93NUMPY\x09\x00" + npy((4,))[8:],
    "code for a header": b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').getcwd()".ljust(32),
    "nested header": b"\x93NUMPY\x01\x00\x00\x40" + b"(" * 0x4000,
    "no array": b"hello",
    "empty": b"",
}


@pytest.mark.parametrize("lie", NPZ_LIES.values(), ids=NPZ_LIES)
@pytest.mark.parametrize("depth", ["whole", "shapes"])
def test_an_npz_that_lies_is_refused(lie: bytes, depth: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("a.npy", lie)
    with pytest.raises(ModelError, match=r"f\.npz"):
        files.read(tmp_path / "f.npz", depth)


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "f.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy((1 << 22,), bytes(1 << 24)))
    assert (tmp_path / "f.npz").stat().st_size < 1 << 16
    with pytest.raises(ModelError, match="unpacks to more than"):
        files.read(tmp_path / "f.npz")


def safetensors(header: object, data: bytes = b"\0" * 16) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


SAFETENSORS_LIES: dict[str, bytes] = {
    "vast header": (1 << 62).to_bytes(8, "little"),
    "no JSON": safetensors(b"{"),
    "a list": safetensors([]),
    "past the end": safetensors({"a": {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}}),
    "negative": safetensors({"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}),
    "overlapping": safetensors({n: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for n in ("a", "b")}),
    "a gap": safetensors({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}),
    "wrong length": safetensors({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 16]}}),
    "overflowing": safetensors({"a": {"dtype": "F32", "shape": [1 << 40, 1 << 40], "data_offsets": [0, 16]}}),
    "unknown kind": safetensors({"a": {"dtype": "F31", "shape": [4], "data_offsets": [0, 16]}}),
    "metadata not text": safetensors({"__metadata__": {"a": 3}}, b""),
    "nested": safetensors(b"[" * 100_000),
}


@pytest.mark.parametrize("lie", SAFETENSORS_LIES.values(), ids=SAFETENSORS_LIES)
@pytest.mark.parametrize("depth", ["whole", "shapes"])
def test_a_safetensors_file_that_lies_is_refused(lie: bytes, depth: Any, tmp_path: Path) -> None:
    (tmp_path / "f.safetensors").write_bytes(lie)
    with pytest.raises(ModelError, match=r"f\.safetensors"):
        files.read(tmp_path / "f.safetensors", depth)


@suffixes
@pytest.mark.parametrize("depth", ["whole", "shapes"])
def test_cut_files_and_garbage_are_refused(suffix: str, depth: Any, tmp_path: Path) -> None:
    path = tmp_path / f"f{suffix}"
    files.write(path, {name: torch.randn(64) for name in "abc"})
    body, rng = path.read_bytes(), random.Random(1)
    bodies = [body[: len(body) * share // 10] for share in range(9)]
    bodies += [b"", b"\0" * 100, b"PK\x03\x04", b"<html>", rng.randbytes(1000), b"PK\x03\x04" + rng.randbytes(500)]
    for wrong in bodies:
        path.write_bytes(wrong)
        with pytest.raises(ModelError, match=path.name):
            files.read(path, depth)


SIDECARS: dict[str, tuple[str, object]] = {
    "config.json is a list": ("config.json", []),
    "heads in words": ("config.json", {"num_attention_heads": "three"}),
    "half a head": ("config.json", {"num_attention_heads": 1.5}),
    "negative heads": ("config.json", {"num_attention_heads": -3}),
    "image of three sides": ("config.json", {"image_size": [16, 16, 16]}),
    "image in words": ("config.json", {"image_size": "large"}),
    "labels in a list": ("config.json", {"id2label": ["a", "b"]}),
    "labels without numbers": ("config.json", {"id2label": {"a": "b"}}),
    "labels that are no text": ("config.json", {"id2label": {str(i): i for i in range(7)}}),
    "epsilon in words": ("config.json", {"layer_norm_eps": "small"}),
    "activation in a list": ("config.json", {"hidden_act": ["gelu"]}),
    "mean in words": ("preprocessor_config.json", {"image_mean": "half", "image_std": "half"}),
    "mean without deviation": ("preprocessor_config.json", {"image_mean": [0.5, 0.5, 0.5], "image_std": None}),
    "deviation of nothing": ("preprocessor_config.json", {"image_mean": [0.5] * 3, "image_std": [0, 0, 0]}),
    "crop larger than the picture": (
        "preprocessor_config.json",
        {"size": {"shortest_edge": 10}, "crop_size": {"height": 16, "width": 16}, "do_center_crop": True},
    ),
    "crop in words": ("preprocessor_config.json", {"size": {"shortest_edge": "ten"}}),
    "filter in a list": ("preprocessor_config.json", {"resample": [3]}),
    "table in a table": ("preprocessor_config.json", {"size": {"shortest_edge": {"a": 1}}}),
}


@pytest.mark.parametrize(("name", "table"), SIDECARS.values(), ids=SIDECARS)
def test_a_file_beside_the_weights_that_is_not_as_it_should_be_is_refused(
    name: str, table: object, tiny: ViTConfig, checkpoint: Open, tmp_path: Path
) -> None:
    convert(checkpoint(tiny), tmp_path / "folder", "huggingface")
    path = tmp_path / "folder" / name
    held = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(held | table if isinstance(table, dict) else table), encoding="utf-8")
    with pytest.raises(ModelError):
        patchwords.load(tmp_path / "folder")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"NaN"], ids=lambda body: repr(body[:5]))
def test_json_that_cannot_be_read_is_refused(body: bytes, tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(tiny), tmp_path / "folder", "huggingface")
    (tmp_path / "folder" / "config.json").write_bytes(body)
    with pytest.raises(ModelError):
        patchwords.load(tmp_path / "folder")


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        files.read(tmp_path)


def mutated(body: bytes, rng: random.Random) -> bytes:
    """A file with something flipped, overwritten, cut out, put in, cut off or moved; often near its ends."""
    near = min(len(body), 3000)
    at = rng.choice([rng.randrange(len(body)), rng.randrange(near), len(body) - 1 - rng.randrange(near)])
    length = rng.choice([1, 1, 2, 4, 8, 64])
    match rng.randrange(6):
        case 0:
            return body[:at] + bytes([body[at] ^ (1 << rng.randrange(8))]) + body[at + 1 :]
        case 1:
            return body[:at] + rng.randbytes(length) + body[at + length :]
        case 2:
            return body[:at] + body[at + length :]
        case 3:
            return body[:at] + rng.choice([rng.randbytes(length), b"\xff" * length, b"9" * length]) + body[at:]
        case 4:
            return body[:at]
        case _:
            other = rng.randrange(len(body))
            return body[:at] + body[other : other + length] + body[at + length :]


@places
def test_mutated_files_give_our_error_or_weights_that_fit(
    format: str, place: str, tiny: ViTConfig, checkpoint: Open, tmp_path: Path
) -> None:
    config = replace(tiny, depth=1, width=24, mlp=24, image=(8, 8))
    convert(checkpoint(config), tmp_path / place, format)
    wanted = {name: x.shape for name, x in open_checkpoint(tmp_path / place, heads=3).state.items()}
    held = sorted((tmp_path / place).iterdir()) if place == "folder" else [tmp_path / place]
    rng, escaped, loaded = random.Random(2), {}, 0
    for count in range(300):
        path = held[count % len(held)]
        body = path.read_bytes()
        path.write_bytes(mutated(body, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = open_checkpoint(tmp_path / place, heads=3)
        except PatchwordsError:
            pass
        except Exception as error:
            escaped[f"{count}: {type(error).__name__}"] = str(error)[:200]
        else:
            loaded += 1
            assert {name: x.shape for name, x in found.state.items()} == wanted
        path.write_bytes(body)
    assert escaped == {}
    assert loaded < 300


def test_a_table_of_shared_tensors_is_written_whole(tmp_path: Path) -> None:
    x: Tensor = torch.randn(6, 4)
    for suffix in (".npz", ".pth"):
        files.write(tmp_path / f"f{suffix}", {"a": x[:3], "b": x[3:]})
        found = files.read(tmp_path / f"f{suffix}").tensors
        assert torch.equal(torch.cat([found["a"], found["b"]]), x)
    save_file({"a": x[:3].clone()}, tmp_path / "f.safetensors")
    files.write(tmp_path / "f.safetensors", {"a": x[:3], "b": x[3:]})
    assert torch.equal(files.read(tmp_path / "f.safetensors").tensors["b"], x[3:])


@pytest.mark.parametrize(
    ("name", "contents", "kind", "said"),
    [
        ("half.safetensors", b"\x40\0\0\0\0\0\0\0{", ModelError, "damaged, or no such file (Error while.*fetch"),
        ("empty.npz", b"", ModelError, "damaged, or no such file (File is not a zip file); fetch"),
        ("empty.pth", b"", ModelError, "damaged, or no such file (EOFError); fetch"),
        (
            "other.pkl",
            pickle.dumps({"a": 1}),
            ModelError,
            "of pickles that of DALL-E's encoder alone is read: ask for safetensors",
        ),
        ("model.onnx", b"", UsageError, "is an exported file, .*: give the model that it was made from"),
        ("model.pt2", b"", UsageError, "is an exported file, .*: give the model that it was made from"),
        ("photos/daisy/readme.txt", b"", ModelError, "photos cannot be read: .*: give the folder of a run or"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(
    tmp_path: Path, name: str, contents: bytes, kind: type[Exception], said: str
) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(kind, match=said.replace("(", r"\(").replace(")", r"\)")):
        files.read(tmp_path / name.partition("/")[0])
