"""The output of a machine until it is taken: the part of the contract that all share."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from skerry.protocol.machine import MachineEvent, Transmit


@mypyc_attr(allow_interpreted_subclasses=True)
class Outbox:
    """Base of machines, which append to `_events` and `_transmits`; the driver takes them."""

    def __init__(self) -> None:
        self._events: list[MachineEvent] = []
        self._transmits: list[Transmit] = []

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def take_transmits(self) -> list[Transmit]:
        """Return what is to be sent since the last call, in order."""
        transmits, self._transmits = self._transmits, []
        return transmits
