"""The standard input of commands: lines as they arrive, until the end or a signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from skerry.cli import input as module
from skerry.cli.input import input_bytes, input_contents, input_lines
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.errors import LimitExceeded
from skerry.limits import PAYLOAD_BYTES_MAX

Fed = Callable[[bytes], None]


def test_lines_are_given_without_blank_ones(fed: Fed) -> None:
    fed(b"a\n\n  \nb\r\nc")
    assert list(input_lines(Stop())) == [b"a", b"b\r", b"c"]


def test_whole_input_is_given_as_it_is(fed: Fed) -> None:
    fed(b"a\n\nb")
    assert input_bytes(Stop()) == b"a\n\nb"


def test_line_is_given_before_the_next_one_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream, os.fdopen(writing, "wb", buffering=0) as sender:
        monkeypatch.setattr("sys.stdin", stream)
        lines = input_lines(Stop())
        sender.write(b"first\nsec")
        assert next(lines) == b"first"
        sender.write(b"ond\n")
        assert next(lines) == b"second"


def test_signal_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stream, os.fdopen(writing, "wb", buffering=0) as sender:
        monkeypatch.setattr("sys.stdin", stream)
        sender.write(b"half")
        with stop_on_signals() as stop:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
            assert list(input_lines(stop)) == []


def test_closed_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(OSError, match="standard input is closed"):
        input_bytes(Stop())


@pytest.mark.parametrize("read", [lambda: list(input_lines(Stop())), lambda: input_bytes(Stop())])
def test_piece_may_be_as_long_as_an_object_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[], object]
) -> None:
    assert vars(module)["PAYLOAD_BYTES_MAX"] == PAYLOAD_BYTES_MAX
    monkeypatch.setattr(module, "PAYLOAD_BYTES_MAX", 200_000)
    for size, is_bad in ((200_000, False), (200_001, True)):
        path = tmp_path / f"{size}"
        path.write_bytes(b"x" * size)
        with path.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            if is_bad:
                with pytest.raises(LimitExceeded):
                    read()
            else:
                assert read() in ([b"x" * size], b"x" * size)


def test_given_data_is_one_piece(fed: Fed, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\0\1")
    fed(b"a\nb\n")
    pieces = {
        "text": b"text",
        "": b"",
        f"@{tmp_path / 'file'}": b"\0\1",
        "hex:00fF": b"\0\xff",
        "-": b"a\nb\n",
    }
    for given, piece in pieces.items():
        assert list(input_contents(given, Stop())) == [piece]


def test_without_anything_given_each_line_is_a_piece(fed: Fed) -> None:
    fed(b"a\nb\n")
    assert list(input_contents(None, Stop())) == [b"a", b"b"]


@pytest.mark.parametrize("given", ["hex:0", "hex:xy"])
def test_invalid_hex_is_reported(given: str) -> None:
    with pytest.raises(click.UsageError, match="is not hex"):
        list(input_contents(given, Stop()))
