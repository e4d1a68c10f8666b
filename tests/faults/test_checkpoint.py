"""PROMISES 2 to 4: power cuts, full disks and flipped bits never cost more than the step that was under way."""

import errno
import os
import random
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as serialise

from patchwords.errors import ModelError, PatchwordsError, ResourceError
from patchwords.training.run import checkpoint, durable
from patchwords.weights import files

Battery = Callable[[int, int], int]


def save(checkpoints: Path, step: int, mark: int, best: str | None = None, numbers: int = 6) -> Path:
    """A small checkpoint that can be told from others by its mark."""
    tensors = {"optimizer": {"first": torch.full((numbers,), float(mark)), "count": torch.tensor(mark)}}
    model = {"weight": torch.full((2, 3), float(mark))}
    return checkpoint.save(
        checkpoints,
        step,
        tensors,
        state={"mark": mark, "losses": [mark / 3]},
        write={"model.safetensors": lambda path: path.write_bytes(serialise(model))},  # which flushes nothing
        keep=2,
        best=best,
        needed=4 * numbers + 32,
    )


def mark_of(folder: Path) -> int:
    """The mark of a checkpoint all parts of which agree."""
    loaded = checkpoint.load(folder)
    marks = {int(loaded.state["mark"]), round(loaded.state["losses"][0] * 3)}
    for held in loaded.tensors.values():
        for tensor in held.values():
            marks |= set(tensor.flatten().int().tolist())
    assert sorted(loaded.tensors) == ["model", "optimizer"]
    (mark,) = marks
    return mark


def found(checkpoints: Path) -> int | None:
    """The mark of what a resume would go on from."""
    place = checkpoint.find(checkpoints)
    return place and mark_of(place.path)


def hidden(checkpoints: Path) -> list[str]:
    return [entry.name for entry in checkpoints.iterdir() if entry.name.startswith(".")]


# Power cuts

Change = tuple[str, int, Any]  # "entries" of a folder, "bytes" of a file, "flush" of either; its number; the new value
Tree = dict[str, bytes | None]  # path to contents; None is a folder
ROOT = 0


@dataclass
class Disk:
    """The changes under a folder in the order they were made, and the moments at which some of it was flushed."""

    root: Path
    changes: list[Change] = field(default_factory=list)
    entries: dict[int, dict[str, int]] = field(default_factory=dict)
    contents: dict[int, bytes] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # by inode, whose number the system gives again; we do not
    made: int = ROOT
    start: int = 0  # of the changes that were watched

    @property
    def folders(self) -> set[int]:
        return {number for kind, number, _ in self.changes if kind == "entries"}

    def look(self) -> None:
        """Notes what has changed since the last look."""
        entries: dict[int, dict[str, int]] = {}
        contents: dict[int, bytes] = {}
        self._walk(self.root, ROOT, entries, contents)
        present = entries.keys() | contents.keys()
        self.numbers = {inode: number for inode, number in self.numbers.items() if number in present}
        self.changes += [("entries", n, names) for n, names in entries.items() if self.entries.get(n) != names]
        self.changes += [("bytes", n, data) for n, data in contents.items() if self.contents.get(n) != data]
        self.entries, self.contents = entries, contents

    def _walk(self, folder: Path, number: int, entries: dict[int, dict[str, int]], contents: dict[int, bytes]) -> None:
        entries[number] = {}
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            if entry.inode() not in self.numbers:
                self.made += 1
                self.numbers[entry.inode()] = self.made
            inner = entries[number][entry.name] = self.numbers[entry.inode()]
            if entry.is_dir():
                self._walk(Path(entry.path), inner, entries, contents)
            else:
                contents[inner] = Path(entry.path).read_bytes()

    def flushed(self, descriptor: int) -> None:
        inode = os.fstat(descriptor).st_ino
        self.changes.append(("flush", ROOT if inode == self.root.stat().st_ino else self.numbers[inode], None))


