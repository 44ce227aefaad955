"""What a machine puts out, until it is taken: the half of the contract that all have alike."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from skerry.protocol.machine import MachineEvent, Transmit

__all__ = ["Outbox"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Outbox:
    """Base of machines, which append to `_events` and `_transmits`; whoever drives them takes."""

    def __init__(self) -> None:
        self._events: list[MachineEvent] = []
        self._transmits: list[Transmit] = []

    def take_events(self) -> list[MachineEvent]:
        """The events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def take_transmits(self) -> list[Transmit]:
        """What is to be sent since the last call, in order."""
        transmits, self._transmits = self._transmits, []
        return transmits
