"""PROMISE 5: Ctrl-C and SIGTERM, wherever they come, leave a state that is at most one step old, and the right code."""

import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from patchwords.cli.output import Output
from patchwords.cli.progress import Bars
from patchwords.training import judge, result, train
from patchwords.training.run import checkpoint

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SOON = 20.0  # seconds, on a machine that has other things to do


def test_stopped_runs_end_with_the_same_bits(launch, begin, undisturbed, bits, battery, tmp_path) -> None:
    chance, signals, runs = random.Random(0), 0, 0
    while signals < battery(10, 100):
        run, code = tmp_path / f"run-{runs}", -1
        while code != 0:
            signals += code > 0
            first = at_step(run)
            process = launch(*begin(run), "--set", f"data.workers={2 * (runs % 2)}")
            code = stopped(process, run, first, undisturbed.seconds, chance)
        assert bits(run) == undisturbed.bits
        shutil.rmtree(run)
        runs += 1


def at_step(run: Path) -> int:
    found = checkpoint.find(run / "checkpoints") if run.exists() else None
    assert found is None or found.notes == ()
    return checkpoint.load(found.path).step if found else 0


def stopped(process: Any, run: Path, first: int, seconds: float, chance: random.Random) -> int:
    """Sends a signal at a random moment, and looks at what was left by it; the exit code."""
    time.sleep(chance.uniform(0, seconds))
    number = chance.choice([signal.SIGINT, signal.SIGTERM])
    before = process.step
    process.send(number)
    if number == signal.SIGTERM and chance.random() < 0.5:
        process.send(number)  # as GNU timeout does
    after = process.step
    code = process.wait(SOON)
    if code == 0:  # it came when there was nothing left to stop
        assert (run / "report.html").exists()
        return code
    assert code == CODES[number], process.said
    told = re.search(r"stopped by (Ctrl-C|SIGTERM) after step (\d+) of 24, and saved", process.said)
    if told:
        assert before <= int(told[2]) <= max(first, after) + 1
        assert at_step(run) == int(told[2])
    elif before:  # after the last step, before the report or behind it: all was saved by then
        assert "stopped after the last step" in process.said or (run / "report.html").exists()
        assert at_step(run) == 24
    return code


# Places where a signal comes for certain: each takes a number, and makes the process send it to itself there.


def in_the_scan(number: int) -> None:
    at(Bars, "working", number)


def in_the_evaluation(number: int) -> None:
    at(judge, "judged", number)


def in_a_save(number: int) -> None:
    at(checkpoint, "_fill", number)


def in_the_result(number: int) -> None:
    at(result, "_write_predictions", number)


def in_the_report(number: int) -> None:
    at(train, "report", number)


def at(owner: Any, name: str, number: int) -> None:
    """Before every call of a function."""
    before = getattr(owner, name)

    def sending(*arguments: Any, **options: Any) -> Any:
        os.kill(os.getpid(), number)
        return before(*arguments, **options)

    setattr(owner, name, sending)


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("place", [in_the_scan, in_the_evaluation, in_a_save])
def test_a_signal_anywhere_is_heard(place: Callable, number: int, launch, begin, undisturbed, bits, tmp_path) -> None:
    run = tmp_path / "run"
    for where in (place, in_a_save, place):  # at the beginning of the run, and when it goes on
        process = launch(*begin(run), prepare=partial(where, number))
        assert process.wait(SOON) == CODES[number], process.said
    assert launch(*begin(run)).wait() == 0
    assert bits(run) == undisturbed.bits


@pytest.mark.parametrize("place", [in_the_result, in_the_report])
def test_a_signal_at_the_end_does_not_spoil_it(place: Callable, launch, begin, undisturbed, bits, tmp_path) -> None:
    run = tmp_path / "run"
    process = launch(*begin(run), prepare=partial(place, signal.SIGTERM))
    assert process.wait() == 0, process.said
    assert bits(run) == undisturbed.bits
    assert (run / "report.html").exists()


@pytest.mark.parametrize("streams", [(1,), (1, 2)])
def test_a_reader_that_leaves_takes_nothing_with_it(
    streams: tuple[int, ...], launch, begin, undisturbed, bits, tmp_path: Path
) -> None:
    """`patchwords train --json | head`, or a program that watched the run and died."""
    run = tmp_path / "run"
    process = launch(*begin(run), "--json", prepare=partial(unread_after_a_step, streams))
    assert process.wait(SOON) == 129, process.said
    assert at_step(run) > 0
    if streams == (1,):
        assert "stopped by SIGHUP after step" in process.said
    assert launch(*begin(run)).wait() == 0
    assert bits(run) == undisturbed.bits


