"""The fleet of the demo: a few dozen vessels in a bay.

Its types are declared in Python; `skerry.to_dots` converts them to the type language.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random
from typing import Annotated, Any, Final, Protocol

import skerry


class VesselKind(skerry.Enum):
    """The kind of a vessel."""

    cargo = 1
    tanker = 2
    ferry = 3
    pilot = 4


@skerry.struct(cleanup=True)
class Vessel(skerry.Struct):
    """A vessel; it is removed when its publisher disconnects."""

    mmsi: skerry.uint32 | None = skerry.key(1, documentation="maritime radio identity")
    name: str | None = skerry.field(2)
    kind: VesselKind | None = skerry.field(3)
    lat: float | None = skerry.field(4, documentation="degrees north")
    lon: float | None = skerry.field(5, documentation="degrees east")
    course: skerry.float32 | None = skerry.field(6, documentation="degrees from north")
    speed: skerry.float32 | None = skerry.field(7, documentation="knots")
    seen: skerry.timepoint | None = skerry.field(8, documentation="time of the position")


@skerry.struct(persistent=True)
class Voyage(skerry.Struct):
    """The departure of a vessel; it is stored, and survives a restart of the node."""

    mmsi: skerry.uint32 | None = skerry.key(1)
    departed: skerry.timepoint | None = skerry.field(2)


@skerry.struct(cleanup=True)
class Alarm(skerry.Struct):
    """Two vessels are too close to each other."""

    first: skerry.uint32 | None = skerry.key(1)
    second: skerry.uint32 | None = skerry.key(2)
    vessel: Annotated[skerry.Ref, "Vessel"] | None = skerry.field(3)
    miles: skerry.float32 | None = skerry.field(4)
    since: skerry.timepoint | None = skerry.field(5)


@skerry.struct(cleanup=True)
class Radar(skerry.Struct):
    """The last picture of a radar: large, and only the newest one matters."""

    site: str | None = skerry.key(1)
    number: skerry.uint32 | None = skerry.field(2)
    picture: bytes | None = skerry.field(3)


@skerry.struct(cached=False)
class BearingRequest(skerry.Struct):
    """A request to a pilot for the course from one position to another."""

    lat: float | None = skerry.field(1, documentation="degrees north")
    lon: float | None = skerry.field(2, documentation="degrees east")
    to_lat: float | None = skerry.field(3)
    to_lon: float | None = skerry.field(4)


@skerry.struct(cached=False)
class Bearing(skerry.Struct):
    """The response of a pilot."""

    pilot: str | None = skerry.field(1, documentation="name of the pilot")
    course: skerry.float32 | None = skerry.field(2, documentation="degrees from north")
    miles: skerry.float32 | None = skerry.field(3)


class FleetPublisher(Protocol):
    """The part of a space that a fleet uses; tests replace it."""

    def publish(self, what: Any, *, only: Iterable[str] | None = None) -> object: ...
    def remove(self, obj: Any) -> object: ...


_NAMES_TEXT: Final = """
Aldebaran Brise Corona Dagny Ebba Fjord Gannet Heron Isbrytaren Jolly Kittiwake Lumen
Maren Nereid Orca Petrel Quill Ragna Selkie Tern Ulla Vega Wren Ymir Zephyr"""
_NAMES: Final = _NAMES_TEXT.split()
_CENTRE: Final = (57.68, 11.70)
_BAY_MILES: Final = 12.0
_CLOSE_MILES: Final = 0.5


class Fleet:
    """Moves vessels at random and publishes the changes."""

    def __init__(
        self, space: FleetPublisher, rng: Random, *, count: int, first_mmsi: int = 265_000_000
    ) -> None:
        assert count > 0
        self._space = space
        self._rng = rng
        self._count = count
        self._next_mmsi = first_mmsi
        self.vessels: dict[int, Vessel] = {}
        """The actual vessels, to compare with the objects of the space."""
        self.voyages: list[Voyage] = []
        """The voyages of all vessels, including those that left."""
        self.published_count = 0

    def step(self, *, now_s: float, elapsed_s: float) -> None:
        """Move all vessels by `elapsed_s`; vessels that leave the bay are replaced."""
        while len(self.vessels) < self._count:
            self._launch(now_s)
        for vessel in list(self.vessels.values()):
            self._sail(vessel, now_s, elapsed_s)
            if _miles(vessel.lat, vessel.lon, *_CENTRE) > _BAY_MILES:
                self._leave(vessel)

    def publish_all(self) -> None:
        for vessel in self.vessels.values():
            self._publish(vessel)

    def _launch(self, now_s: float) -> None:
        mmsi = self._next_mmsi
        self._next_mmsi += 1
        angle = self._rng.uniform(0, 2 * math.pi)
        distance = self._rng.uniform(0.2, 0.9) * _BAY_MILES
        lat, lon = _moved(*_CENTRE, math.degrees(angle), distance)
        vessel = Vessel(
            mmsi=mmsi,
            name=f"{_NAMES[mmsi % len(_NAMES)]} {mmsi // len(_NAMES) % 100}",
            kind=self._rng.choice(list(VesselKind)),
            lat=lat,
            lon=lon,
            # Numbers that a float32 holds exactly, so that received values equal published ones.
            course=float(self._rng.randrange(360)),
            speed=self._rng.randrange(16, 80) / 4,
            seen=now_s,
        )
        self.vessels[mmsi] = vessel
        self._publish(vessel)
        voyage = Voyage(mmsi=mmsi, departed=now_s)
        self.voyages.append(voyage)
        self._publish(voyage)

    def _sail(self, vessel: Vessel, now_s: float, elapsed_s: float) -> None:
        assert vessel.lat is not None
        assert vessel.lon is not None
        assert vessel.course is not None
        assert vessel.speed is not None
        # A hundred times as fast as real ships, so that alarms occur within seconds.
        miles = vessel.speed * elapsed_s / 3600 * 100
        vessel.lat, vessel.lon = _moved(vessel.lat, vessel.lon, vessel.course, miles)
        vessel.seen = now_s
        changed = {"lat", "lon", "seen"}
        if self._rng.random() < 0.05:
            vessel.course = (vessel.course + self._rng.randrange(-30, 31)) % 360
            changed.add("course")
        self._publish(vessel, changed)

    def _leave(self, vessel: Vessel) -> None:
        assert vessel.mmsi is not None
        del self.vessels[vessel.mmsi]
        self._space.remove(vessel)
        self.published_count += 1

    def _publish(self, obj: skerry.Struct, only: set[str] | None = None) -> None:
        self._space.publish(obj, only=only)
        self.published_count += 1


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


def close_pairs(places: Mapping[int, tuple[float, float]]) -> dict[tuple[int, int], float]:
    """Distances in miles of pairs that are too close to each other; the lower number first."""
    found: dict[tuple[int, int], float] = {}
    fleet = sorted(places.items())
    for index, (first, place) in enumerate(fleet):
        for second, other in fleet[index + 1 :]:
            miles = _miles(*place, *other)
            if miles < _CLOSE_MILES:
                found[first, second] = miles
    return found


def bearing(question: BearingRequest, pilot: str) -> Bearing:
    """The course and distance that a pilot answers."""
    assert question.to_lat is not None
    assert question.to_lon is not None
    lat, lon = question.lat or 0.0, question.lon or 0.0
    north = question.to_lat - lat
    east = (question.to_lon - lon) * math.cos(math.radians(question.to_lat))
    return Bearing(
        pilot=pilot,
        course=math.degrees(math.atan2(east, north)) % 360,
        miles=_miles(lat, lon, question.to_lat, question.to_lon),
    )


def _moved(lat: float, lon: float, course: float, miles: float) -> tuple[float, float]:
    """The position after `miles` nautical miles; one is a minute of latitude."""
    north = miles * math.cos(math.radians(course)) / 60
    east = miles * math.sin(math.radians(course)) / 60 / math.cos(math.radians(lat))
    return lat + north, lon + east


def _miles(lat: float | None, lon: float | None, other_lat: float, other_lon: float) -> float:
    assert lat is not None
    assert lon is not None
    north = (lat - other_lat) * 60
    east = (lon - other_lon) * 60 * math.cos(math.radians(other_lat))
    return math.hypot(north, east)
