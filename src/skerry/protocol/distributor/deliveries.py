"""What goes to the application, in order: updates of one sender are gathered into one event."""

from __future__ import annotations

from skerry.protocol.distributor.events import Delivered, SenderInfo
from skerry.protocol.distributor.updates import Updates
from skerry.protocol.machine import Event

__all__ = ["Deliveries"]


class Deliveries:
    """Events in the making."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._last: Delivered | None = None
        self.update_count = 0
        """Updates that were taken by now."""
        self.is_numbered = False
        """Whether somebody wants to know in which datagram each update came."""

    def add(self, event: Event) -> None:
        """One event more; updates that come later are gathered behind it."""
        self._events.append(event)
        self._last = None

    def open(self, sender: SenderInfo, is_relayed: bool) -> Delivered:
        """Where the next updates of this sender belong; hand it to `close` when they are in."""
        last = self._last
        if last is not None and last.sender is sender and last.is_relayed == is_relayed:
            return last
        return Delivered(
            sender=sender,
            batch=Updates(),
            is_relayed=is_relayed,
            numbers=[] if self.is_numbered else None,
        )

    def close(self, delivered: Delivered) -> None:
        """The updates are in; there may be none."""
        if delivered is not self._last and delivered.batch.count:
            self._events.append(delivered)
            self._last = delivered

    def take(self) -> list[Event]:
        """All events since the last call."""
        events, self._events = self._events, []
        self._last = None
        for event in events:
            if isinstance(event, Delivered):
                self.update_count += event.batch.count
        return events
