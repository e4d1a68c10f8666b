"""Checkpoints: what is saved is loaded, the newest and the best stay, and what is damaged or poisoned is refused."""

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import patchwords
from patchwords.errors import ModelError, NonFiniteError, ResourceError
from patchwords.models.names import Config
from patchwords.training.run import checkpoint, durable, manifest
from patchwords.weights.card import Card
from patchwords.weights.load import write_native

BUFFER = torch.arange(12.0)
TENSORS = {
    "optimizer": {
        "a/first": torch.randn(3, 4),
        "b.second": torch.randn(5).bfloat16(),
        "count": torch.tensor(7),
        "empty": torch.zeros(0, 3),
        "turned": torch.randn(4, 3).mT,
        "view": BUFFER[:6],
        "same view": BUFFER[:6],
        "overlap": BUFFER[3:].view(3, 3),
        "mask": torch.tensor([True, False]),
        "parameter": torch.nn.Parameter(torch.randn(2)),
    },
    "average": {"weight": torch.randn(2, 2, dtype=torch.float64)},
}
STATE = {"seed": 2**63, "score": 0.1 + 0.2, "best": None, "names": ["Blüte", "\udc80"], "deep": {"on": True}}


def save(checkpoints: Path, step: int, mark: float = 1.0, *, best: str | None = None, keep: int = 2) -> Path:
    tensors = {"optimizer": {"mark": torch.tensor(mark)}}
    return checkpoint.save(checkpoints, step, tensors, state={"mark": mark}, keep=keep, best=best)


def names(checkpoints: Path) -> list[str]:
    return sorted(entry.name for entry in checkpoints.iterdir())


def found(checkpoints: Path) -> Path:
    """What is found without a remark."""
    place = checkpoint.find(checkpoints)
    assert place is not None
    assert place.notes == ()
    return place.path