@contextmanager
def recorded(root: Path) -> Iterator[Disk]:
    """The disk under a folder, looked at before and after each file operation; what was there before is sure."""
    disk = Disk(root)
    disk.look()
    disk.changes += [("flush", number, None) for number in (ROOT, *disk.numbers.values())]
    disk.start = len(disk.changes)

    def watched(operation: Callable[..., Any], flushes: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            disk.look()
            result = operation(*arguments, **options)
            disk.look()
            if flushes:
                disk.flushed(arguments[0])
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
            patch.setattr(os, name, watched(getattr(os, name), flushes=name == "fsync"))
        yield disk
    disk.look()


def after_cut(changes: list[Change], folders: set[int], way: str, chance: random.Random) -> Tree:
    """What may be left when the power goes after these changes.

    Sure is what was flushed. Of what came later, `killed` leaves all (only the process died), `lost` nothing, `torn`
    the names but half the bytes, and `any` some of a folder's changes and the bytes whole, torn, zero or gone.
    """
    past: dict[tuple[str, int], list[Any]] = {}
    sure: dict[tuple[str, int], int] = {}
    for kind, number, value in changes:
        if kind == "flush":
            sure |= {(kind, number): len(past.get((kind, number), ())) for kind in ("entries", "bytes")}
        else:
            past.setdefault((kind, number), []).append(value)

    def left(kind: str, number: int, nothing: Any) -> Any:
        values = [nothing, *past.get((kind, number), ())]
        least, most = sure.get((kind, number), 0), len(values) - 1
        return values[{"lost": least, "any": chance.randint(least, most)}.get(way, most)]

    def data(number: int) -> bytes:
        written: bytes = left("bytes", number, b"")
        if sure.get(("bytes", number), 0) == len(past.get(("bytes", number), ())) or way in ("killed", "lost"):
            return written
        torn = written[: len(written) // 2]
        return torn if way == "torn" else chance.choice([written, torn, bytes(len(written)), b""])

    tree: Tree = {}

    def visit(folder: int, path: str) -> None:
        for name, number in left("entries", folder, {}).items():
            tree[path + name] = None if number in folders else data(number)
            if number in folders:
                visit(number, f"{path}{name}/")

    visit(ROOT, "")
    return tree


def lay_out(tree: Tree, root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, data in tree.items():
        (root / name).mkdir() if data is None else (root / name).write_bytes(data)
    return root / "checkpoints"


# The step and the best of ten saves: the first, some with pruning, the same step again, an earlier one after a resume.
SAVES = [
    (10, None),
    (20, "step-000020"),
    (30, "step-000020"),
    (40, "step-000020"),
    (40, "step-000040"),
    (25, "step-000025"),
    (25, None),
    (999_999, "step-000025"),
    (1_000_000, "step-1000000"),
    (1_000_001, "step-1000000"),
]


def test_a_power_cut_at_any_moment_of_a_save_leaves_the_old_checkpoint_or_the_new_one(
    tmp_path: Path, battery: Battery
) -> None:
    run, tried = tmp_path / "run", range(battery(3, 0), battery(5, len(SAVES)))
    run.mkdir()
    for mark, (step, best) in enumerate(SAVES[: tried.stop]):
        with recorded(run) as disk:
            save(run / "checkpoints", step, mark, best)
        cuts = cuts_of(disk, ("killed", "lost", "torn", *["any"] * battery(4, 20))) if mark in tried else []
        for moment, tree in cuts:
            left = found(lay_out(tree, tmp_path / "cut"))
            assert left == mark or (moment < len(disk.changes) and left == (mark - 1 if mark else None)), moment
        assert mark not in tried or len(cuts) > 20


def cuts_of(disk: Disk, ways: Sequence[str]) -> list[tuple[int, Tree]]:
    """Every different thing that a cut may leave, with the number of changes before it."""
    chance, folders, cuts = random.Random(0), disk.folders, {}
    for moment in range(len(disk.changes), disk.start - 1, -1):
        for way in ways:
            tree = after_cut(disk.changes[:moment], folders, way, chance)
            cuts.setdefault(tuple(tree.items()), (moment, tree))
    return list(cuts.values())


def test_a_save_after_a_power_cut_clears_what_the_cut_one_left(tmp_path: Path) -> None:
    run = tmp_path / "run"
    save(run / "checkpoints", 1, 1)
    with recorded(run) as disk:
        save(run / "checkpoints", 2, 2)
    cuts = cuts_of(disk, ("killed",))
    assert any(name.startswith("checkpoints/.step-") for _, tree in cuts for name in tree)
    for _, tree in cuts:
        checkpoints = lay_out(tree, tmp_path / "cut")
        save(checkpoints, 2, 3)
        assert found(checkpoints) == 3
        assert sorted(entry.name for entry in checkpoints.iterdir()) == ["last", "step-000001", "step-000002"]


# Bit rot


def test_no_flipped_bit_is_loaded_silently(tmp_path: Path, battery: Battery) -> None:
    checkpoints = tmp_path / "checkpoints"
    for mark in (1, 2):
        save(checkpoints, mark, mark, best="step-000001")
    chance, places = random.Random(0), [path for path in sorted(checkpoints.rglob("*")) if path.is_file()]
    assert len(places) == 2 * 4 + 2
    contents = {path: path.read_bytes() for path in places}
    for _ in range(battery(1_000, 10_000)):
        path = chance.choice(places)
        bit = chance.randrange(8 * len(contents[path]))
        rotten = bytearray(contents[path])
        rotten[bit // 8] ^= 1 << bit % 8
        path.write_bytes(rotten)
        assert harm(checkpoints, path) is None, (path.name, bit)
        path.write_bytes(contents[path])
    assert checkpoint.find(checkpoints) == checkpoint.Found(checkpoints / "step-000002", ())


def harm(checkpoints: Path, rotten: Path) -> str | None:
    """What a flipped bit in one of the files does that nobody would notice."""
    place = checkpoint.find(checkpoints)
    if place is None or mark_of(place.path) != int(place.path.name[-1]):
        return "something else was loaded"
    if (place.path.name != "step-000002") != bool(place.notes) and rotten.name != "last":
        return "an older one was loaded without a note, or the same one with a note"
    if rotten.name == "last" and not place.notes:
        return "last was believed"
    if rotten.parent != checkpoints and not refuses(lambda: checkpoint.load(rotten.parent)):
        return "the rotten one was loaded"
    if rotten.name == "best" and not refuses(lambda: checkpoint.best(checkpoints)):
        return "best was believed"
    return None


def refuses(action: Callable[[], object]) -> bool:
    try:
        action()
    except ModelError:
        return True
    return False


# A full disk


def assert_the_old_one_stands(checkpoints: Path, error: PatchwordsError, needed: int) -> None:
    assert error.exit_code == 5
    assert "step-000002" in str(error)
    numbers = [int(word.replace(",", "")) for word in re.findall(r"([\d,]+) bytes are needed", str(error))]
    assert max(numbers, default=0) >= needed
    assert found(checkpoints) == 1
    assert hidden(checkpoints) == []


def test_wherever_the_disk_refuses_the_old_checkpoint_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = tmp_path / "checkpoints"
    save(checkpoints, 1, 1)
    stages, refused = [], 0
    for stage in range(1_000):
        with monkeypatch.context() as patch:
            left = full_after(stage, patch)
            try:
                save(checkpoints, 2, 2)
            except ResourceError as error:
                refused += 1
                stages.append(left())
                if found(checkpoints) == 1:
                    assert_the_old_one_stands(checkpoints, error, 32)
                assert found(checkpoints) in (1, 2)
            else:
                break
    assert refused > 20
    assert found(checkpoints) == 2
    assert {"mkdir", "fsync", "rename", "replace", "write", "safetensors"} <= set(stages)


def full_after(count: int, patch: pytest.MonkeyPatch) -> Callable[[], str]:
    """A disk that refuses everything after so many operations; what it refused first is told."""
    left, first = [count], [""]

    def limited(name: str, operation: Callable[..., Any], half: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] >= 0:
                return operation(*arguments, **options)
            first[0] = first[0] or name
            if half:
                half(*arguments)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call

    for name in ("fsync", "replace", "rename", "mkdir"):
        patch.setattr(os, name, limited(name, getattr(os, name)))
    patch.setattr(durable, "create", limited("write", durable.create, lambda path, data: path.write_bytes(data[:9])))
    write = limited("safetensors", files.WRITERS[".safetensors"], lambda path, *_: path.write_bytes(b"half"))
    patch.setitem(files.WRITERS, ".safetensors", write)
    return lambda: first[0]


NUMBERS = 50_000  # 200 kB
NEEDED = 4 * NUMBERS


def test_a_limit_on_the_size_of_files_leaves_the_old_checkpoint(tmp_path: Path, battery: Battery) -> None:
    checkpoints = tmp_path / "checkpoints"
    save(checkpoints, 1, 1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    tries = battery(5, 20)
    for size in (1 + NEEDED * i // tries for i in range(tries)):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            with pytest.raises(ResourceError) as caught:
                save(checkpoints, 2, 2, numbers=NUMBERS)
            with pytest.raises(ResourceError, match=f"{NEEDED:,} bytes are needed"):
                checkpoint.room(checkpoints, NEEDED)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert_the_old_one_stands(checkpoints, caught.value, NEEDED)
    save(checkpoints, 2, 2, numbers=NUMBERS)
    assert found(checkpoints) == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB, where the system lets us have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not permitted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_really_full_leaves_the_old_checkpoint(small_disk: Path, battery: Battery) -> None:
    checkpoints, ballast = small_disk / "checkpoints", small_disk / "ballast"
    save(checkpoints, 1, 1)
    tries = battery(5, 20)
    for free in (NEEDED * i // tries for i in range(tries)):
        ballast.unlink(missing_ok=True)
        ballast.write_bytes(bytes(max(0, shutil.disk_usage(small_disk).free - free)))
        with pytest.raises(ResourceError) as caught:
            save(checkpoints, 2, 2, numbers=NUMBERS)
        assert_the_old_one_stands(checkpoints, caught.value, NEEDED)
        with pytest.raises(ResourceError, match=f"{NEEDED:,} bytes are needed"):
            checkpoint.room(checkpoints, NEEDED)
        assert hidden(checkpoints) == []
    ballast.unlink()
    checkpoint.room(checkpoints, NEEDED)
    save(checkpoints, 2, 2, numbers=NUMBERS)
    assert found(checkpoints) == 2
