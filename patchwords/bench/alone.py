"""Whether nobody else uses the GPU: what is measured beside others says nothing of either."""

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE = 45.0  # seconds that others may take to end
FREE = 2048  # MiB: what a driver may keep for itself
SMI = "nvidia-smi"


@dataclass(frozen=True)
class Alone:
    """What was found, as a sentence; `so` is whether nobody else was there."""

    sentence: str
    so: bool


def alone(patience: float = PATIENCE) -> Alone:
    """As soon as nobody uses the first GPU, or after so many seconds. This process must not use it yet."""
    begun = time.monotonic()
    while True:
        try:
            found = _looked()
        except FileNotFoundError:
            return Alone(f"who else uses the GPU is not known: there is no {SMI}", so=False)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return Alone(f"who else uses the GPU is not known: {SMI} does not tell ({error})", so=False)
        waited = time.monotonic() - begun
        if found.so or waited >= patience:
            return Alone(
                f"{found.sentence}, after {waited:.0f} s of waiting" if waited >= 1 else found.sentence, found.so
            )
        time.sleep(min(1.0, patience))


def _looked() -> Alone:
    ((taken, total, busy),) = (
        map(int, line) for line in _asked("--query-gpu=memory.used,memory.total,utilization.gpu")
    )
    programs = [f"{number} with {size} MiB" for number, size in _asked("--query-compute-apps=pid,used_memory")]
    size = f"{taken:,} of {total:,} MiB are taken, {busy} % busy"
    if taken <= FREE and not programs:
        return Alone(f"nobody else uses the GPU: {size}", so=True)
    return Alone(f"others use the GPU: {size}, processes: {', '.join(programs) or 'none that can be seen'}", so=False)


def _asked(query: str) -> Sequence[Sequence[str]]:
    words = [SMI, "--id=0", query, "--format=csv,noheader,nounits"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=True).stdout
    return [[cell.strip() for cell in line.split(",")] for line in said.splitlines() if line.strip()]
