"""What goes to the application, in order: updates of one sender are gathered into one event.

A hot module. An event is a value that Python code makes, which for a single update takes longer
than all else that is done with it. So updates are gathered in a parcel, of which an event is made
for who wants one.
"""

from __future__ import annotations

from skerry.protocol.distributor.events import Delivered, SenderInfo
from skerry.protocol.distributor.receiving.updates import Updates
from skerry.protocol.machine import MachineEvent

__all__ = ["Deliveries", "Parcel"]


class Parcel:
    """What a `Delivered` tells, in the making."""

    def __init__(
        self, sender: SenderInfo, is_relayed: bool, numbers: list[tuple[int, int]] | None
    ) -> None:
        self.sender: SenderInfo = sender
        self.is_relayed: bool = is_relayed
        self.numbers: list[tuple[int, int]] | None = numbers
        self.batch: Updates = Updates()

    def event(self) -> Delivered:
        """The same for good."""
        return Delivered(
            sender=self.sender,
            batch=self.batch,
            is_relayed=self.is_relayed,
            numbers=self.numbers,
        )


class Deliveries:
    """Events in the making."""

    def __init__(self) -> None:
        self._events: list[MachineEvent | Parcel] = []
        self._last: Parcel | None = None
        self.update_count = 0
        """Updates that were taken by now."""
        self.is_numbered = False
        """Whether somebody wants to know in which datagram each update came."""

    def add(self, event: MachineEvent) -> None:
        """One event more; updates that come later are gathered behind it."""
        self._events.append(event)
        self._last = None

    def open(self, sender: SenderInfo, is_relayed: bool) -> Parcel:
        """Where the next updates of this sender belong; hand it to `close` when they are in."""
        last = self._last
        if last is not None and last.sender is sender and last.is_relayed == is_relayed:
            return last
        return Parcel(sender, is_relayed, [] if self.is_numbered else None)

    def close(self, parcel: Parcel) -> None:
        """The updates are in; there may be none."""
        if parcel is not self._last and parcel.batch.count:
            self._events.append(parcel)
            self._last = parcel

    def take(self) -> list[MachineEvent]:
        """All events since the last call."""
        return [
            event.event() if isinstance(event, Parcel) else event for event in self.take_parcels()
        ]

    def take_parcels(self) -> list[MachineEvent | Parcel]:
        """The same with parcels instead of the events that are made of them."""
        events, self._events = self._events, []
        self._last = None
        for event in events:
            if isinstance(event, Parcel):
                self.update_count += event.batch.count
        return events
