"""Ctrl-C and SIGTERM are wishes: heard, answered between two steps, and told in the exit code."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from patchwords.errors import PatchwordsError
from patchwords.training.signals import MUTED, StoppedError, Wish, deserted, listening, muted


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_leaves_with_128_and_the_signal(number: int, code: int) -> None:
    error = StoppedError(number, "stopped and saved")
    assert isinstance(error, PatchwordsError)
    assert error.exit_code == code
    assert str(error) == "stopped and saved"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_becomes_a_wish_and_nothing_else(number: int) -> None:
    with listening() as wish:
        assert wish.number == 0
        os.kill(os.getpid(), number)
        assert wish.number == number


def test_a_terminal_that_hangs_up_is_not_heard_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with listening() as wish:
            os.kill(os.getpid(), signal.SIGHUP)
            assert deserted()  # and the run goes on without being seen
        assert wish.number == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_that_nobody_reads_any_more_hears_of_it_as_if_the_terminal_hung_up() -> None:
    assert not deserted()  # nobody listens
    with listening() as wish:
        assert deserted()
    assert wish.number == signal.SIGHUP


def test_a_run_whose_words_find_no_room_hears_of_it_and_leaves_as_where_a_disk_is_full() -> None:
    assert not muted()  # nobody listens
    with listening() as outer, listening() as wish:
        assert muted()
    assert (outer.number, wish.number) == (0, MUTED)
    assert StoppedError(MUTED, "stopped and saved").exit_code == 5
    assert not muted()


def test_whoever_listened_before_listens_again_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with listening() as wish:
        assert signal.getsignal(signal.SIGTERM) == wish.hear
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    with pytest.raises(ValueError, match="any"), listening():
        raise ValueError("any")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_listening_within_listening_goes_back_one_at_a_time() -> None:
    with listening() as outer:
        with listening() as inner:
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
    assert (outer.number, inner.number) == (signal.SIGINT, signal.SIGTERM)


def test_a_second_ctrl_c_leaves_at_once() -> None:
    with listening() as wish:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(SystemExit) as caught:
            os.kill(os.getpid(), signal.SIGINT)
    assert caught.value.code == 130
    assert wish.number == signal.SIGINT


def test_a_second_sigterm_does_not_since_it_often_comes_twice_by_itself() -> None:
    with listening() as wish:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert wish.number == signal.SIGTERM


def test_ctrl_c_after_sigterm_is_heard_and_a_further_one_leaves() -> None:
    with listening() as wish:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert wish.number == signal.SIGINT
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGINT)


def test_another_thread_keeps_what_is_there() -> None:
    before, heard = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with listening() as wish:
            heard.append((wish.number, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert heard == [(0, before)]


def test_a_wish_alone_can_be_made_by_hand() -> None:
    wish = Wish()
    wish.hear(signal.SIGTERM, None)
    assert wish.number == 15


def test_the_wish_is_heard_while_something_else_waits() -> None:
    code = """
import os, signal, threading, time
from patchwords.training.signals import listening
with listening() as wish:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(0.3)
    print(wish.number)
"""
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    assert told.stdout.strip() == "2"
