"""From scratch on few pictures, how far one gets: the trainings of records.toml, in chains, for every seed.

`python -m benchmarks.records --data flowers=FOLDER --data cifar=FILE --out DIR` trains all whose pictures are given,
several at a time on one device, and goes on where it was stopped; `--only NAME …` takes some and what they begin with,
`--minutes` stops in good time, `--set KEY=VALUE` changes all of them, `--tables` tells what a folder holds.
"""

import argparse
import json
import statistics
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.trainings import learn, perform

HERE = Path(__file__).resolve().parent
MARKS = (0.9, 0.94)  # accuracies whose first time is told


@dataclass(frozen=True, kw_only=True)
class Training:
    """A recipe with its changes; `weights` and `teacher` name the trainings that it begins with, of the same seed."""

    data: str
    recipe: str
    weights: str = ""
    teacher: str = ""
    change: dict[str, Any] = field(default_factory=dict)

    @property
    def after(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.weights, self.teacher)))


def trainings(path: Path = HERE / "records.toml") -> dict[str, Training]:
    from patchwords import settings

    return {name: settings.read(table, Training) for name, table in tomllib.loads(path.read_text("utf-8")).items()}


def chained(names: Iterable[str], every: Mapping[str, Training]) -> list[str]:
    """These, and before them what they begin with."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys([*chained(every[name].after, every), name])
    return list(found)


def one(task: str, every: Mapping[str, Training], data: Mapping[str, str], out: Path, changes: dict[str, Any]) -> None:
    """The training of a name and a seed, in this process."""
    from patchwords import settings

    name, _, seed = task.rpartition("-")
    training = every[name]
    emptied: dict[str, Any] = {key: {} for key, value in training.change.items() if value == {}}
    change = {"seed": int(seed), "best": "last"} | emptied | settings.dotted(training.change) | changes
    if training.weights:
        change["weights"] = str(out / f"{training.weights}-{seed}")
    if training.teacher:
        change["objective.teacher"] = str(out / f"{training.teacher}-{seed}")
    learn(data[training.data], training.recipe, out / task, change)


@dataclass(frozen=True)
class Outcome:
    """What a run came to: its last model on the pictures put aside, and the seconds of the run and to each mark."""

    accuracy: float | None
    judged: int
    seconds: float
    reached: tuple[float | None, ...]


def outcome(run: Path) -> Outcome | None:
    """None of a run that has not ended."""
    if not (run / "run.json").exists():
        return None
    told = json.loads((run / "run.json").read_text("utf-8"))
    if told["status"] != "finished":
        return None
    scores = told.get("test") or told.get("scores") or {}
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    judged = [row for row in rows if row["kind"] == "val" and "accuracy" in row]
    reached = (next((row["seconds"] for row in judged if row["accuracy"] >= mark), None) for mark in MARKS)
    judged_by = scores.get("count", 0)  # none where words were guessed and not classes
    return Outcome(scores.get("accuracy") if judged_by else None, judged_by, told["seconds"], tuple(reached))


def table(out: Path, every: Mapping[str, Training]) -> str:
    """A line for each name, of all its seeds that have ended."""
    marks = [f"seconds to {100 * mark:g} %" for mark in MARKS]
    lines = [["training", "after", "seeds", "accuracy, %", "pictures", "seconds", "with what came before", *marks]]
    for name in every:
        runs = sorted(path for path in out.glob(f"{name}-*") if path.name.rpartition("-")[0] == name and path.is_dir())
        found = {run.name.rpartition("-")[2]: each for run in runs if (each := outcome(run))}
        if not found:
            continue
        scores = [100 * each.accuracy for each in found.values() if each.accuracy is not None]
        before = [chain for seed in found if (chain := _whole(name, seed, out, every)) is not None]
        lines.append(
            [
                name,
                ", ".join(every[name].after),
                ", ".join(found),
                _spread(scores),
                str(max(each.judged for each in found.values()) or ""),
                _spread([each.seconds for each in found.values()], 0),
                _spread(before, 0),
                *(_spread([each.reached[mark] for each in found.values()], 0) for mark in range(len(MARKS))),
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def _whole(name: str, seed: str, out: Path, every: Mapping[str, Training]) -> float | None:
    """The seconds of a chain, where all of it is there."""
    chain = [outcome(out / f"{each}-{seed}") for each in chained([name], every)]
    return sum(each.seconds for each in chain if each) if all(chain) else None


def _spread(numbers: list[Any], digits: int = 1) -> str:
    """The mean, and the deviation of several; a word where one is missing."""
    if not numbers:
        return ""
    if None in numbers:
        return "not all"
    mean = f"{statistics.mean(numbers):,.{digits}f}"
    return mean if len(numbers) == 1 else f"{mean} ± {statistics.stdev(numbers):,.{digits}f}"


def main() -> None:
    from patchwords import settings

    every = trainings()
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument(
        "--data", action="append", default=[], metavar="NAME=DATA", help="as `patchwords train` takes it"
    )
    words.add_argument("--out", type=Path, required=True)
    words.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(every)}")
    words.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    words.add_argument("--together", type=int, default=5, help="trainings at a time")
    words.add_argument("--minutes", type=float, default=1e9, help="stop, and save, after so long")
    words.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="in every training")
    words.add_argument("--tables", action="store_true", help="tell what the folder holds, and train nothing")
    words.add_argument("--task", default="", help=argparse.SUPPRESS)
    given = words.parse_args()
    data = dict(word.split("=", 1) for word in given.data if "=" in word)
    if wrong := [name for name in given.only if name not in every]:
        words.error(f"no training is called {wrong[0]}: there are {', '.join(every)}")
    if given.task:
        one(given.task, every, data, given.out, settings.assignments(given.set))
        return
    if not given.tables:
        wanted = chained(given.only or [name for name in every if every[name].data in data], every)
        if not wanted or any(every[name].data not in data for name in wanted):
            kinds = sorted({every[name].data for name in wanted} or {each.data for each in every.values()})
            words.error(f"--data tells where pictures are: {' '.join(f'--data {kind}=FOLDER' for kind in kinds)}")
        given.out.mkdir(parents=True, exist_ok=True)
        repeated = [word for pair in data.items() for word in ("--data", "=".join(pair))]
        repeated += [word for change in given.set for word in ("--set", change)]
        tasks = [(name, seed) for seed in given.seeds for name in wanted]
        perform(
            {f"{name}-{seed}": [f"{other}-{seed}" for other in every[name].after] for name, seed in tasks},
            {
                f"{name}-{seed}": [
                    *("-m", "benchmarks.records", "--out", str(given.out), *repeated, "--task", f"{name}-{seed}")
                ]
                for name, seed in tasks
            },
            given.out,
            together=given.together,
            minutes=given.minutes,
        )
    print(table(given.out, every))


if __name__ == "__main__":
    main()
