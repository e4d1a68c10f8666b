"""What it is worth to learn without labels, or from a teacher: the table in docs/results.md, made on CIFAR-10.

`python -m benchmarks.learning DATA --out DIR` trains every row, several at a time on one device, and goes on where it
was stopped; `--minutes` stops it in good time. DATA is what `patchwords train` takes.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.trainings import learn, perform

WITHOUT_LABELS = ("masked-patch", "mae", "beit", "dino")
ON_A_GPU = {"precision": "bf16", "data.cache": "device"}


@dataclass(frozen=True)
class Task:
    """Something to do, and what must be done before it."""

    after: tuple[str, ...]
    work: Callable[[str, Path], None]


def pretrain(recipe: str, name: str) -> Callable[[str, Path], None]:
    def work(data: str, out: Path) -> None:
        change = {"objective.tokenizer": str(out / "tokenizer")} if recipe == "cifar/beit" else {}
        learn(data, recipe, out / name, ON_A_GPU | change)

    return work


def finetune(start: str) -> Callable[[str, Path], None]:
    def work(data: str, out: Path) -> None:
        change = {} if start == "scratch" else {"weights": str(out / start)}
        learn(data, "cifar/finetune", out / f"tuned-{start}", ON_A_GPU | change)

    return work


def distil(data: str, out: Path) -> None:
    learn(data, "cifar/distill", out / "distilled", ON_A_GPU | {"objective.teacher": str(out / "teacher")})


def simple(recipe: str, name: str) -> Callable[[str, Path], None]:
    def work(data: str, out: Path) -> None:
        learn(data, recipe, out / name, ON_A_GPU)

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
    wanted = [name for name in given.only.split(",") if name] or list(TASKS)
    module = ["-m", "benchmarks.learning", given.data, "--out", str(given.out), "--task"]
    perform(
        {name: TASKS[name].after for name in wanted},
        {name: [*module, name] for name in wanted},
        given.out,
        together=given.together,
        minutes=given.minutes,
    )
    (given.out / "rows.json").write_text(json.dumps(rows(given.out), indent=2) + "\n")


if __name__ == "__main__":
    main()
