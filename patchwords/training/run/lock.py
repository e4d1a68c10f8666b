"""One process at a time in a run folder: a lock that the system frees when its holder dies."""

import atexit
import os
import platform
import sys
from pathlib import Path

from patchwords.errors import ResourceError, UsageError

_HELD: set[int] = set()  # descriptors of this process's locks


class Lock:
    """Held from its making until `free` or the end of the process; a second one is refused and told who holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = _take_by_name(path) if sys.platform == "win32" else _take(path)
        except OSError as error:
            raise ResourceError(
                f"{path} cannot be locked ({error.strerror}): choose another place for the run with --out"
            ) from error

    def free(self) -> None:
        if self._descriptor in _HELD:  # not in a forked child, which holds nothing
            _HELD.discard(self._descriptor)
            os.close(self._descriptor)
            if sys.platform == "win32":
                self.path.unlink(missing_ok=True)


def _take(path: Path) -> int:
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UsageError(_refusal(path, "wait for it, or stop it")) from None
    except OSError:
        os.close(descriptor)
        raise
    os.ftruncate(descriptor, 0)
    return _sign(descriptor)


def _take_by_name(path: Path) -> int:
    """For systems without flock: the file's being there is the lock, and a killed process leaves it behind."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        raise UsageError(_refusal(path, f"wait for it, or delete {path} if it no longer runs")) from None
    atexit.register(path.unlink, missing_ok=True)
    return _sign(descriptor)


def _sign(descriptor: int) -> int:
    os.write(descriptor, f"process {os.getpid()} on {platform.node()}".encode())
    _HELD.add(descriptor)
    return descriptor


def _refusal(path: Path, advice: str) -> str:
    holder = path.read_text(encoding="utf-8", errors="replace") or "another process"
    return f"{path.parent} is in use by {holder}, and two trainings in one run folder would spoil both: {advice}"


def _drop() -> None:
    """A forked child, such as a loader's worker, must not keep the lock of a parent that was killed."""
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_drop)
