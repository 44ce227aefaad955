"""The trace: hashed as it grows, remembered at its end only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pytest

from skerry.protocol.machine import MachineEvent
from skerry.testing.trace import Trace
from skerry.tracing import trace_line
from tests.sim.probe import Heard


def test_the_digest_is_the_hash_of_all_lines_however_they_were_rolled() -> None:
    lines = [f"line {n}" for n in range(5000)]
    trace = Trace()
    for line in lines:
        trace.lines.append(line)
        if trace.is_full:
            trace.roll()
    expected = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
    assert trace.digest() == expected
    assert trace.digest() == expected


def test_only_the_last_lines_are_kept() -> None:
    trace = Trace()
    for n in range(5000):
        trace.lines.append(str(n))
        if trace.is_full:
            trace.roll()
    assert trace.tail(3) == ["4997", "4998", "4999"]
    assert len(trace.tail(1024)) == 1024
    assert len(trace.lines) + len(trace._previous) <= 2 * 1024


def test_a_sink_gets_every_line_once() -> None:
    taken: list[str] = []
    trace = Trace(taken.append)
    for n in range(3000):
        trace.lines.append(str(n))
        if trace.is_full:
            trace.roll()
    trace.digest()
    assert taken == [str(n) for n in range(3000)]


def test_events_with_sets_and_values_inside_have_one_form_only() -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Members(MachineEvent):
        names: frozenset[str]
        peers: tuple[Heard, ...]

    event = Members(names=frozenset({"c", "a", "b"}), peers=(Heard(data=b"x", source="s"),))
    assert trace_line(event, _node="n") == (
        '{"_node":"n","event":"Members","names":["a","b","c"],"peers":[{"data":"78","source":"s"}]}'
    )


def test_asking_for_more_than_is_kept_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Trace().tail(1025)
