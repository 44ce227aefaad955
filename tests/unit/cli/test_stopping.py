"""Signals end long-running commands orderly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from skerry.cli.stopping import Stop, stop_on_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_asks_for_the_end(number: signal.Signals) -> None:
    with stop_on_signals() as stop:
        assert not stop.is_requested
        os.kill(os.getpid(), number)
        assert stop.is_requested


def test_second_signal_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(LookupError), stop_on_signals():
        raise LookupError
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_stop_can_be_requested_without_a_signal() -> None:
    stop = Stop()
    stop.request()
    assert stop.is_requested


LOOP = """
from skerry.cli.stopping import stop_on_signals
with stop_on_signals() as stop:
    print("ready", flush=True)
    while not stop.is_requested:
        pass
print("ended", flush=True)
"""


@pytest.mark.slow
def test_background_job_of_a_shell_ends_on_sigint_although_it_was_ignored() -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", LOOP],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    with job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(signal.SIGINT)
        assert job.stdout.read() == "ended\n"
    assert job.returncode == 0
