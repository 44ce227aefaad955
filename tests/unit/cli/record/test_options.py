"""Parameter types and options that the commands for recordings share."""

from __future__ import annotations

import builtins
import os
import signal
import sys
from typing import Any

import click
import pytest

from skerry.cli.output import Output
from skerry.cli.parameters import Instant
from skerry.cli.record.options import (
    Age,
    Size,
    group_options,
    opened,
    row_progress,
    selection_options,
    shown_size,
    shown_time,
)
from skerry.errors import RecordingError


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Age(), "90s", 90.0),
        (Age(), "1.5h", 5400.0),
        (Age(), "7d", 604_800.0),
        (Size(), "100", 100),
        (Size(), "2K", 2048),
        (Size(), "3G", 3 << 30),
        (Size(), "1MiB", 1 << 20),
        (Instant(), "2023-11-14T22:13:20Z", 1_700_000_000_000_000_000),
        (Instant(), "1700000000000000001", 1_700_000_000_000_000_001),
    ],
)
def test_values_are_read(kind: Any, text: str, value: float) -> None:
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Age(), "7"),
        (Age(), "-1d"),
        (Age(), "0s"),
        (Size(), "x"),
        (Size(), "1P"),
        (Size(), "0"),
        (Instant(), "2023-11-14"),
    ],
)
def test_invalid_values_are_rejected(kind: Any, text: str) -> None:
    with pytest.raises(click.BadParameter):
        kind.convert(text, None, None)


def test_sizes_and_times_are_shown_with_units() -> None:
    assert [shown_size(size) for size in (5, 2048, 3 << 20, 5 << 40)] == [
        "5 B",
        "2.0 KiB",
        "3.0 MiB",
        "5120.0 GiB",
    ]
    assert shown_time(0) == ""
    assert shown_time(1_700_000_000_500_000_000) == "2023-11-14T22:13:20.5Z"
    assert shown_time(1_700_000_000_000_000_000) == "2023-11-14T22:13:20Z"
    assert shown_time(10**19) == "2286-11-20T17:46:40Z"
    assert shown_time(10**30) == str(10**30), "no calendar reaches there"


def test_options_are_those_that_were_promised() -> None:
    @click.command()
    @selection_options
    @group_options
    def command(**_given: object) -> None: ...

    names = [option for parameter in command.params for option in parameter.opts]
    assert names[:5] == ["--from", "--to", "-t", "--types", "--subjects"]
    assert "--multicast" in names


def test_progress_runs_from_0_to_1(monkeypatch: pytest.MonkeyPatch) -> None:
    amounts: list[float] = []

    class Bar:
        def __enter__(self) -> Any:
            return amounts.append

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("skerry.cli.record.options.progress_bar", lambda *_, **__: Bar())
    with row_progress(Output(), "x") as tell:
        tell(1, 4)
        tell(4, 4)
        tell(0, 0)
    assert amounts == [0.25, 0.75, 0.0]


def test_a_signal_interrupts_between_two_steps() -> None:
    with row_progress(Output(), "x") as tell:
        tell(1, 4)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            tell(2, 4)


@pytest.mark.parametrize(("from_ns", "to_ns"), [("20000", "20000"), ("20001", "20000")])
def test_a_time_that_ends_before_it_begins_is_refused(from_ns: str, to_ns: str) -> None:
    @click.command()
    @selection_options
    def command(**_given: object) -> None: ...

    with pytest.raises(click.UsageError, match="must be before"):
        command.main(["--from", from_ns, "--to", to_ns], standalone_mode=False)
    command.main(["--from", "20000", "--to", "20001"], standalone_mode=False)


def test_missing_pyarrow_has_a_hint_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("pyarrow", "skerry.runtime.recordings.reader")):
            monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def missing(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ImportError(name="pyarrow")
        return original(name, *args)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(RecordingError, match="pyarrow") as caught:
        opened("x")
    assert caught.value.hint == "install skerry[recording]"
