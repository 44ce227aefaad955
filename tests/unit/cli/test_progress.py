"""Progress bars appear on a terminal only."""

from __future__ import annotations

import io
import re

import pytest

from skerry.cli.output import CliConfig, Output
from skerry.cli.progress import progress_bar, status_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, config: CliConfig) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar(Output(config), "seeds", total=3) as advance:
        advance(1)
        advance(2)
    return stream.getvalue()


def test_bar_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), CliConfig(color="never"))
    assert "seeds" in text
    assert "3/3" in text


def test_messages_have_lines_of_their_own_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    output = Output(CliConfig(color="never"))
    with progress_bar(output, "seeds", total=3) as advance:
        advance(1)
        output.note("1. a node: [it] starts")
        output.error("no node")
    output.note("the end")
    # Without the codes that move the cursor, each message begins and ends a line.
    lines = re.sub(r"\x1b\[[\d?]*[A-Za-z]", "", stream.getvalue()).replace("\r", "\n").splitlines()
    assert {"1. a node: [it] starts", "error: no node", "the end"} <= set(lines)


def test_bar_is_not_shown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), CliConfig()) == ""


def test_bar_is_not_shown_if_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), CliConfig(progress=False)) == ""


@pytest.mark.parametrize(("stream", "is_shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_status_line_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, is_shown: bool
) -> None:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with status_line(Output(CliConfig(color="never")), "recording") as show:
        show("5 rows")
    assert ("5 rows" in stream.getvalue()) == is_shown
