"""`skerry top`, on a real node."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import skerry
from skerry.apps.top import ClientLine, Counts, NodeSnapshot, PeerLine, TypeLine
from skerry.cli import top as module
from skerry.cli.output import Output
from skerry.cli.top_screen import View
from tests.unit.apps.test_system_watch import LINK

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


def peer(name: str, **facts: Any) -> PeerLine:
    usual: dict[str, Any] = {
        "id": 2,
        "state": "alive",
        "is_elected": False,
        "in_per_s": 7.0,
        "resent_per_s": 1.0,
        "round_trip_s": 0.0015,
        "lag_s": 0.0,
        "backlog_bytes": 4321,
        "clock_offset_s": -0.25,
    }
    return PeerLine(name=name, **{**usual, **facts})


UNKNOWN = dict.fromkeys(("round_trip_s", "lag_s", "backlog_bytes", "clock_offset_s"))
SYSTEM = replace(
    PICTURE,
    system="bay",
    peers=(
        peer("quay", is_elected=True),
        peer("tug", id=3, lag_s=2.5),
        peer("dock", id=4, state="dead (silent)", **UNKNOWN),
    ),
    links=(replace(LINK, observer=2, node=3, observer_name="quay", node_name="tug"), LINK),
    problems=("dock is excluded: silent",),
)


def test_the_other_nodes_of_a_system_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    module._print_lines(Output(), SYSTEM, View())
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "problem dock is excluded: silent"
    assert lines[2] == (
        "peer quay elected alive in/s=7 resent/s=1 round_trip_ms=1.5 lag_s=0.000"
        " backlog_bytes=4321 clock_s=-0.250"
    )
    assert lines[4] == "peer dock dead (silent) in/s=7 resent/s=1"
    links = [line for line in lines if line.startswith("link ")]
    assert links == ["link quay to tug alive round_trip_ms=0.5 lag_s=0.000 backlog_bytes=0"], (
        "the links of this node are its peers"
    )


@pytest.fixture
def harbour(node: Any) -> Iterator[Any]:
    """A node with a vessel."""
    types = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }")
    with skerry.connect(node.place, name="fleet") as space:
        space.publish(types.Vessel(mmsi=1))
        space.flush()
        yield node


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
    assert "skerry-top" not in run("top", "--count", "1").out
    done = run("top", "--count", "1", "--all")
    assert done.out.startswith("node harbour, connected, up ")
    assert re.search(r"^client \d+ skerry-top connected in/s=", done.out, re.MULTILINE)
    assert re.search(r"^type Vessel objects=1 .* unexplained=0$", done.out, re.MULTILINE)
    assert re.search(r"^client \d+ fleet .* out_bytes/s=\d+ queued_bytes=0", done.out, re.MULTILINE)


def test_lines_omit_disconnected_clients(capsys: pytest.CaptureFixture[str]) -> None:
    module._print_lines(Output(), PICTURE, View())
    out = capsys.readouterr().out
    assert "node harbour, connected, up 1d 02:03:04, 12 objects, 100 in/s" in out
    assert "client 2 fleet" in out
    assert "gone" not in out
    assert "unexplained=3" in out


@pytest.mark.slow
def test_on_a_terminal_a_signal_ends_it(
    run: Run, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    shown_count = 0

    def snapshot(*_arguments: Any, **_facts: Any) -> NodeSnapshot:
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


def test_q_ends_it_and_keys_change_the_order(
    run: Run, node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    shown: list[str] = []

    def screen(_snapshot: NodeSnapshot, view: View, **_size: int) -> str:
        shown.append(f"{view.sort} {view.shows_all} {view.keys}")
        press = {1: b"b", 2: b"a", 3: b"q"}.get(len(shown))
        if press is not None:
            os.write(ours, press)
        return ""

    monkeypatch.setattr(module, "screen", screen)
    monkeypatch.setattr("skerry.apps.top.NodeWatch.wait_ledger", lambda *_: True)
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(theirs, "r+b", buffering=0) as raw, os.fdopen(ours, "rb", buffering=0):
        terminal = io.TextIOWrapper(raw, write_through=True)
        for name in ("stdin", "stdout", "stderr"):
            monkeypatch.setattr(f"sys.{name}", terminal)
        assert run("top", "--interval", "60").code == 0
        monkeypatch.undo()
    assert shown[0].startswith("rate False q quit")
    assert shown[1].startswith("bytes False")
    assert shown[2].startswith("bytes True")
