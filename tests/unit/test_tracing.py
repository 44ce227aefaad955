"""Trace events and the lines they become."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, TraceEvent, trace_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(TraceEvent):
    names: frozenset[str]
    data: bytes


def test_line_has_the_event_its_fields_and_the_facts() -> None:
    event = DatagramDropped(now_ns=5, source="a", reason=DropReason.DUPLICATE)
    assert json.loads(trace_line(event, node=3)) == {
        "event": "DatagramDropped",
        "node": 3,
        "now_ns": 5,
        "reason": "duplicate",
        "source": "a",
    }


def test_line_is_one_line_with_sorted_names() -> None:
    line = trace_line(DatagramDropped(now_ns=5, source="a\nb", reason=DropReason.MALFORMED))
    assert line.count("\n") == 0
    assert list(json.loads(line)) == sorted(json.loads(line))


def test_bytes_are_shown_in_hex_and_sets_in_order() -> None:
    row = json.loads(trace_line(Seen(now_ns=0, names=frozenset({"b", "a", "c"}), data=b"\x01\xff")))
    assert row["names"] == ["a", "b", "c"]
    assert row["data"] == "01ff"


@pytest.mark.slow
def test_the_same_event_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "from skerry.tracing import *; from dataclasses import dataclass\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Seen(TraceEvent):\n    names: frozenset[str]\n"
        "print(trace_line(Seen(now_ns=0, names=frozenset('abcdefgh'))))"
    )
    lines = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(lines) == 1


def test_each_drop_reason_has_its_own_name() -> None:
    assert len({reason.value for reason in DropReason}) == len(DropReason)


def test_without_a_tracer_events_are_discarded() -> None:
    NO_TRACE.emit(TraceEvent(now_ns=1))
