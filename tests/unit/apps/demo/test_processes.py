"""The processes of the demo: orders, events, and their end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.demo.processes import DemoProcess, DemoProcesses
from skerry.errors import StartFailed, StopTimedOut

ECHO = """
import json, sys
print(json.dumps({"event": "ready"}), flush=True)
for line in sys.stdin:
    if line == "end\\n":
        break
    print(json.dumps({"event": "echo", "order": line.strip()}), flush=True)
"""


def is_running(number: int) -> bool:
    """Whether a process is there and did not just end."""
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture
def echo() -> Any:
    with DemoProcesses() as processes:
        program = processes.start("echo", "-c", ECHO)
        program.wait_event("ready")
        yield program


def test_program_receives_orders_and_reports_events(echo: DemoProcess) -> None:
    for order in ("one", "two", "three"):
        echo.send_order(order)
    assert echo.wait_event("echo", lambda line: line["order"] == "two")["order"] == "two"
    assert echo.wait_event("echo", after=2)["order"] == "three"
    assert [line["order"] for line in echo.events("echo")] == ["one", "two", "three"]
    assert echo.wait_end() == 0


def test_all_lines_of_a_program_are_kept(echo: DemoProcess) -> None:
    echo.send_order("one")
    echo.wait_event("echo")
    assert [line["event"] for line in echo.lines()] == ["ready", "echo"]


def test_program_that_is_done_by_itself_is_waited_for() -> None:
    with DemoProcesses() as processes:
        program = processes.start("counter", "-c", 'print("{}")')
        program.finish(30.0)
        assert program.lines() == [{}]
        failed = processes.start("failed", "-c", 'import sys; sys.exit("no luck")')
        with pytest.raises(StartFailed, match="failed with 1; last line of its log: no luck"):
            failed.finish(30.0)


def test_program_that_ends_on_a_signal_gives_its_code(echo: DemoProcess) -> None:
    echo.signal(signal.SIGSTOP)
    echo.signal(signal.SIGCONT)
    assert echo.end() in (0, -signal.SIGTERM)


def test_killed_program_has_ended(echo: DemoProcess) -> None:
    number = echo.number
    echo.kill()
    assert not is_running(number)
    echo.send_order("anything")  # The process has ended: nothing happens.


def test_missing_event_is_an_error_with_the_last_log_line(echo: DemoProcess) -> None:
    with pytest.raises(
        StartFailed, match=r"echo did not report 'more' within 0\.01 s; its log is empty"
    ):
        echo.wait_event("more", timeout_s=0.01)
    with DemoProcesses() as processes:
        dying = processes.start("dying", "-c", "import sys; sys.exit('no luck today')")
        with pytest.raises(StartFailed, match="last line of its log: no luck today"):
            dying.wait_event("ready")


def test_program_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = f"import signal; signal.signal(15, signal.SIG_IGN)\n{ECHO}\nsignal.pause()"
    with DemoProcesses() as processes:
        program = processes.start("deaf", "-c", deaf)
        program.wait_event("ready")
        monkeypatch.setattr("skerry.apps.demo.processes._END_S_MAX", 0.01)
        with pytest.raises(StopTimedOut, match="deaf did not end"):
            program.end()
        monkeypatch.undo()


def test_all_programs_and_the_folder_are_removed_after_a_failure() -> None:
    numbers: list[int] = []
    with pytest.raises(ZeroDivisionError), DemoProcesses() as processes:
        numbers += [processes.start(name, "-c", ECHO).number for name in ("one", "two")]
        raise ZeroDivisionError
    assert not any(map(is_running, numbers))
    assert not processes.path.exists()


def test_programs_do_not_use_the_node_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKERRY_ENDPOINT", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOTS_AUTH_SECRET", "s")
    report = "import json, os; print(json.dumps({'event': 'environ', **os.environ}))"
    with DemoProcesses() as processes:
        environ = processes.start("environ", "-c", report).wait_event("environ")
        assert environ["SKERRY_RUNTIME_DIR"].startswith(str(processes.path))
    assert "SKERRY_ENDPOINT" not in environ
    assert "DOTS_AUTH_SECRET" not in environ


TOUR = """
import sys
from skerry.apps.demo.processes import DemoProcesses
with DemoProcesses() as processes:
    print(processes.start("sleeper", "-c", "import signal; signal.pause()").number, flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of it")
def test_programs_end_when_the_tour_is_killed() -> None:
    tour = subprocess.Popen(
        [sys.executable, "-c", TOUR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with tour:
        assert tour.stdout is not None
        number = int(tour.stdout.readline())
        watched = os.pidfd_open(number)
        try:
            tour.kill()
            tour.wait()
            # Readable when the process has ended.
            assert select.select([watched], [], [], 30)[0]
        finally:
            os.close(watched)