def spoil(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-3] ^= 4
    file.write_bytes(data)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A manifest that says something else and is sealed properly."""
    table = json.loads((folder / manifest.NAME).read_bytes())
    del table["sha256"]
    change(table)
    (folder / manifest.NAME).write_bytes(manifest._render(table))


def test_what_is_saved_is_loaded_bit_for_bit(tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "run" / "checkpoints", 12, TENSORS, state=STATE, keep=2, best=None)
    loaded = checkpoint.load(folder)
    assert folder == tmp_path / "run" / "checkpoints" / "step-000012"
    assert (loaded.path, loaded.step, loaded.state) == (folder, 12, STATE)
    assert loaded.tensors.keys() == TENSORS.keys()
    for stem, held in TENSORS.items():
        assert loaded.tensors[stem].keys() == held.keys()
        for name, tensor in held.items():
            other = loaded.tensors[stem][name]
            assert (other.dtype, other.shape) == (tensor.dtype, tensor.shape)
            assert torch.equal(other, tensor)


def test_loaded_tensors_do_not_lean_on_the_file(tmp_path: Path) -> None:
    folder = save(tmp_path, 1, 0.5)
    loaded = checkpoint.load(folder)
    loaded.tensors["optimizer"]["mark"].fill_(9.0)
    assert checkpoint.load(folder).tensors["optimizer"]["mark"] == 0.5


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_a_model_that_writes_itself_is_a_native_file_of_the_checkpoint(small_config: Config, tmp_path: Path) -> None:
    model = patchwords.build(small_config)
    card, state = Card(model=small_config), dict(model.state_dict())
    folder = checkpoint.save(
        tmp_path,
        1,
        {},
        state={},
        write={"model.safetensors": lambda path: write_native(path, card, state)},
        keep=2,
        best="step-000001",
    )
    assert checkpoint.best(tmp_path) == folder
    again = patchwords.load(folder / "model.safetensors").state_dict()
    tensors = checkpoint.load(folder).tensors["model"]
    assert again.keys() == tensors.keys() == state.keys()
    assert all(torch.equal(again[name], state[name]) and torch.equal(tensors[name], state[name]) for name in state)


def test_files_can_be_read_by_whom_the_system_lets(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    mode = (tmp_path / "plain").stat().st_mode
    folder = checkpoint.save(tmp_path, 1, TENSORS, state={}, keep=2, best=None)
    assert {file.stat().st_mode for file in folder.iterdir()} == {mode}


def test_the_newest_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in range(1, 7):
        save(tmp_path, step, best="step-000002" if step > 1 else None, keep=3)
    assert names(tmp_path) == ["best", "last", "step-000002", "step-000004", "step-000005", "step-000006"]
    assert found(tmp_path).name == "step-000006"
    assert checkpoint.best(tmp_path) == tmp_path / "step-000002"


def test_two_are_kept_at_least(tmp_path: Path) -> None:
    for step in (9, 99, 9_999_999):
        save(tmp_path, step, keep=0)
    assert names(tmp_path) == ["last", "step-000099", "step-9999999"]


def test_without_a_best_there_is_no_file_of_that_name(tmp_path: Path) -> None:
    save(tmp_path, 1, best="step-000001")
    save(tmp_path, 2)
    assert names(tmp_path) == ["last", "step-000001", "step-000002"]
    assert checkpoint.best(tmp_path) is None


def test_a_best_that_somebody_deleted_is_said_and_does_not_stop_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "patchwords"):
        save(tmp_path, 5, best="step-000003")
    assert "step-000003 is gone" in caplog.text
    assert checkpoint.best(tmp_path) is None
    assert found(tmp_path).name == "step-000005"


def test_a_step_that_is_saved_again_is_replaced(tmp_path: Path) -> None:
    for mark in (1.0, 2.0, 3.0):
        save(tmp_path, 5, mark, best="step-000005")
    assert names(tmp_path) == ["best", "last", "step-000005"]
    assert checkpoint.load(found(tmp_path)).state == {"mark": 3.0}


def test_after_a_resume_from_an_earlier_step_the_later_ones_go(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, step)
    spoil(tmp_path / "step-000030" / "state.json")
    save(tmp_path, 25)
    assert names(tmp_path) == ["last", "step-000020", "step-000025"]
    assert found(tmp_path).name == "step-000025"


def test_a_later_one_stays_while_there_is_no_other_and_is_not_taken_for_the_newest(tmp_path: Path) -> None:
    save(tmp_path, 30, 1.0)
    save(tmp_path, 25, 2.0)
    assert names(tmp_path) == ["last", "step-000025", "step-000030"]
    assert found(tmp_path).name == "step-000025"
    save(tmp_path, 26, 3.0)
    assert names(tmp_path) == ["last", "step-000025", "step-000026"]


def test_what_a_killed_save_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    (tmp_path / ".step-000001-0a0b0c0d").mkdir()
    (tmp_path / ".step-000001-0a0b0c0d" / "half.safetensors").touch()
    (tmp_path / ".step-last-0a0b0c0d").touch()
    (tmp_path / ".step-room-0a0b0c0d").touch()
    save(tmp_path, 1)
    assert names(tmp_path) == ["last", "step-000001"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_poisoned_tensors_are_never_written(number: float, tmp_path: Path) -> None:
    save(tmp_path, 1)
    poisoned = {"good": torch.ones(3), "bad": torch.tensor([1.0, number]), "worse": torch.full((2, 2), number).half()}
    with pytest.raises(NonFiniteError, match=r"step-000002/optimizer.safetensors: bad and 1 more") as caught:
        checkpoint.save(tmp_path, 2, {"optimizer": poisoned}, state={}, keep=2, best=None)
    assert caught.value.exit_code == 6
    assert names(tmp_path) == ["last", "step-000001"]


def test_a_poisoned_file_that_writes_itself_is_refused_too(tmp_path: Path) -> None:
    save(tmp_path, 1)
    poisoned = {"weight": torch.tensor([float("nan")])}
    write = {"model.safetensors": lambda path: save_file(poisoned, path)}
    with pytest.raises(NonFiniteError, match=r"step-000002/model.safetensors: weight"):
        checkpoint.save(tmp_path, 2, {}, state={}, write=write, keep=2, best=None)
    assert names(tmp_path) == ["last", "step-000001"]


def test_a_poisoned_state_is_refused_by_its_key(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"state\.scores\[1\]\.loss is nan"):
        checkpoint.save(tmp_path, 2, {}, state={"scores": [1.0, {"loss": float("nan")}]}, keep=2, best=None)
    assert names(tmp_path) == []


def test_a_state_that_json_would_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="the key 0"):
        checkpoint.save(tmp_path, 2, {}, state={"groups": {0: "decayed"}}, keep=2, best=None)


def test_without_checkpoints_nothing_is_found(tmp_path: Path) -> None:
    assert checkpoint.find(tmp_path / "none") is None
    assert checkpoint.find(tmp_path) is None
    assert checkpoint.best(tmp_path) is None


def test_without_last_the_newest_is_found_and_that_is_said(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    (tmp_path / "last").unlink()
    place = checkpoint.find(tmp_path)
    assert place is not None
    assert place.path.name == "step-000002"
    assert "last is missing" in place.notes[0]


@pytest.mark.parametrize("file", ["optimizer.safetensors", "state.json", "MANIFEST.json"])
@pytest.mark.parametrize("damage", [spoil, Path.unlink, lambda f: os.truncate(f, 0), lambda f: f.write_text("[]")])
def test_a_damaged_checkpoint_is_not_loaded_and_an_older_one_is_found_with_a_note(
    file: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    for step in (1, 2):
        save(tmp_path, step, float(step))
    damage(tmp_path / "step-000002" / file)
    with pytest.raises(ModelError, match=f"step-000002 is damaged.*{file}"):
        checkpoint.load(tmp_path / "step-000002")
    place = checkpoint.find(tmp_path)
    assert place is not None
    assert place.path.name == "step-000001"
    assert "step-000002" in " ".join(place.notes[:-1])
    assert place.notes[-1] == "going on from step-000001"


def test_if_all_are_damaged_the_error_says_what_is_wrong_with_each(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    spoil(tmp_path / "step-000002" / "state.json")
    (tmp_path / "step-000001" / "optimizer.safetensors").unlink()
    with pytest.raises(ModelError, match=r"step-000002 .*state.json.*; step-000001 .*optimizer.safetensors") as caught:
        checkpoint.find(tmp_path)
    assert caught.value.exit_code == 4


def test_if_last_stands_alone_that_is_an_error(tmp_path: Path) -> None:
    save(tmp_path, 1)
    durable.remove(tmp_path / "step-000001")
    with pytest.raises(ModelError, match="last names 'step-000001', and there is no such checkpoint"):
        checkpoint.find(tmp_path)


def test_a_replacement_that_was_cut_short_leaves_the_former_one(tmp_path: Path) -> None:
    save(tmp_path, 5, 1.0)
    (tmp_path / "step-000005").rename(tmp_path / "step-000005-former")
    assert checkpoint.load(found(tmp_path)).state == {"mark": 1.0}
    save(tmp_path, 5, 2.0)
    assert names(tmp_path) == ["last", "step-000005"]
    assert checkpoint.load(found(tmp_path)).state == {"mark": 2.0}


@pytest.mark.parametrize("damaged", ["step-000005", "step-000005-former"])
def test_of_two_with_the_same_step_the_whole_one_stays_until_the_third_stands(
    damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 5, 1.0)
    (tmp_path / "step-000005").rename(tmp_path / "aside")
    save(tmp_path, 5, 1.0)
    (tmp_path / "aside").rename(tmp_path / "step-000005-former")
    spoil(tmp_path / damaged / "state.json")

    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name == "last":  # by then the third has its name
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(ResourceError, match="Input/output error"):
        save(tmp_path, 5, 3.0)
    assert names(tmp_path) == ["last", "step-000005", "step-000005-former"]
    assert checkpoint.load(tmp_path / "step-000005").state == {"mark": 3.0}
    assert checkpoint.load(tmp_path / "step-000005-former").state == {"mark": 1.0}


def test_files_that_the_manifest_does_not_name_are_not_read(tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    (folder / "extra.safetensors").write_bytes(b"nothing")
    (folder / ".DS_Store").touch()
    assert list(checkpoint.load(found(tmp_path)).tensors) == ["optimizer"]


def test_a_checkpoint_of_a_newer_version_is_refused_not_passed_over(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    rewrite(tmp_path / "step-000002", lambda table: table.update(format=99, more=["things"]))
    for action in (lambda: checkpoint.find(tmp_path), lambda: checkpoint.load(tmp_path / "step-000002")):
        with pytest.raises(ModelError, match=r"format 99, and 1 is the newest known here.*update"):
            action()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table["files"].update({"../state.json": table["files"]["state.json"]}), "no file of the folder"),
        (lambda table: table["files"].pop("state.json"), "does not list state.json"),
        (lambda table: table.pop("step"), "step is missing"),
        (lambda table: table.update(steps=3), "steps is not a setting"),
        (lambda table: table["files"]["state.json"].update(bytes="many"), "not a whole number"),
    ],
)
def test_a_manifest_is_read_strictly(change: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path) -> None:
    folder = save(tmp_path, 1)
    rewrite(folder, change)
    with pytest.raises(ModelError, match=reason):
        checkpoint.load(folder)


def test_what_the_disk_does_not_give_back_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1)
    monkeypatch.setattr(durable, "forget", spoil)
    with pytest.raises(ResourceError, match="does not give back what was written"):
        save(tmp_path, 2)
    assert names(tmp_path) == ["last", "step-000001"]
    assert found(tmp_path).name == "step-000001"


def test_room_is_asked_for_before_the_first_step(tmp_path: Path) -> None:
    checkpoint.room(tmp_path / "checkpoints", 0)
    checkpoint.room(tmp_path / "checkpoints", 3_000_000)
    with pytest.raises(ResourceError, match="1,000,000,000,000,000,000 bytes are needed there") as caught:
        checkpoint.room(tmp_path / "checkpoints", 10**18)
    assert str(tmp_path / "checkpoints") in str(caught.value)
    assert "bytes are free" in str(caught.value)
    assert names(tmp_path / "checkpoints") == []


def test_room_is_taken_by_writing_where_a_disk_cannot_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    taken = []
    fsync = os.fsync
    monkeypatch.setattr(os, "posix_fallocate", cannot)
    monkeypatch.setattr(os, "fsync", lambda file: (taken.append(os.fstat(file).st_size), fsync(file)))
    checkpoint.room(tmp_path, 2_500_000)
    assert taken[-1] == 2_500_000
    assert names(tmp_path) == []


def test_the_size_of_tensors_is_told() -> None:
    two: dict[str, dict[str, Tensor]] = {"a": {"x": torch.zeros(3, 4)}, "b": {"y": torch.zeros(5).half()}}
    assert checkpoint.size(two) == 58


GOLDEN = {  # as format 1 was first written
    "MANIFEST.json": b"""{
  "format": 1,
  "step": 3,
  "files": {
    "optimizer.safetensors": {
      "bytes": 176,
      "sha256": "8575714a249b29b8fb7d4d34c22bc65bb177704ecb65585f891de91aef495a76"
    },
    "state.json": {
      "bytes": 36,
      "sha256": "627ca57ce6c226221a2a0f007115a2d11ed8bb8c09bde83ecb964682a2aa390a"
    }
  },
  "sha256": "c60ecbe1884072e1bee87124c74e4b43705390c622ba9d0a264e45b4bdcb55d2"
}
""",
    "optimizer.safetensors": b'\x98\x00\x00\x00\x00\x00\x00\x00{"__metadata__":{"format":"pt"},"count":{"dtype":"I64",'
    b'"shape":[],"data_offsets":[0,8]},"moment":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}     \x03\x00\x00'
    b"\x00\x00\x00\x00\x00\x00\x00\xc0?\x00\x00\x00\xc0",
    "state.json": b'{\n  "step": 3,\n  "name": "Bl\xc3\xbcte"\n}\n',
}
LAST = b"step-000003\n98a835d3d6eb77d8f8af181d0ee180a50e734746b888210731f8ebd45ffa4b5a\n"


def test_a_checkpoint_of_format_1_is_read_for_ever(tmp_path: Path) -> None:
    (tmp_path / "step-000003").mkdir()
    (tmp_path / "last").write_bytes(LAST)
    for name, data in GOLDEN.items():
        (tmp_path / "step-000003" / name).write_bytes(data)
    loaded = checkpoint.load(found(tmp_path))
    assert (loaded.step, loaded.state) == (3, {"step": 3, "name": "Blüte"})
    assert loaded.tensors["optimizer"]["moment"].tolist() == [1.5, -2.0]
    assert loaded.tensors["optimizer"]["count"].tolist() == 3
