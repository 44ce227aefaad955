"""The fleet of the demo: a few dozen vessels under way in a bay.

Its types are declared in Python; `skerry.to_dots` shows them in the type language.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random
from typing import Annotated, Any, Final, Protocol

import skerry

__all__ = [
    "Alarm",
    "Bearing",
    "BearingRequest",
    "Fleet",
    "FleetPublisher",
    "Radar",
    "Vessel",
    "VesselKind",
    "Voyage",
    "bearing",
    "close_pairs",
]


class VesselKind(skerry.Enum):
    """What a vessel is for."""

    cargo = 1
    tanker = 2
    ferry = 3
    pilot = 4


@skerry.struct(cleanup=True)
class Vessel(skerry.Struct):
    """A vessel under way; it goes with the program that published it."""

    mmsi: skerry.uint32 | None = skerry.key(1, documentation="its radio identity")
    name: str | None = skerry.field(2)
    kind: VesselKind | None = skerry.field(3)
    lat: float | None = skerry.field(4, documentation="degrees north")
    lon: float | None = skerry.field(5, documentation="degrees east")
    course: skerry.float32 | None = skerry.field(6, documentation="degrees from north")
    speed: skerry.float32 | None = skerry.field(7, documentation="knots")
    seen: skerry.timepoint | None = skerry.field(8, documentation="when it was there")


@skerry.struct(persistent=True)
class Voyage(skerry.Struct):
    """That a vessel set out: stored, and there again after the node was."""

    mmsi: skerry.uint32 | None = skerry.key(1)
    departed: skerry.timepoint | None = skerry.field(2)


@skerry.struct(cleanup=True)
class Alarm(skerry.Struct):
    """Two vessels are closer than they should be."""

    first: skerry.uint32 | None = skerry.key(1)
    second: skerry.uint32 | None = skerry.key(2)
    vessel: Annotated[skerry.Ref, "Vessel"] | None = skerry.field(3)
    miles: skerry.float32 | None = skerry.field(4)
    since: skerry.timepoint | None = skerry.field(5)


@skerry.struct(cleanup=True)
class Radar(skerry.Struct):
    """The last picture of a radar: large, and of interest only as long as it is the last."""

    site: str | None = skerry.key(1)
    number: skerry.uint32 | None = skerry.field(2)
    picture: bytes | None = skerry.field(3)


@skerry.struct(cached=False)
class BearingRequest(skerry.Struct):
    """A question to a pilot: how does one get from here to there?"""

    lat: float | None = skerry.field(1, documentation="degrees north")
    lon: float | None = skerry.field(2, documentation="degrees east")
    to_lat: float | None = skerry.field(3)
    to_lon: float | None = skerry.field(4)


@skerry.struct(cached=False)
class Bearing(skerry.Struct):
    """The answer of a pilot."""

    pilot: str | None = skerry.field(1, documentation="who answered")
    course: skerry.float32 | None = skerry.field(2, documentation="degrees from north")
    miles: skerry.float32 | None = skerry.field(3)


class FleetPublisher(Protocol):
    """What takes objects: a space of a node, or one inside the program."""

    def publish(self, what: Any, *, only: Iterable[str] | None = None) -> object: ...
    def remove(self, obj: Any) -> object: ...


_NAMES: Final = [
    "Aldebaran",
    "Brise",
    "Corona",
    "Dagny",
    "Ebba",
    "Fjord",
    "Gannet",
    "Heron",
    "Isbrytaren",
    "Jolly",
    "Kittiwake",
    "Lumen",
    "Maren",
    "Nereid",
    "Orca",
    "Petrel",
    "Quill",
    "Ragna",
    "Selkie",
    "Tern",
    "Ulla",
    "Vega",
    "Wren",
    "Ymir",
    "Zephyr",
]
_CENTRE: Final = (57.68, 11.70)
_BAY_MILES: Final = 12.0
_CLOSE_MILES: Final = 0.5


class Fleet:
    """Moves vessels and publishes what changed; `rng` decides where they go."""

    def __init__(
        self, space: FleetPublisher, rng: Random, *, count: int, first_mmsi: int = 265_000_000
    ) -> None:
        assert count > 0
        self._space = space
        self._rng = rng
        self._count = count
        self._next_mmsi = first_mmsi
        self.vessels: dict[int, Vessel] = {}
        """The vessels as they really are, to compare with what the space says."""
        self.voyages: list[Voyage] = []
        """Those of all vessels that ever set out."""
        self.published_count = 0

    def step(self, *, now_s: float, elapsed_s: float) -> None:
        """Let so much time pass."""
        while len(self.vessels) < self._count:
            self._launch(now_s)
        for vessel in list(self.vessels.values()):
            self._sail(vessel, now_s, elapsed_s)
            if _miles(vessel.lat, vessel.lon, *_CENTRE) > _BAY_MILES:
                self._leave(vessel)

    def publish_all(self) -> None:
        """Tell of everything that is there, for a node that knows nothing of it any more."""
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
            # Numbers that a float32 holds exactly, so that what comes back is what was sent.
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
        # A hundred times as fast as real ships, so that something is to be seen.
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


def close_pairs(
    places: Mapping[int, tuple[float, float]],
) -> dict[tuple[int, int], float]:
    """Pairs that are too close to each other, and how many miles; the lower number first."""
    found: dict[tuple[int, int], float] = {}
    fleet = sorted(places.items())
    for index, (first, place) in enumerate(fleet):
        for second, other in fleet[index + 1 :]:
            miles = _miles(*place, *other)
            if miles < _CLOSE_MILES:
                found[first, second] = miles
    return found


def bearing(question: BearingRequest, pilot: str) -> Bearing:
    """What a pilot answers: the course and how far it is."""
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
    """A place so many nautical miles away; a minute of latitude is one."""
    north = miles * math.cos(math.radians(course)) / 60
    east = miles * math.sin(math.radians(course)) / 60 / math.cos(math.radians(lat))
    return lat + north, lon + east


def _miles(lat: float | None, lon: float | None, other_lat: float, other_lon: float) -> float:
    assert lat is not None
    assert lon is not None
    north = (lat - other_lat) * 60
    east = (lon - other_lon) * 60 * math.cos(math.radians(other_lat))
    return math.hypot(north, east)
