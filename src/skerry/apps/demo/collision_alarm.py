"""The collision alarm of the demo: publishes an alarm for vessels that are too close to each other.

It subscribes to the positions of the vessels only.
"""

from __future__ import annotations

from typing import Any

import skerry
from skerry.apps.demo.fleet import Alarm, FleetPublisher, Vessel, close_pairs


class CollisionAlarm:
    """Keeps the positions of all vessels, and publishes alarms."""

    def __init__(self, space: FleetPublisher) -> None:
        self._space = space
        self._alarms: dict[tuple[int, int], Alarm] = {}
        self.places: dict[int, tuple[float, float]] = {}
        self.event_count = 0
        self.raised_count = 0

    def note(self, event: Any) -> None:
        self.event_count += 1
        vessel = event.object
        if event.operation == "remove":
            self.places.pop(vessel.mmsi, None)
        elif vessel.lat is not None and vessel.lon is not None:
            self.places[vessel.mmsi] = (vessel.lat, vessel.lon)

    def check(self, now_s: float) -> None:
        """Publish an alarm for each new pair that is too close, and remove alarms that are over."""
        # A copy, since events arrive on another thread.
        close = close_pairs(dict(self.places))
        for pair, miles in close.items():
            if pair not in self._alarms:
                alarm = Alarm(
                    first=pair[0],
                    second=pair[1],
                    vessel=skerry.ref_to(Vessel(mmsi=pair[0])),
                    miles=miles,
                    since=now_s,
                )
                self._alarms[pair] = alarm
                self.raised_count += 1
                self._space.publish(alarm)
        for pair in [pair for pair in self._alarms if pair not in close]:
            self._space.remove(self._alarms.pop(pair))

    def publish_all(self) -> None:
        """Publish all alarms again, after the node was restarted."""
        for alarm in self._alarms.values():
            self._space.publish(alarm)
