"""The tables of docs/benchmarks.md in one call: `python benchmarks/speed.py --out FOLDER [--only NAME …]`.

Every section of speed.toml is a process of its own with a time limit, which begins when nobody else uses the GPU. It
leaves FOLDER/NAME.json as soon as it is over, FOLDER/NAME.log, and a picture where there is one; what fails is told and
the others go on. `--go-on` leaves out what a folder holds already, and a section that the budget has no room for gives
way to shorter ones. `--tables` draws and tells what a folder holds, and measures nothing.
"""

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread
from typing import Any

GRACE = 10.0  # seconds to clean up
ROOM = 0.5  # of a section's limit: with less time than that it is not begun
TAIL = 6000  # letters of a section's log that are told
HERE = Path(__file__).resolve().parent
TOLD = ("row", "bar", "bench", "limit", "device")  # of a section, for the runner itself
SETTINGS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "speed.toml").read_text("utf-8"))


def say(line: str) -> None:
    print(line, flush=True)


def inference(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.inference import Asked, inference

    name = given.pop("model")
    return inference(name, _model(name), Asked(device=place, **given), say)


def latency(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.inference import Asked
    from patchwords.bench.latency import latency

    name = given.pop("model")
    return latency(name, _model(name), Asked(device=place, **given), None, say)


def training(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.training import Asked, training

    name = given.pop("model")
    return training(name, _model(name), Asked(device=place, **given), say)


def loading(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.loading import Asked, loading

    return loading(Asked(device=place, **given), say)


def end_to_end(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.end_to_end import Asked, end_to_end

    return end_to_end(Asked(device=place, **given), say)


def agreement(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.agreeing import Asked, agreeing

    return agreeing(Asked(device=place, **given), say)


def small(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.small import Asked, small

    return small(Asked(device=place, **given), say)


def growth(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.growth import Asked, growth

    return growth(Asked(device=place, **given), say)


def profile(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.profile import Asked, profile

    name = given.pop("model")
    return profile(name, _model(name), Asked(device=place, **given), say)


def learning(given: dict[str, Any], place: Any) -> Any:
    from patchwords.bench.learning import Asked, learning

    return learning(Asked(device=place, **given), say)


BENCHES: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "inference": inference,
    "latency": latency,
    "training": training,
    "loading": loading,
    "end-to-end": end_to_end,
    "agreement": agreement,
    "small": small,
    "growth": growth,
    "learning": learning,
    "profile": profile,
}


def _model(name: str) -> Any:
    import torch

    from patchwords.bench.values import randomised
    from patchwords.models.build import build

    torch.manual_seed(0)
    return randomised(build(name))


def measure(name: str, out: Path, changes: dict[str, Any], beside: str = "") -> None:
    """One section, in this process; `beside` says who else uses the GPU, if anybody."""
    from patchwords.speed.device import choose

    logging.basicConfig(stream=sys.stdout)
    logging.getLogger("patchwords").setLevel(logging.DEBUG)  # why a peer does not run, how products are made

    section = SETTINGS[name] | changes
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in section.items()}
    work = BENCHES[section["bench"]]
    found = work({key: given[key] for key in given if key not in TOLD}, choose(section.get("device", "auto")))
    if beside:
        found = replace(found, notes=(*found.notes, beside), machine=found.machine | {"beside": beside})
    part = out / f"{name}.json.part"
    part.write_text(json.dumps(asdict(found), indent=1) + "\n", "utf-8")
    part.replace(out / f"{name}.json")  # a file that is there is whole
    say(told(name, out))


def told(name: str, out: Path) -> str:
    """The rows of a section that was measured, as Markdown."""
    from patchwords.bench.table import caption, cells, markdown

    found = json.loads((out / f"{name}.json").read_text("utf-8"))
    rows = read(found)
    return "\n".join([caption(rows), "", markdown(*cells(rows)), *found["notes"]])


def run(names: list[str], out: Path, budget: float, changes: list[str]) -> None:
    """Each section in a process of its own while there is time."""
    from patchwords.bench.alone import PATIENCE, alone

    end = time.monotonic() + budget
    for name in names:
        limit, left = float(SETTINGS[name]["limit"]), end - time.monotonic() - GRACE
        if left < ROOM * limit:
            say(f"{name}: there is no time left for it ({max(0.0, left):.0f} s of up to {limit:.0f})")
            continue
        words = [sys.executable, "-u", str(HERE / "speed.py"), "--out", str(out), "--section", name]
        words += [word for change in changes for word in ("--set", change)]
        if SETTINGS[name].get("device") != "cpu":
            found = alone(min(PATIENCE, left - ROOM * limit))
            say(f"\n{name}: {found.sentence}")
            words += [] if found.so else ["--beside", found.sentence]
        if (out / f"{name}.json").exists():  # else it would be told as what is measured now, if that fails
            (out / f"{name}.json").replace(out / f"{name}.json.before")
        start = time.monotonic()
        with (out / f"{name}.log").open("wb") as log:
            code = _ended(words, log, min(limit, end - GRACE - start))
        say(f"\n{name}: {code}, {time.monotonic() - start:.0f} s")
        say((out / f"{name}.log").read_text("utf-8", "replace")[-TAIL:])


def _ended(words: list[str], log: Any, limit: float) -> str:
    """Waits, and ends what takes too long: first by asking, so that it removes the files that it made."""
    process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, cwd=HERE.parent, process_group=0)
    try:
        code = process.wait(limit)
        return "measured" if code == 0 else f"left with {code}"
    except subprocess.TimeoutExpired:
        return f"ended after its {limit:.0f} s"
    finally:
        _asked_to_end(process)
        _end_all(process.pid)


def _asked_to_end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_all(group: int) -> None:
    """Whoever a section has started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _with_its_parent() -> None:
    """A section whose runner is gone ends: it would use the GPU for nobody, beside whatever is measured next."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os.killpg(0, signal.SIGKILL)

    Thread(target=watch, daemon=True).start()


def tables(out: Path) -> None:
    """One table, a line for each row of ours; and the pictures, where matplotlib is installed."""
    from patchwords.bench.row import OURS
    from patchwords.bench.table import markdown

    heads = ["#", "section", "precision", "ours", "the fastest other", "ratio", "memory", "ceiling", "also", "bar"]
    lines = []
    for name, section in SETTINGS.items():
        if (out / f"{name}.json").exists():
            found = json.loads((out / f"{name}.json").read_text("utf-8"))
            lines += [_line(name, section, row, found) for row in read(found) if row.who == OURS]
            _draw(name, found, out)
    say(f"\n{markdown(heads, lines)}")


def read(found: dict[str, Any]) -> list[Any]:
    from patchwords.bench.row import Row

    return [Row(**row | {"image": tuple(row["image"])}) for row in found["rows"]]


def _line(name: str, section: dict[str, Any], row: Any, found: dict[str, Any]) -> list[str]:
    from patchwords.bench.row import EPOCH, OURS
    from patchwords.bench.table import GIB, LABELS, best

    rival = best(row)
    others = {f"{one.named} {one.precision}".strip(): one for one in read(found) if one.who != OURS}
    other = others.get(rival[0]) if rival else None
    memory = f"{row.memory / GIB:.2f} GiB" if row.memory is not None else ""
    if other and other.memory is not None:
        memory += f" / {other.memory / GIB:.2f}"
    also = [f"{LABELS[key][0]} {LABELS[key][1](value)}" for key, value in row.further.items()]
    also += [f"{ratio:.2f} x {rival}" for rival, ratio in row.ratios.items() if rival.endswith(f" {EPOCH}")]
    also += ["perhaps not alone"] if "beside" in found["machine"] else []  # its notes say who else was there
    return [
        section["row"],
        " ".join(filter(None, [name, "" if row.bench == section["bench"] else row.bench, row.how, str(row.image[0])])),
        row.precision,
        f"{row.images_per_second:,.0f}/s, {row.milliseconds:.2f} ms" + (f" ± {row.spread:.1%}" if row.spread else ""),
        f"{rival[0]} {other.images_per_second:,.0f}/s" if rival and other else "",
        f"{rival[1]:.3f}" if rival else "",
        memory,
        f"{100 * row.ceiling:.1f} %" if row.ceiling is not None else "",
        ", ".join(also),
        section.get("bar", ""),
    ]


def _draw(name: str, found: dict[str, Any], out: Path) -> None:
    bench = found["bench"]
    if bench not in ("growth", "learning"):
        return
    try:
        from patchwords.bench import figures
    except ImportError as error:
        say(f"{name}.png is not drawn ({error})")
        return
    (out / f"{name}.png").write_bytes({"growth": figures.growth, "learning": figures.learning}[bench](found))


def _assigned(words: list[str]) -> dict[str, Any]:
    from patchwords.settings import assignments

    return assignments(words)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=lambda word: Path(word).resolve(), required=True)
    words.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(SETTINGS)}")
    words.add_argument("--budget", type=float, default=1e9, metavar="SECONDS", help="for all sections together")
    words.add_argument("--go-on", action="store_true", help="leave out what the folder holds already")
    words.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="in every section measured")
    words.add_argument("--tables", action="store_true", help="tell what the folder holds, and measure nothing")
    words.add_argument("--section", default="", help=argparse.SUPPRESS)
    words.add_argument("--beside", default="", help=argparse.SUPPRESS)
    given = words.parse_args()
    sys.path.insert(0, str(HERE.parent))
    if wrong := [name for name in [*given.only, *filter(None, [given.section])] if name not in SETTINGS]:
        words.error(f"no section is called {wrong[0]}: there are {', '.join(SETTINGS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what was begun is ended
    if given.section:
        _with_its_parent()
        try:
            measure(given.section, given.out, _assigned(given.set), given.beside)
        except Exception:
            traceback.print_exc(limit=-6)
            sys.exit(1)
        return
    if not given.tables:
        names = given.only or list(SETTINGS)
        if given.go_on:
            names = [name for name in names if not (given.out / f"{name}.json").exists()]
        run(names, given.out, given.budget, given.set)
    tables(given.out)


if __name__ == "__main__":
    main()
