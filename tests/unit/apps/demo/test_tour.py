"""The guided tour: its guarantees, and how a broken one is reported."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.apps.demo import tour as demo
from skerry.apps.demo.processes import DemoProcesses
from skerry.apps.demo.tour import Tour
from skerry.apps.top import NodeWatch
from skerry.errors import StartFailed


def tour(processes: DemoProcesses, messages: list[str], *, seconds: float = 1.0) -> Tour:
    return Tour(
        processes,
        report=messages.append,
        is_stopped=lambda: False,
        seconds=seconds,
        vessel_count=4,
        seed=1,
        has_tables=False,
    )


def test_guarantee_that_was_broken_once_stays_broken() -> None:
    with DemoProcesses() as processes:
        played = tour(processes, [])
    played._check("a", True, "first")
    played._check("b", True, "other")
    played._check("a", False, "second")
    played._check("a", True, "third")
    assert [(c.promise, c.holds, c.facts) for c in played.checks] == [
        ("b", True, "other"),
        ("a", False, "second"),
    ]


def test_ledger_with_unexplained_updates_breaks_a_guarantee(
    live_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "_LEDGER_S_MAX", 0.01)
    monkeypatch.setattr(NodeWatch, "wait_ledger", lambda *_: False)
    with DemoProcesses() as processes:
        played = tour(processes, [])
    with skerry.connect(live_node.place) as space:
        played._check_ledger(space)
    (check,) = played.checks
    assert not check.holds


def test_condition_that_times_out_ends_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "_WAIT_S_MAX", 0.01)
    with DemoProcesses() as processes:
        played = tour(processes, [])
    assert not played._wait(lambda: False)
    with pytest.raises(StartFailed, match="waiting for pigs to fly"):
        played._wait(lambda: False, "pigs to fly")


def test_endpoint_is_a_port_if_the_path_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with DemoProcesses() as processes:
        assert demo._endpoint(processes) == f"uds:{processes.path}/node.sock"
        monkeypatch.setattr(demo, "_SOCKET_CHARS_MAX", 5)
        assert demo._endpoint(processes).startswith("tcp://127.0.0.1:")
