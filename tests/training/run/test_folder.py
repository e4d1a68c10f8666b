"""The run folder: never overwritten, one process at a time, files whole or as they were, metrics that go on exactly."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchwords.errors import DataError, ResourceError, UsageError
from patchwords.training.run import lock
from patchwords.training.run.folder import RunFolder


def begun(path: Path) -> Path:
    """A run that was begun and left."""
    with RunFolder.create(path, "data") as run:
        run.write_text("recipe.toml", "seed = 0\n")
    return path


def test_runs_are_numbered_by_their_data(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    names = []
    for data in ("flowers", "flowers", "digits", "flowers"):
        with RunFolder.create(None, data, root) as run:
            names.append(run.path.relative_to(root).as_posix())
    assert names == ["flowers-1", "flowers-2", "digits-1", "flowers-3"]


def test_the_next_number_is_above_all_there_are(tmp_path: Path) -> None:
    for name in ("flowers-9", "flowers-2", "flowers-x", "flowers-11-old"):
        (tmp_path / name).mkdir()
    with RunFolder.create(None, "flowers", tmp_path) as run:
        assert run.path.name == "flowers-10"


def test_a_number_that_somebody_else_took_is_left_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flowers-1").mkdir()
    monkeypatch.setattr(Path, "iterdir", lambda self: iter(()))  # it came after we looked
    with RunFolder.create(None, "flowers", tmp_path) as run:
        assert run.path.name == "flowers-2"


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("../../etc", "etc-1"),
        ("a/b c.tar", "a-b-c.tar-1"),
        ("花", "花-1"),
        ("", "run-1"),
        (".", "run-1"),
        ("x" * 500, "x" * 60 + "-1"),
    ],
)
def test_the_name_of_the_data_is_no_path(data: str, name: str, tmp_path: Path) -> None:
    with RunFolder.create(None, data, tmp_path) as run:
        assert run.path == tmp_path / name


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    with pytest.raises(UsageError, match=f"never overwritten.*--resume {path}"):
        RunFolder.create(path, "data")
    assert (path / "recipe.toml").read_text() == "seed = 0\n"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        RunFolder.create(tmp_path / "file", "data")


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, "data").close()
    RunFolder.create(tmp_path, "data").close()  # all that is in it is a lock that nobody holds


def test_a_run_that_was_refused_leaves_the_place_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with RunFolder.create(tmp_path / name, "data") as run:
            run.write_text("recipe.toml", "seed = 0\n")
            run.checkpoints.mkdir()
            RunFolder.visit(run.path).withdraw()  # another process of the run leaves it to the holder
            assert (run.path / "recipe.toml").exists()
            run.withdraw()
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert list((tmp_path / "empty").iterdir()) == []
    with RunFolder.create(tmp_path / "empty", "data"):
        pass  # free to be taken


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"run cannot be written, since .*/file is a file and no folder: choose"):
        RunFolder.create(tmp_path / "file" / "run", "data")


def test_a_place_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(ResourceError, match=r"could not be written \(No space left on device\): make room"):
        RunFolder.create(tmp_path / "run", "data")


def test_only_a_run_folder_is_reopened(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        RunFolder.reopen(tmp_path / "none")
    with pytest.raises(UsageError, match=r"there is no recipe\.toml"):
        RunFolder.reopen(tmp_path)
    with pytest.raises(UsageError, match=r"there is no study\.json"):
        RunFolder.reopen(tmp_path, "study.json")


def test_reopening_clears_what_a_killed_process_left(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    (path / ".run.json-01234567.aside").touch()
    with RunFolder.reopen(path) as run:
        assert run.checkpoints == path / "checkpoints"
        assert sorted(entry.name for entry in path.iterdir()) == [".lock", "recipe.toml"]


def test_a_second_training_in_the_same_process_is_refused(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    with RunFolder.reopen(path), pytest.raises(UsageError, match=f"in use by process {os.getpid()} on"):
        RunFolder.reopen(path)
    RunFolder.reopen(path).close()


HOLD = """
import os, sys, time
from pathlib import Path
from patchwords.training.run.folder import RunFolder
run = RunFolder.reopen(Path(sys.argv[1]))
if os.fork() == 0:
    print("held", flush=True)  # by a worker that outlives its killed parent
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_a_second_process_is_refused_until_the_first_is_killed_even_if_its_workers_live(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(UsageError, match=f"in use by process {holder.pid} on") as caught:
                RunFolder.reopen(path)
            assert caught.value.exit_code == 2
            holder.kill()
            holder.wait()
            os.killpg(holder.pid, 0)  # the worker is alive
            RunFolder.reopen(path).close()
        finally:
            os.killpg(holder.pid, signal.SIGKILL)


def test_without_flock_the_lock_is_a_file_that_says_how_to_be_rid_of_it(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    descriptor = lock._take_by_name(path)
    with pytest.raises(UsageError, match=f"process {os.getpid()} on .*delete {path}"):
        lock._take_by_name(path)
    lock._HELD.discard(descriptor)
    os.close(descriptor)
    path.unlink()
    os.close(again := lock._take_by_name(path))
    lock._HELD.discard(again)


def test_files_are_written_whole_or_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with RunFolder.create(tmp_path / "run", "data") as run:
        run.write_json("classes.json", ["Blüte", "\udc80"])
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError, match=r"classes\.json .*\(No space.* 8 bytes"):
            run.write_json("classes.json", [1])
        assert json.loads((run.path / "classes.json").read_bytes()) == ["Blüte", "\udc80"]
        assert "Blüte" in (run.path / "classes.json").read_text(encoding="utf-8")
        assert sorted(entry.name for entry in run.path.iterdir()) == [".lock", "classes.json"]


ROWS: list[dict[str, Any]] = [
    {"kind": "train", "step": 1, "loss": 0.1 + 0.2},
    {"kind": "val", "step": 1, "accuracy": 0.5, "note": 'a "b", c'},
    {"kind": "train", "step": 2, "loss": 1e-30},
]


def test_metrics_go_on_after_the_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    path = begun(tmp_path / "run")
    with RunFolder.reopen(path) as run:
        assert run.metrics_size() == 0
        run.append(ROWS[0])
        size = run.metrics_size()
        run.append(ROWS[1])
        with (path / "metrics.jsonl").open("ab") as file:
            file.write(b'{"kind": "tr')  # killed here
        assert list(run.rows()) == ROWS[:2]
    with RunFolder.reopen(path) as run:
        assert run.truncate_metrics(size) == []
        assert list(run.rows()) == ROWS[:1]
        for row in ROWS[1:]:
            run.append(row)
        assert list(run.rows()) == ROWS
        assert run.truncate_metrics(0) == []
        assert list(run.rows()) == []


def test_a_torn_last_line_is_cut(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "data") as run:
        run.append(ROWS[0])
        size = run.metrics_size()
        with (run.path / "metrics.jsonl").open("ab") as file:
            file.write(b'{"kind": "tr')
        assert run.truncate_metrics(size + 5) != []
        run.append(ROWS[1])
        assert list(run.rows()) == ROWS[:2]


def test_metrics_that_a_power_cut_took_are_said_to_be_missing(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "data") as run:
        assert "the checkpoint knew 100: lines of metrics are missing" in run.truncate_metrics(100)[0]
        run.append(ROWS[0])
        assert "missing" in run.truncate_metrics(1_000)[0]
        assert list(run.rows()) == ROWS[:1]


def test_a_number_that_is_not_finite_is_null(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "data") as run:
        run.append({"step": 1, "loss": float("nan"), "norm": float("inf")})
        assert list(run.rows()) == [{"step": 1, "loss": None, "norm": None}]


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "data") as run:
        for line in ("3\n", "nonsense\n"):
            (run.path / "metrics.jsonl").write_text("{}\n" + line)
            with pytest.raises(DataError, match=r"line 2 of .*metrics\.jsonl"):
                list(run.rows())


def test_the_table_has_a_column_for_every_key(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "data") as run:
        run.write_csv()
        for row in ROWS:
            run.append(row)
        run.write_csv()
        with (run.path / "metrics.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["kind", "step", "loss", "accuracy", "note"]
    assert [{key: value for key, value in row.items() if value} for row in rows] == [
        {key: str(value) for key, value in row.items()} for row in ROWS
    ]
