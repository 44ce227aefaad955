"""`skerry top`, on a real node."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

import skerry
from skerry.apps.top import ClientLine, Counts, NodeSnapshot, TypeLine
from skerry.cli import top as module

Run = Callable[..., Any]

PICTURE = NodeSnapshot(
    node="harbour",
    state="connected",
    uptime_s=93_784.0,
    object_count=12,
    received_per_s=100.4,
    sent_per_s=200.0,
    memory_bytes_max=50_000_000,
    cpu_s=1.5,
    unexplained=3,
    clients=(
        ClientLine(
            id=2,
            name="fleet",
            state="connected",
            published_types=("Vessel",),
            subscribed_types=(),
            in_per_s=10.0,
            out_per_s=0.0,
            queued_bytes=0,
            ledger=None,
        ),
        ClientLine(
            id=3,
            name="gone",
            state="closed",
            published_types=(),
            subscribed_types=(),
            in_per_s=0.0,
            out_per_s=0.0,
            queued_bytes=0,
            ledger=None,
        ),
    ),
    types=tuple(
        TypeLine(
            name=f"Type{number:02}",
            object_count=number,
            member_count=1,
            publishers=(),
            in_per_s=float(number),
            out_per_s=0.0,
            ledger=Counts(due=5, delivered=2, unexplained=3),
        )
        for number in range(30)
    ),
)


@pytest.fixture
def harbour(node: Any) -> Iterator[Any]:
    """A node with a vessel."""
    types = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }")
    with skerry.connect(node.place, name="fleet") as space:
        space.publish(types.Vessel(mmsi=1))
        space.flush()
        yield node


def rendered(height: int, *, width: int = 160) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    console.print(module._rendered(PICTURE, height=height, width=width))
    return stream.getvalue()


@pytest.mark.slow
def test_json_is_one_object_a_refresh(run: Run, harbour: Any) -> None:
    done = run("top", "--json", "--count", "2", "--interval", "0.1")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, len(rows)) == (0, 2)
    for row in rows:
        assert row["node"] == "harbour"
        assert row["unexplained"] == 0
        assert [client["name"] for client in row["clients"]] == ["fleet", "skerry-top"]
        vessel = next(line for line in row["types"] if line["name"] == "Vessel")
        assert (vessel["object_count"], vessel["ledger"]["accepted"]) == (1, 1)


@pytest.mark.slow
def test_piped_it_gives_plain_lines(run: Run, harbour: Any) -> None:
    done = run("top", "--count", "1")
    assert done.out.startswith("node harbour, connected, up ")
    assert re.search(r"^client \d+ skerry-top connected in/s=", done.out, re.MULTILINE)
    assert re.search(r"^type Vessel objects=1 .* unexplained=0$", done.out, re.MULTILINE)


def test_lines_omit_disconnected_clients(capsys: pytest.CaptureFixture[str]) -> None:
    from skerry.cli.output import Output

    module._print_lines(Output(), PICTURE)
    out = capsys.readouterr().out
    assert "node harbour, connected, up 1d 02:03:04, 12 objects, 100 in/s" in out
    assert "client 2 fleet" in out
    assert "gone" not in out
    assert "unexplained=3" in out


@pytest.mark.parametrize("height", [10, 24, 60])
def test_table_fits_the_terminal_with_the_busiest_first(height: int) -> None:
    shown = rendered(height)
    assert len(shown.splitlines()) <= max(height, 18)
    assert "Type29" in shown
    assert ("Type00" in shown) == (height == 60)


def test_narrow_terminal_omits_columns_of_zeros() -> None:
    shown = rendered(60, width=80)
    assert "delivered" in shown
    assert "unexplained" in shown
    assert "conflated" not in shown
    assert "conflated" in rendered(60, width=200)


@pytest.mark.slow
def test_on_a_terminal_a_signal_ends_it(
    run: Run, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    shown_count = 0

    def snapshot(*_arguments: Any) -> NodeSnapshot:
        nonlocal shown_count
        shown_count += 1
        if shown_count == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return PICTURE

    monkeypatch.setattr("skerry.apps.top.NodeWatch.snapshot", snapshot)
    monkeypatch.setattr("skerry.apps.top.NodeWatch.wait_ledger", lambda *_: True)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        assert run("top", "--interval", "0.1").code == 0
        terminal.flush()
        shown = screen.read(65536).decode(errors="replace")
    assert "harbour" in shown


def test_interval_must_make_sense(run: Run) -> None:
    assert run("top", "--interval", "0").code == 2
    assert run("top", "--interval", "nan").code == 2
