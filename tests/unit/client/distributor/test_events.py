"""Events about subscribers that do not keep up."""

from __future__ import annotations

from skerry.client.distributor.events import SubscriberCut, UpdatesDropped
from skerry.protocol.machine import MachineEvent


def test_events_count_the_dropped_updates() -> None:
    for event in (SubscriberCut(update_count=3), UpdatesDropped(update_count=3)):
        assert isinstance(event, MachineEvent)
        assert event.update_count == 3
