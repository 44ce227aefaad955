"""The programs of the demo, each a separate process and a client of the node.

    python -m skerry.apps.demo.programs fleet --node URI --name north --count 20 --first 265000000

They read orders as lines of standard input, and report events as JSON lines on standard output.
They end on the order `end`, or at the end of standard input.
"""

from __future__ import annotations

import argparse
import json
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from random import Random
from time import sleep, time
from typing import Any, Final

import skerry
from skerry.apps.demo.fleet import BearingRequest, CollisionAlarm, Fleet, Radar, Vessel, bearing
from skerry.client.api.sync import Space
from skerry.client.core.states import SpaceState, StateChanged
from skerry.errors import Disconnected, RequestTimedOut, WouldBlock

_STEP_S: Final = 0.1
_CONFIRM_S: Final = 0.5
"""Interval at which a fleet flushes, so that its voyages are confirmed."""
_SLOW_S: Final = 0.25
"""Time that the slow display takes for each picture."""
_WAITING_MAX: Final = 4
PICTURE_BYTES: Final = 512 * 1024
"""Large enough to fill the buffers of a connection quickly when the client does not read."""

_END: Final = "end"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the programs until the order `end`."""
    # Ctrl-C ends the tour, which then sends the order `end`.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="demo_programs")
    parser.add_argument("program", choices=sorted(_PROGRAMS))
    parser.add_argument("--node", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--first", type=int, default=265_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    # Only the slow display uses a queue of events, and a short one makes it slow.
    with skerry.connect(given.node, name=given.name, queue_count_max=_WAITING_MAX) as space:
        control = _TourControl(space)
        _PROGRAMS[given.program](space, control, given)
    _emit("ended")
    return 0


class _TourControl:
    """Receives the orders of the tour, and reports the state of the connection to the node."""

    def __init__(self, space: Space) -> None:
        self._orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reconnected = threading.Event()
        space.on_state(self._state_changed)
        threading.Thread(target=self._read, daemon=True).start()

    def order(self, timeout_s: float) -> str | None:
        """The next order; None after the timeout."""
        try:
            return (
                self._orders.get(timeout=timeout_s) if timeout_s > 0 else self._orders.get_nowait()
            )
        except queue.Empty:
            return None

    def has_reconnected(self) -> bool:
        """Whether the connection was restored since the last call."""
        has_reconnected = self._reconnected.is_set()
        self._reconnected.clear()
        return has_reconnected

    def _state_changed(self, change: StateChanged) -> None:
        if change.state is SpaceState.CONNECTED:
            self._reconnected.set()
        # Reported last, so that objects are published again before the next order is processed.
        _emit("state", state=str(change.state), reason=change.reason)

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(line.strip())
        self._orders.put(_END)


def _emit(event: str, **facts: Any) -> None:
    # One write for the whole line, since two threads call this.
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def _flush(space: Space) -> None:
    """Flush, even if the connection was lost since the last flush."""
    try:
        space.flush()
    except Disconnected:
        # A loss is reported once, and the objects have been published again since.
        space.flush()


# -- a fleet


def _run_fleet(space: Space, control: _TourControl, given: argparse.Namespace) -> None:
    fleet = Fleet(space, Random(given.seed), count=given.count, first_mmsi=given.first)
    radar = _RadarSite(space, given.name)
    voyages = _Voyages(space, fleet)
    last_s, confirmed_s = time(), 0.0
    is_sailing = True
    fleet.step(now_s=last_s, elapsed_s=0.0)
    # No other client may publish these vessels.
    space.own(Vessel, keys=fleet.vessels)
    _emit("ready")
    while (order := control.order(_STEP_S)) != _END:
        if control.has_reconnected():
            fleet.publish_all()
            voyages.publish_unconfirmed()
            radar.sweep()
        if order == "freeze":
            is_sailing = False
            _flush(space)
            voyages.confirm()
            places = {mmsi: (v.lat, v.lon) for mmsi, v in fleet.vessels.items()}
            _emit("frozen", places=places, number=radar.number, count=fleet.published_count)
        if is_sailing:
            now_s = time()
            fleet.step(now_s=now_s, elapsed_s=now_s - last_s)
            last_s = now_s
            radar.sweep()
            if now_s - confirmed_s > _CONFIRM_S:
                confirmed_s = now_s
                voyages.confirm()


class _Voyages:
    """Waits until the node confirms voyages: confirmed ones are stored and survive kill -9."""

    def __init__(self, space: Space, fleet: Fleet) -> None:
        self._space = space
        self._fleet = fleet
        self._confirmed_count = 0

    def confirm(self) -> None:
        """Flush, and report the newly confirmed voyages."""
        count = len(self._fleet.voyages)
        try:
            self._space.flush()
        except (Disconnected, RequestTimedOut):
            return  # They are published again after the reconnect.
        fresh = self._fleet.voyages[self._confirmed_count : count]
        self._confirmed_count = count
        if fresh:
            _emit("confirmed", voyages=[voyage.mmsi for voyage in fresh])

    def publish_unconfirmed(self) -> None:
        """Publish voyages again that may have been lost with the node."""
        for voyage in self._fleet.voyages[self._confirmed_count :]:
            self._space.publish(voyage)


class _RadarSite:
    """Publishes radar pictures while the node is connected."""

    def __init__(self, space: Space, site: str) -> None:
        self._space = space
        self._site = site
        self.number = 0

    def sweep(self) -> None:
        """Publish the next picture. Without a node it is skipped: only the newest one matters."""
        if self._space.state is not SpaceState.CONNECTED:
            return
        number = self.number + 1
        picture = number.to_bytes(4, "big") * (PICTURE_BYTES // 4)
        try:
            self._space.publish(Radar(site=self._site, number=number, picture=picture))
        except WouldBlock:
            return  # The next picture replaces this one.
        self.number = number


# -- the collision alarm


def _run_alarm(space: Space, control: _TourControl, _given: argparse.Namespace) -> None:
    alarm = CollisionAlarm(space)
    space.subscribe(Vessel, alarm.note, fields=["lat", "lon"])
    space.flush()
    _emit("ready")
    while (order := control.order(_STEP_S)) != _END:
        if control.has_reconnected():
            alarm.publish_all()
        if order == "report":
            # The answer follows all updates that the node sent before it.
            _flush(space)
        alarm.check(time())
        if order == "report":
            _flush(space)
            _emit(
                "report",
                places=alarm.places,
                event_count=alarm.event_count,
                raised_count=alarm.raised_count,
            )


# -- a pilot


def _run_pilot(space: Space, control: _TourControl, given: argparse.Namespace) -> None:
    """Answers requests, or is the standby of the pilot that does."""
    space.serve(
        BearingRequest,
        lambda request: bearing(request, given.name),
        name="pilot",
        standby=True,
        on_change=lambda service: _emit("claim", state=str(service.state)),
    )
    _emit("ready")
    while control.order(_STEP_S) != _END:
        pass


# -- a slow display


def _run_display(space: Space, control: _TourControl, given: argparse.Namespace) -> None:
    """Takes longer to show a radar picture than the interval between two pictures."""
    seen_count, number = 0, 0
    pictures = space.subscribe(Radar, where=f"site = '{given.name}'", on_slow="conflate")
    space.flush()
    _emit("ready", client_id=space.client_id)
    while (order := control.order(0)) != _END:
        if order == "report":
            _flush(space)
            while (event := pictures.get(timeout=0)) is not None:
                seen_count, number = seen_count + 1, _shown(event, number)
            _emit("report", number=number, seen_count=seen_count)
        event = pictures.get(timeout=_STEP_S)
        if event is not None:
            seen_count, number = seen_count + 1, _shown(event, number)
            sleep(_SLOW_S)


def _shown(event: Any, number: int) -> int:
    if event.operation == "remove":
        return number
    radar = event.object
    assert radar.picture[:4] == radar.number.to_bytes(4, "big")
    return int(radar.number)


_PROGRAMS: Final[dict[str, Callable[[Space, _TourControl, argparse.Namespace], None]]] = {
    "fleet": _run_fleet,
    "alarm": _run_alarm,
    "pilot": _run_pilot,
    "display": _run_display,
}

if __name__ == "__main__":
    sys.exit(main())