def unread_after_a_step(streams: tuple[int, ...]) -> None:
    """The first step closes the other end of these streams."""
    before = Bars.step

    def step(self: Bars, done: int, total: int) -> None:
        if done == 1:
            reader, writer = os.pipe()
            for stream in streams:
                os.dup2(writer, stream)
            os.close(reader)
        before(self, done, total)

    Bars.step = step  # type: ignore[method-assign]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(("streams", "nohup"), [((1,), False), ((1, 2), False), ((1,), True)])
def test_a_full_disk_behind_the_output_takes_nothing_with_it(
    streams: tuple[int, ...], nohup: bool, launch, begin, undisturbed, bits, tmp_path: Path
) -> None:
    """`patchwords train --json > log`."""
    run = tmp_path / "run"
    process = launch(*begin(run), "--json", prepare=partial(full_after_a_step, streams, nohup))
    assert process.wait(SOON) == 5, process.said
    assert at_step(run) > 0
    if streams == (1,):
        assert "the output could not be written: No space left on device" in process.said
        assert re.search(r"stopped by output that finds no room after step \d+ of 24, and saved; `.*` ", process.said)
    assert launch(*begin(run)).wait() == 0
    assert bits(run) == undisturbed.bits


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_result_that_finds_no_room_is_no_success(launch, begin, undisturbed, bits, tmp_path: Path) -> None:
    """Also where the disk is full when there is nothing left to stop."""
    run = tmp_path / "run"

    def prepare() -> None:
        before = train.report

        def filled(*arguments: Any) -> Any:
            fill((1,))
            Bars(Output(True, False)).note("too late")
            return before(*arguments)

        train.report = filled  # type: ignore[assignment]

    process = launch(*begin(run), "--json", prepare=prepare)
    assert process.wait(SOON) == 5, process.said
    assert (run / "report.html").exists()
    assert bits(run) == undisturbed.bits


def full_after_a_step(streams: tuple[int, ...], nohup: bool) -> None:
    """From the first step on these streams lead to a full disk."""
    if nohup:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = Bars.step

    def step(self: Bars, done: int, total: int) -> None:
        if done == 1:
            fill(streams)
        before(self, done, total)

    Bars.step = step  # type: ignore[method-assign]


def fill(streams: tuple[int, ...]) -> None:
    disk = os.open("/dev/full", os.O_WRONLY)
    for stream in streams:
        os.dup2(disk, stream)
    os.close(disk)


@pytest.mark.parametrize("number", [*CODES, signal.SIGHUP])
def test_a_signal_to_the_whole_group_is_one_to_its_leader(
    number: int, launch, begin, undisturbed, bits, tmp_path: Path
) -> None:
    """As from a terminal, or twice from GNU timeout: the loader's processes get it too."""
    run = tmp_path / "run"
    process = launch(*begin(run), "--set", "data.workers=2")
    while process.step < 3:
        assert not process.ended(), process.said
        time.sleep(0.005)
    os.killpg(process.pid, number)
    if number == signal.SIGTERM:
        os.killpg(process.pid, number)
    assert process.wait(SOON) == 128 + number, process.said
    assert "and saved" in process.said
    assert launch(*begin(run)).wait() == 0
    assert bits(run) == undisturbed.bits


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_a_cache_is_filled_leaves_before_the_first_step(number: int, launch, begin, tmp_path) -> None:
    run, cached = tmp_path / "run", ("--set", "data.cache=memory")

    def prepare() -> None:
        before = Bars.working

        def working(self: Bars, what: str, done: int, total: int) -> None:
            if what.startswith("decoding"):
                os.kill(os.getpid(), number)
            before(self, what, done, total)

        Bars.working = working  # type: ignore[method-assign]

    process = launch(*begin(run), *cached, prepare=prepare)
    assert process.wait(SOON) == CODES[number], process.said
    assert process.step == 0
    assert launch(*begin(tmp_path / "run")).wait() == 0  # which resumes, since the folder says what the run is


def test_a_second_ctrl_c_leaves_at_once(launch, begin, undisturbed, bits, tmp_path) -> None:
    run = tmp_path / "run"

    def prepare() -> None:
        before = checkpoint._fill

        def twice(*arguments: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            before(*arguments)

        checkpoint._fill = twice  # type: ignore[assignment]

    process = launch(*begin(run), prepare=prepare)
    assert process.wait(SOON) == 130
    assert "saved" not in process.said
    assert launch(*begin(run)).wait() == 0
    assert bits(run) == undisturbed.bits
