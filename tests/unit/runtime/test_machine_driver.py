"""The driver of a machine: its turns, its timer and the wall clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from skerry.protocol.machine import MachineEvent
from skerry.runtime import machine_driver
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.machine_driver import DrivenMachine, MachineDriver, WallClockWatch

MS = 1_000_000
HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced(MachineEvent):
    count: int


class Alarm:
    """A machine that is due a number of times."""

    def __init__(self, count: int) -> None:
        self.left_count = count
        self.due_ns: int | None = monotonic_ns()
        self.offsets_ns: list[int] = []
        self._events: list[MachineEvent] = []

    def advance(self, now_ns: int) -> None:
        assert self.due_ns is not None
        assert now_ns >= self.due_ns
        self.left_count -= 1
        self._events.append(Advanced(count=self.left_count))
        self.due_ns = now_ns + MS if self.left_count else None

    def take_events(self) -> list[MachineEvent]:
        events, self._events = self._events, []
        return events

    def deadline_ns(self) -> int | None:
        return self.due_ns

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        self.offsets_ns.append(wall_offset_ns)


class Turns:
    """A driver, and the order of what it calls."""

    def __init__(self, machine: Alarm) -> None:
        self.calls: list[str] = []
        self.inputs: list[bytes] = []
        self.over = asyncio.Event()
        self.machine = machine
        self.on_events: Callable[[], None] | None = None
        driven: DrivenMachine = machine
        self.driver = MachineDriver(
            driven, take_input=self._take_input, send=self._send, on_events=self._report
        )

    def _take_input(self, now_ns: int) -> bool:
        self.calls.append("input")
        if self.inputs:
            self.inputs.pop()
        return bool(self.inputs)

    def _send(self) -> None:
        self.calls.append("send")

    def _report(self, events: Sequence[MachineEvent]) -> None:
        self.calls += ["event"] * len(events)
        if self.on_events is not None:
            self.on_events()
        if not self.machine.left_count:
            self.over.set()


def test_machine_is_advanced_at_its_deadlines_and_its_events_are_handed_over() -> None:
    async def main() -> None:
        turns = Turns(Alarm(3))
        turns.driver.wake()
        await turns.over.wait()
        turns.driver.close()
        assert turns.calls == ["input", "send", "event", "send"] * 3

    asyncio.run(main())


def test_input_that_is_left_is_taken_in_the_next_turn() -> None:
    async def main() -> None:
        turns = Turns(Alarm(1))
        turns.machine.due_ns = None
        turns.inputs += [b"1", b"2", b"3"]
        turns.driver.turn()
        assert turns.calls == ["input", "send"]
        for _ in range(5):
            await asyncio.sleep(0)
        assert turns.calls == ["input", "send"] * 3
        turns.driver.close()

    asyncio.run(main())


def test_event_handler_may_close_the_driver() -> None:
    async def main() -> None:
        turns = Turns(Alarm(5))
        turns.on_events = turns.driver.close
        turns.driver.turn()
        assert turns.calls == ["input", "send", "event"]
        turns.driver.turn()
        turns.driver.wake()
        await asyncio.sleep(0.01)
        assert turns.calls == ["input", "send", "event"]

    asyncio.run(main())


def test_machine_gets_the_new_offset_when_the_wall_clock_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        turns = Turns(Alarm(1))
        turns.driver.turn()
        assert not turns.machine.offsets_ns
        monkeypatch.setattr(machine_driver, "wall_ns", lambda: wall_ns() + HOUR_NS)
        monkeypatch.setattr(machine_driver, "monotonic_ns", lambda: monotonic_ns() + 2_000_000_000)
        turns.driver.turn()
        turns.driver.turn()
        turns.driver.close()
        (offset_ns,) = turns.machine.offsets_ns
        assert offset_ns == pytest.approx(
            wall_ns() + HOUR_NS - monotonic_ns() - 2_000_000_000, abs=1e9
        )

    asyncio.run(main())


def test_watch_notices_each_change_of_the_wall_clock_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = WallClockWatch()
    assert watch.changed_offset_ns() is None
    before_ns = watch.offset_ns
    monkeypatch.setattr(machine_driver, "wall_ns", lambda: wall_ns() + HOUR_NS)
    found_ns = watch.changed_offset_ns()
    assert found_ns == watch.offset_ns == pytest.approx(before_ns + HOUR_NS, abs=1e9)
    assert watch.changed_offset_ns() is None
