"""Events for the application in order, with consecutive updates of one sender in one event.

A hot module. An event is a value that Python code makes, and for a single update that takes longer
than all other processing. So updates are collected in a batch, which becomes an event only for
callers that want one.
"""

from __future__ import annotations

from skerry.protocol.distributor.events import Delivered, SenderInfo
from skerry.protocol.distributor.receiving.updates import Updates
from skerry.protocol.machine import MachineEvent


class DeliveryBatch:
    """The content of a `Delivered` event, to which updates can still be added."""

    def __init__(
        self, sender: SenderInfo, is_relayed: bool, numbers: list[tuple[int, int]] | None
    ) -> None:
        self.sender: SenderInfo = sender
        self.is_relayed: bool = is_relayed
        self.numbers: list[tuple[int, int]] | None = numbers
        self.batch: Updates = Updates()

    def event(self) -> Delivered:
        return Delivered(
            sender=self.sender,
            batch=self.batch,
            is_relayed=self.is_relayed,
            numbers=self.numbers,
        )


class Deliveries:
    """The queue of events and batches."""

    def __init__(self) -> None:
        self._events: list[MachineEvent | DeliveryBatch] = []
        self._last: DeliveryBatch | None = None
        self.update_count = 0
        self.is_numbered = False
        """Whether batches have the numbers of their datagrams."""

    def add(self, event: MachineEvent) -> None:
        """Add an event; later updates follow it."""
        self._events.append(event)
        self._last = None

    def open(self, sender: SenderInfo, is_relayed: bool) -> DeliveryBatch:
        """Return the batch for the next updates of a sender; `close` it after adding them."""
        last = self._last
        if last is not None and last.sender is sender and last.is_relayed == is_relayed:
            return last
        return DeliveryBatch(sender, is_relayed, [] if self.is_numbered else None)

    def close(self, batch: DeliveryBatch) -> None:
        """Queue a batch unless it is queued already or empty."""
        if batch is not self._last and batch.batch.count:
            self._events.append(batch)
            self._last = batch

    def take(self) -> list[MachineEvent]:
        """Return all events since the last call."""
        return [
            event.event() if isinstance(event, DeliveryBatch) else event
            for event in self.take_batches()
        ]

    def take_batches(self) -> list[MachineEvent | DeliveryBatch]:
        """Return the same with batches in place of their events."""
        events, self._events = self._events, []
        self._last = None
        for event in events:
            if isinstance(event, DeliveryBatch):
                self.update_count += event.batch.count
        return events
