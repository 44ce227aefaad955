"""Keys of a terminal."""

from __future__ import annotations

import io
import os
import pty
import termios
import threading

import pytest

from skerry.cli.keys import has_keys, key_presses


def test_keys_are_read_without_a_line_and_the_terminal_is_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = pty.openpty()
    pressed: list[str] = []
    is_there = threading.Event()

    def press(key: str) -> None:
        pressed.append(key)
        if len(pressed) == 2:
            is_there.set()

    with os.fdopen(theirs, "r+b", buffering=0) as raw, os.fdopen(ours, "wb", buffering=0) as typed:
        terminal = io.TextIOWrapper(raw, write_through=True)
        monkeypatch.setattr("sys.stdin", terminal)
        monkeypatch.setattr("sys.stderr", terminal)
        assert has_keys()
        before = termios.tcgetattr(theirs)
        with key_presses(press):
            typed.write(b"sq")
            assert is_there.wait(10)
        assert termios.tcgetattr(theirs) == before
        monkeypatch.undo()
    assert pressed == ["s", "q"]


def test_a_pipe_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert not has_keys()
