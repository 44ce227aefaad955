"""The programs of the demo, each a process of its own and a client of the node.

    python -m skerry.apps.demo.programs fleet --node URI --name north --count 20 --first 265000000

They are told what to do by lines on the standard input, and tell what they see by lines of JSON on
the standard output. They end when they are told, or when nobody can tell them anything any more.
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
from skerry.apps.demo.collision_alarm import CollisionAlarm
from skerry.apps.demo.fleet import BearingRequest, Fleet, Radar, Vessel, bearing
from skerry.client.api.sync import Space
from skerry.client.core.states import SpaceState, StateChanged
from skerry.errors import Disconnected, RequestTimedOut, WouldBlock

__all__ = ["PICTURE_BYTES", "main"]

_STEP_S: Final = 0.1
_CONFIRM_S: Final = 0.5
"""How often a fleet has its voyages confirmed."""
_SLOW_S: Final = 0.25
"""How long the slow one looks at each picture."""
_WAITING_MAX: Final = 4
PICTURE_BYTES: Final = 512 * 1024
"""So large that what a connection holds on its way is full soon when nobody reads."""

_END: Final = "end"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the programs until it is told to end."""
    # Ctrl-C is for the tour, which tells us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="demo_programs")
    parser.add_argument("program", choices=sorted(_PROGRAMS))
    parser.add_argument("--node", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--first", type=int, default=265_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    # Few events wait for who iterates: only the slow one does, and it is to be slow.
    with skerry.connect(given.node, name=given.name, queue_count_max=_WAITING_MAX) as space:
        line = _Line(space)
        _PROGRAMS[given.program](space, line, given)
    _say("ended")
    return 0


class _Line:
    """The line to the tour: orders come in, and it hears how the connection to the node stands."""

    def __init__(self, space: Space) -> None:
        self._orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._is_back = threading.Event()
        space.on_state(self._state_changed)
        threading.Thread(target=self._read, daemon=True).start()

    def order(self, timeout_s: float) -> str | None:
        """The next order, if one comes in time."""
        try:
            return (
                self._orders.get(timeout=timeout_s) if timeout_s > 0 else self._orders.get_nowait()
            )
        except queue.Empty:
            return None

    def was_away(self) -> bool:
        """Whether the node was lost and is there again, since this was last asked."""
        is_back = self._is_back.is_set()
        self._is_back.clear()
        return is_back

    def _state_changed(self, change: StateChanged) -> None:
        if change.state is SpaceState.CONNECTED:
            self._is_back.set()
        # Only then: an order that follows finds everything published again.
        _say("state", state=str(change.state), reason=change.reason)

    def _read(self) -> None:
        for line in sys.stdin:
            self._orders.put(line.strip())
        self._orders.put(_END)


def _say(what: str, **facts: Any) -> None:
    # One write for the whole line: two threads speak here.
    sys.stdout.write(json.dumps({"say": what, **facts}) + "\n")
    sys.stdout.flush()


def _flush(space: Space) -> None:
    """Wait for the node's answer, also where it was lost since the last one."""
    try:
        space.flush()
    except Disconnected:
        # That something may be lost is told once; it has been published again since.
        space.flush()


# -- a fleet


def _run_fleet(space: Space, line: _Line, given: argparse.Namespace) -> None:
    fleet = Fleet(space, Random(given.seed), count=given.count, first_mmsi=given.first)
    radar = _RadarSite(space, given.name)
    voyages = _Voyages(space, fleet)
    last_s, confirmed_s = time(), 0.0
    is_sailing = True
    fleet.step(now_s=last_s, elapsed_s=0.0)
    # Nobody else is to tell where they are.
    space.own(Vessel, keys=fleet.vessels)
    _say("ready")
    while (order := line.order(_STEP_S)) != _END:
        if line.was_away():
            fleet.publish_all()
            voyages.publish_unconfirmed()
            radar.sweep()
        if order == "freeze":
            is_sailing = False
            _flush(space)
            voyages.confirm()
            places = {mmsi: (v.lat, v.lon) for mmsi, v in fleet.vessels.items()}
            _say("frozen", places=places, number=radar.number, count=fleet.published_count)
        if is_sailing:
            now_s = time()
            fleet.step(now_s=now_s, elapsed_s=now_s - last_s)
            last_s = now_s
            radar.sweep()
            if now_s - confirmed_s > _CONFIRM_S:
                confirmed_s = now_s
                voyages.confirm()


class _Voyages:
    """Has the node confirm voyages: those are stored, whatever happens to the node."""

    def __init__(self, space: Space, fleet: Fleet) -> None:
        self._space = space
        self._fleet = fleet
        self._confirmed_count = 0

    def confirm(self) -> None:
        """Tell of those that are confirmed now and were not."""
        count = len(self._fleet.voyages)
        try:
            self._space.flush()
        except (Disconnected, RequestTimedOut):
            return  # the node is away; they are published again when it is back
        fresh = self._fleet.voyages[self._confirmed_count : count]
        self._confirmed_count = count
        if fresh:
            _say("confirmed", voyages=[voyage.mmsi for voyage in fresh])

    def publish_unconfirmed(self) -> None:
        """What was on its way when the node was lost may have been lost with it."""
        for voyage in self._fleet.voyages[self._confirmed_count :]:
            self._space.publish(voyage)


class _RadarSite:
    """Publishes a picture with each sweep, if there is somebody to publish it to."""

    def __init__(self, space: Space, site: str) -> None:
        self._space = space
        self._site = site
        self.number = 0

    def sweep(self) -> None:
        """One more picture. Without a node nobody is interested in it later."""
        if self._space.state is not SpaceState.CONNECTED:
            return
        number = self.number + 1
        picture = number.to_bytes(4, "big") * (PICTURE_BYTES // 4)
        try:
            self._space.publish(Radar(site=self._site, number=number, picture=picture))
        except WouldBlock:
            return  # the next one is as good
        self.number = number


# -- the lookout


def _run_lookout(space: Space, line: _Line, _given: argparse.Namespace) -> None:
    lookout = CollisionAlarm(space)
    space.subscribe(Vessel, lookout.note, fields=["lat", "lon"])
    space.flush()
    _say("ready")
    while (order := line.order(_STEP_S)) != _END:
        if line.was_away():
            lookout.publish_all()
        if order == "report":
            # The answer comes after everything that we were to be told before.
            _flush(space)
        lookout.watch(time())
        if order == "report":
            _flush(space)
            _say(
                "report",
                places=lookout.places,
                event_count=lookout.event_count,
                raised_count=lookout.raised_count,
            )


# -- a pilot


def _run_pilot(space: Space, line: _Line, given: argparse.Namespace) -> None:
    """Answers questions, or stands by until whoever does is gone."""
    space.serve(
        BearingRequest,
        lambda question: bearing(question, given.name),
        name="pilot",
        standby=True,
        on_change=lambda service: _say("claim", state=str(service.state)),
    )
    _say("ready")
    while line.order(_STEP_S) != _END:
        pass


# -- somebody slow


def _run_slow(space: Space, line: _Line, given: argparse.Namespace) -> None:
    """Looks at the picture of the radar longer than a sweep takes."""
    seen_count, number = 0, 0
    pictures = space.subscribe(Radar, where=f"site = '{given.name}'", on_slow="conflate")
    space.flush()
    _say("ready", client_id=space.client_id)
    while (order := line.order(0)) != _END:
        if order == "report":
            _flush(space)
            while (event := pictures.get(timeout=0)) is not None:
                seen_count, number = seen_count + 1, _looked_at(event, number)
            _say("report", number=number, seen_count=seen_count)
        event = pictures.get(timeout=_STEP_S)
        if event is not None:
            seen_count, number = seen_count + 1, _looked_at(event, number)
            sleep(_SLOW_S)


def _looked_at(event: Any, number: int) -> int:
    if event.operation == "remove":
        return number
    radar = event.object
    assert radar.picture[:4] == radar.number.to_bytes(4, "big")
    return int(radar.number)


_PROGRAMS: Final[dict[str, Callable[[Space, _Line, argparse.Namespace], None]]] = {
    "fleet": _run_fleet,
    "lookout": _run_lookout,
    "pilot": _run_pilot,
    "slow": _run_slow,
}

if __name__ == "__main__":
    sys.exit(main())
