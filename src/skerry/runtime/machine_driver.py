"""Drives a machine on the running loop, with any number of sockets and one timer.

All that happens to a machine happens in a turn: the input that waits is passed to it, what is due
is done, its output is sent, its events are handed over, and the timer is set to its next deadline.
A turn follows input, a wake-up and the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from skerry.protocol.machine import MachineEvent, WallClocked
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.loop_turns import LoopTurns

_OUTPUT_ROUND_COUNT_MAX: Final = 4
"""How often a turn sends what its own event handler has caused."""
_CLOCK_CHECK_NS: Final = 1_000_000_000
_WALL_DRIFT_NS_MAX: Final = 1_000_000
"""Error of wall time above which it is corrected. Smaller errors arise because the two clocks are
not read at the same instant, and correcting them would make times of objects go back."""


class DrivenMachine(Protocol):
    """What the driver needs of a machine; input and output are different for each kind."""

    def advance(self, now_ns: int) -> None:
        """Do what is due."""

    def take_events(self) -> Sequence[MachineEvent]:
        """Return the events since the last call."""

    def deadline_ns(self) -> int | None:
        """Return when `advance` has to be called."""


class WallClockWatch:
    """Notices that the wall clock was set, by its offset to monotonic time."""

    def __init__(self) -> None:
        self.offset_ns = wall_ns() - monotonic_ns()
        """Wall time less monotonic time."""

    def changed_offset_ns(self) -> int | None:
        """The new offset if it has changed since the last call; None otherwise."""
        offset_ns = wall_ns() - monotonic_ns()
        if abs(offset_ns - self.offset_ns) <= _WALL_DRIFT_NS_MAX:
            return None
        self.offset_ns = offset_ns
        return offset_ns


Driven = TypeVar("Driven", bound=DrivenMachine)


class MachineDriver(Generic[Driven]):
    def __init__(
        self,
        machine: Driven,
        *,
        take_input: Callable[[int], bool],
        send: Callable[[], None],
        on_events: Callable[[Sequence[MachineEvent]], None],
    ) -> None:
        """`take_input` passes the input that waits and returns whether some is left for the next
        turn; `send` sends the output. `on_events` may use the machine; it has to be quick.
        """
        self.machine = machine
        self.turns = LoopTurns(self.turn)
        """Reads the sockets."""
        self._take_input = take_input
        self._send = send
        self._on_events = on_events
        self._clock = WallClockWatch()
        clocked: object = machine
        self._clocked = clocked if isinstance(clocked, WallClocked) else None
        self._clock_ns = 0
        """When to look at the wall clock."""
        self.is_closed = False

    def wake(self) -> None:
        """Take a turn in the next iteration of the loop, after a change that was not input."""
        if not self.is_closed:
            self.turns.wake()

    def turn(self) -> None:
        """Take a turn now."""
        if self.is_closed:
            return
        turns, machine = self.turns, self.machine
        turns.begin_turn()
        now_ns = monotonic_ns()
        if self._clocked is not None and now_ns >= self._clock_ns:
            self._clock_ns = now_ns + _CLOCK_CHECK_NS
            offset_ns = self._clock.changed_offset_ns()
            if offset_ns is not None:
                self._clocked.set_wall_offset(offset_ns, now_ns)
        has_more = self._take_input(now_ns)
        # The machine may have read the clock for its input since then.
        now_ns = monotonic_ns()
        due_ns = machine.deadline_ns()
        if due_ns is not None and due_ns <= now_ns:
            machine.advance(now_ns)
        self._send()
        self._report()
        self._plan(has_more)

    def close(self) -> None:
        """End the turns, and stop reading. Before the sockets are closed."""
        self.is_closed = True
        self.turns.close()

    # -- inside

    def _report(self) -> None:
        for _ in range(_OUTPUT_ROUND_COUNT_MAX):
            events = self.machine.take_events()
            if not events:
                return
            self._on_events(events)
            if self.is_closed:
                return
            # What the handler sends leaves in the same turn.
            self._send()
        self.turns.wake()

    def _plan(self, has_more: bool) -> None:
        """Arrange the next turn; the event handler may have closed the driver."""
        if self.is_closed:
            return
        if has_more:
            self.turns.wake()
        else:
            self.turns.set_deadline(self.machine.deadline_ns())
