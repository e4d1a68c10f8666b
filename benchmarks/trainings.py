"""Trainings that begin with others, several at a time on one device, each in a process of its own.

What was done is not done again: a run that was stopped goes on, one that failed is left as it is.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LEAVE = 25.0  # seconds before the end in which everybody saves


def learn(data: str, recipe: str, run: Path, change: Mapping[str, Any]) -> None:
    """A training run, or what is left of it."""
    from patchwords.training.train import train

    if (run / "recipe.toml").exists():
        train(resume=run)
    else:
        train(data, recipe=recipe, change={"minutes": 0.5} | dict(change), out=run)


def perform(
    waits: Mapping[str, Sequence[str]], words: Mapping[str, Sequence[str]], out: Path, *, together: int, minutes: float
) -> None:
    """Every task by its command, as soon as those that it `waits` for are done; all are stopped, saved, at the end."""
    end = time.monotonic() + 60 * minutes
    done = {path.stem for path in out.glob("*.done")}
    failed: set[str] = set()
    running: dict[str, subprocess.Popen[bytes]] = {}

    def ready(name: str) -> bool:
        return name not in done | failed | running.keys() and all(other in done for other in waits[name])

    while time.monotonic() < end - LEAVE and (running or any(map(ready, waits))):
        for name in [name for name in waits if ready(name)][: together - len(running)]:
            command = [sys.executable, "-u", *words[name]]
            with (out / f"{name}.log").open("ab") as log:
                running[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        time.sleep(0.5)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            code = running.pop(name).returncode
            print(f"{time.strftime('%H:%M:%S')} {name}: {'done' if code == 0 else f'left with {code}'}", flush=True)
            (failed if code else done).add(name)
            if code == 0:
                (out / f"{name}.done").touch()
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    for process in running.values():
        process.wait()
