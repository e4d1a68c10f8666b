"""What the service's own process uses: memory, processor time, open files."""

import os
import resource
import sys
import time
from pathlib import Path

STARTED = time.time()


def memory() -> int:
    """Resident bytes now; where the system does not tell, the most there ever were."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def seconds() -> float:
    """Of all processors together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def files() -> int:
    return len(os.listdir("/proc/self/fd" if Path("/proc/self/fd").exists() else "/dev/fd"))


def allow_files(number: int) -> int:
    """Raises how many files and connections may be open, as far as the system lets us; how many it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return number if soft == resource.RLIM_INFINITY else soft
