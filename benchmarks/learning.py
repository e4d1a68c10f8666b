"""What it is worth to learn without labels, or from a teacher: the table in docs/results.md, made on CIFAR-10.

`python -m benchmarks.learning DATA --out DIR` trains every row, several at a time on one device, and goes on where it
was stopped; `--minutes` stops it in good time. DATA is what `patchwords train` takes.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WITHOUT_LABELS = ("masked-patch", "mae", "beit", "dino")
LEAVE = 25.0  # seconds before the end in which everybody saves


@dataclass(frozen=True)
class Task:
    """Something to do, and what must be done before it."""

    after: tuple[str, ...]
    work: Callable[[str, Path], None]


def pretrain(recipe: str, name: str) -> Callable[[str, Path], None]:
    def work(data: str, out: Path) -> None:
        change = {"objective.tokenizer": str(out / "tokenizer")} if recipe == "cifar/beit" else {}
        learn(data, recipe, out / name, change)

    return work


def finetune(start: str) -> Callable[[str, Path], None]:
    def work(data: str, out: Path) -> None:
        learn(
            data, "cifar/finetune", out / f"tuned-{start}", {} if start == "scratch" else {"weights": str(out / start)}
        )

    return work


def distil(data: str, out: Path) -> None:
    learn(data, "cifar/distill", out / "distilled", {"objective.teacher": str(out / "teacher")})


def simple(recipe: str, name: str) -> Callable[[str, Path], None]:
    def work(data: str, out: Path) -> None:
        learn(data, recipe, out / name, {})

    return work


def features(start: str) -> Callable[[str, Path], None]:
    """The linear probe, ten shots and neighbours of what was learned without labels, or of nothing learned."""

    def work(data: str, out: Path) -> None:
        import patchwords as pw

        model: str | Path = out / start
        if start == "random":
            model = out / "random.safetensors"
            pw.save(pw.build(architecture()), model)
        pw.evaluate(model, data, few_shot=(10,), knn=(20,), probe=True, batch=512, out=out / f"features-{start}")

    return work


def architecture() -> Any:
    from dataclasses import replace

    from patchwords.layers.pool import Mean
    from patchwords.models.names import read

    return replace(read("ViT-Lite-7/4"), pool=Mean(), classes=0)


TASKS: dict[str, Task] = {
    "tokenizer": Task((), simple("cifar-tokenizer", "tokenizer")),
    **{
        name: Task(("tokenizer",) if name == "beit" else (), pretrain(f"cifar/{name}", name)) for name in WITHOUT_LABELS
    },
    "tuned-scratch": Task((), finetune("scratch")),
    **{f"tuned-{name}": Task((name,), finetune(name)) for name in WITHOUT_LABELS},
    "features-random": Task((), features("random")),
    **{f"features-{name}": Task((name,), features(name)) for name in WITHOUT_LABELS},
    "teacher": Task((), simple("cifar/teacher", "teacher")),
    "student": Task((), simple("cifar/student", "student")),
    "distilled": Task(("teacher",), distil),
}


def learn(data: str, recipe: str, run: Path, change: dict[str, Any]) -> None:
    """A training run, or what is left of it."""
    from patchwords.training.train import train

    if (run / "recipe.toml").exists():
        train(resume=run)
    else:
        train(
            data, recipe=recipe, change={"precision": "bf16", "data.cache": "device", "minutes": 0.5} | change, out=run
        )


def run_all(data: str, out: Path, together: int, minutes: float, only: list[str]) -> None:
    """Every task in a process of its own, so many at a time."""
    end = time.monotonic() + 60 * minutes
    wanted = only or list(TASKS)
    done = {name for name in TASKS if (out / f"{name}.done").exists()}
    running: dict[str, subprocess.Popen[bytes]] = {}
    while time.monotonic() < end - LEAVE and (running or any(_is_ready(name, done, running) for name in wanted)):
        for name in wanted:
            if len(running) < together and _is_ready(name, done, running):
                running[name] = _started(name, data, out)
        time.sleep(0.5)
        for name in [name for name, process in running.items() if process.poll() is not None]:
            code = running.pop(name).returncode
            print(f"{time.strftime('%H:%M:%S')} {name}: {'done' if code == 0 else f'left with {code}'}", flush=True)
            done.add(name)  # what failed is not tried again
            if code == 0:
                (out / f"{name}.done").touch()
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    for process in running.values():
        process.wait()


def _is_ready(name: str, done: set[str], running: dict[str, Any]) -> bool:
    return name not in done and name not in running and all(other in done for other in TASKS[name].after)


def _started(name: str, data: str, out: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-u", "-m", "benchmarks.learning", data, "--out", str(out), "--task", name]
    return subprocess.Popen(words, stdout=(out / f"{name}.log").open("ab"), stderr=subprocess.STDOUT)


def rows(out: Path) -> dict[str, Any]:
    """What was found, by task."""
    found: dict[str, Any] = {}
    for name in TASKS:
        run, report = out / name / "run.json", out / name / "evaluation.json"
        if run.exists():
            told = json.loads(run.read_text())
            found[name] = {key: told.get(key) for key in ("status", "seconds", "scores", "test")}
        elif report.exists():
            found[name] = json.loads(report.read_text())
    return found


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("data")
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--together", type=int, default=5, help="trainings at a time")
    words.add_argument("--minutes", type=float, default=1e9, help="stop, and save, after so long")
    words.add_argument("--only", default="", help="some tasks, separated by commas")
    words.add_argument("--task", default="", help="one task, in this process")
    given = words.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.task:
        TASKS[given.task].work(given.data, given.out)
        return
    run_all(given.data, given.out, given.together, given.minutes, [name for name in given.only.split(",") if name])
    (given.out / "rows.json").write_text(json.dumps(rows(given.out), indent=2) + "\n")


if __name__ == "__main__":
    main()
