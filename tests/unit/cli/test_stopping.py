"""Signals end long-running commands orderly."""

from __future__ import annotations

import os
import pty
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


def test_first_signal_is_answered_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with stop_on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert capfd.readouterr().err == "stopping; once more to interrupt\n"


def test_on_a_terminal_the_answer_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with stop_on_signals():
            os.kill(os.getpid(), signal.SIGINT)
        assert screen.read(100) == b"\r\nstopping; once more to interrupt\r\n"


def test_closed_stderr_does_not_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream, stop_on_signals() as stop:
        monkeypatch.setattr("sys.stderr", stream)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_requested


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
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    with job:
        assert job.stdout is not None
        assert job.stderr is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(signal.SIGINT)
        assert job.stdout.read() == "ended\n"
        assert job.stderr.read() == "stopping; once more to interrupt\n"
    assert job.returncode == 0


DEAF = """
import ctypes, threading
from skerry.cli.stopping import stop_on_signals
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
library.pthread_mutex_init(mutex, None)
library.pthread_mutex_lock(mutex)
with stop_on_signals():
    # Said when the main thread is inside the library.
    threading.Timer(0.5, lambda: print("ready", flush=True)).start()
    library.pthread_mutex_lock(mutex)
"""


@pytest.mark.slow
def test_command_that_is_inside_a_library_is_answered_for_and_ended_by_the_second_signal() -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", DEAF],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    with job:
        try:
            assert job.stdout is not None
            assert job.stderr is not None
            assert job.stdout.readline() == "ready\n"
            job.send_signal(signal.SIGINT)
            assert job.stderr.readline() == "stopping; once more to interrupt\n"
            job.send_signal(signal.SIGTERM)
            assert job.wait(timeout=30) == 1
            arguments = "error: interrupted while waiting for something that does not answer\n"
            assert job.stderr.read() == arguments
        finally:
            job.kill()


LATE = """
import ctypes, os, signal, sys, threading, time
from skerry.cli.stopping import stop_on_signals
library, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(128)
library.pthread_mutex_init(mutex, None)
library.pthread_mutex_lock(mutex)
with stop_on_signals() as stop:
    def send():
        os.kill(os.getpid(), signal.SIGTERM)
        while not stop.is_requested:
            time.sleep(0.01)
        library.pthread_mutex_unlock(mutex)
    # Sent when the main thread is inside the library.
    threading.Timer(1, send).start()
    library.pthread_mutex_lock(mutex)
    # Python calls the handler here, after the signal was acknowledged by the thread.
    for _ in range(100):
        time.sleep(0.001)
print("ended", flush=True)
"""


@pytest.mark.slow
def test_handler_that_is_called_late_does_not_count_as_a_second_signal() -> None:
    line = [sys.executable, "-c", LATE]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert done.stderr == "stopping; once more to interrupt\n"
