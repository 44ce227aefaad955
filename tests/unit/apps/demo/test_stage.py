"""Where the demo plays: its processes do as they are told, and end with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.demo.stage import DemoProgram, DemoStage
from skerry.errors import StartFailed, StopTimedOut

ECHO = """
import json, sys
print(json.dumps({"say": "ready"}), flush=True)
for line in sys.stdin:
    if line == "end\\n":
        break
    print(json.dumps({"say": "echo", "order": line.strip()}), flush=True)
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
    with DemoStage() as stage:
        program = stage.start("echo", "-c", ECHO)
        program.wait_said("ready")
        yield program


def test_program_hears_orders_and_is_heard(echo: DemoProgram) -> None:
    for order in ("one", "two", "three"):
        echo.tell(order)
    assert echo.wait_said("echo", lambda line: line["order"] == "two")["order"] == "two"
    assert echo.wait_said("echo", after=2)["order"] == "three"
    assert [line["order"] for line in echo.said("echo")] == ["one", "two", "three"]
    assert echo.wait_end() == 0


def test_all_that_a_program_said_is_kept(echo: DemoProgram) -> None:
    echo.tell("one")
    echo.wait_said("echo")
    assert [line["say"] for line in echo.lines()] == ["ready", "echo"]


def test_program_that_is_done_by_itself_is_waited_for() -> None:
    with DemoStage() as stage:
        program = stage.start("counter", "-c", 'print("{}")')
        program.finish(30.0)
        assert program.lines() == [{}]
        failed = stage.start("failed", "-c", 'import sys; sys.exit("no luck")')
        with pytest.raises(StartFailed, match="failed with 1; its last words: no luck"):
            failed.finish(30.0)


def test_program_that_ends_on_a_signal_gives_its_code(echo: DemoProgram) -> None:
    echo.signal(signal.SIGSTOP)
    echo.signal(signal.SIGCONT)
    assert echo.end() in (0, -signal.SIGTERM)


def test_program_that_is_killed_is_gone(echo: DemoProgram) -> None:
    number = echo.number
    echo.kill()
    assert not is_running(number)
    echo.tell("anything")  # nobody hears it


def test_what_is_never_said_is_an_error_with_the_last_words(echo: DemoProgram) -> None:
    with pytest.raises(StartFailed, match="echo did not say 'more'; it left no word"):
        echo.wait_said("more", timeout_s=0.01)
    with DemoStage() as stage:
        dying = stage.start("dying", "-c", "import sys; sys.exit('no luck today')")
        with pytest.raises(StartFailed, match="its last words: no luck today"):
            dying.wait_said("ready")


def test_program_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = f"import signal; signal.signal(15, signal.SIG_IGN)\n{ECHO}\nsignal.pause()"
    with DemoStage() as stage:
        program = stage.start("deaf", "-c", deaf)
        program.wait_said("ready")
        monkeypatch.setattr("skerry.apps.demo.stage._END_S_MAX", 0.01)
        with pytest.raises(StopTimedOut, match="deaf did not end"):
            program.end()
        monkeypatch.undo()


def test_all_programs_and_the_folder_are_gone_after_a_failure() -> None:
    numbers: list[int] = []
    with pytest.raises(ZeroDivisionError), DemoStage() as stage:
        numbers += [stage.start(name, "-c", ECHO).number for name in ("one", "two")]
        raise ZeroDivisionError
    assert not any(map(is_running, numbers))
    assert not stage.path.exists()


def test_programs_do_not_use_the_node_of_who_runs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKERRY_ENDPOINT", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOTS_AUTH_SECRET", "s")
    tell = "import json, os; print(json.dumps({'say': 'environ', **os.environ}))"
    with DemoStage() as stage:
        environ = stage.start("environ", "-c", tell).wait_said("environ")
        assert environ["SKERRY_RUNTIME_DIR"].startswith(str(stage.path))
    assert "SKERRY_ENDPOINT" not in environ
    assert "DOTS_AUTH_SECRET" not in environ


TOUR = """
import sys
from skerry.apps.demo.stage import DemoStage
with DemoStage() as stage:
    print(stage.start("sleeper", "-c", "import signal; signal.pause()").number, flush=True)
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
