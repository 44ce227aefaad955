"""Progress bars appear on a terminal only."""

from __future__ import annotations

import io

import pytest

from skerry.cli.output import CliConfig, Output
from skerry.cli.progress import progress_bar


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


def test_bar_is_not_shown_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), CliConfig(progress=False)) == ""
