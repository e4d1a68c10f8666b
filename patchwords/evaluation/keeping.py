"""A folder of the cache that stays below a size: what was not asked for the longest goes first."""

import os
from contextlib import suppress
from pathlib import Path


def used(path: Path) -> None:
    """Marks a file as asked for now, which its time of change says; a cache that is only read stays as it is."""
    with suppress(OSError):
        os.utime(path)


def prune(newest: Path, most: int) -> int:
    """Removes files beside the newest one until all together have so many bytes at most; how many were removed.

    The newest stays, however large it is. Others may prune at the same time: what is gone already, or cannot be
    removed, is no fault.
    """
    times: dict[Path, tuple[int, int]] = {}
    for path in filter(Path.is_file, newest.parent.iterdir()):
        with suppress(OSError):
            status = path.stat()
            times[path] = (status.st_mtime_ns, status.st_size)
    total, removed = sum(size for _, size in times.values()), 0
    for path in sorted(times.keys() - {newest}, key=lambda path: times[path]):
        if total <= most:
            break
        with suppress(OSError):
            path.unlink(missing_ok=True)
            total, removed = total - times[path][1], removed + 1
    return removed
