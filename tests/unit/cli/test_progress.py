"""Progress bars appear on a terminal only."""

from __future__ import annotations

import io

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
