"""The fleet of the demo: a few dozen vessels under way in a bay.

Its types are declared in Python; `skerry.to_dots` shows them in the type language.
"""

from __future__ import annotations

import math
from random import Random
from typing import Annotated, Final

import skerry
from skerry.engine.local import LocalSpace

__all__ = ["Alarm", "Fleet", "Hail", "Vessel", "VesselKind"]


class VesselKind(skerry.Enum):
    """What a vessel is for."""

    cargo = 1
    tanker = 2
    ferry = 3
    pilot = 4


@skerry.struct
class Vessel(skerry.Struct):
    """A vessel under way."""

    mmsi: skerry.uint32 | None = skerry.key(1, documentation="its radio identity")
    name: str | None = skerry.field(2)
    kind: VesselKind | None = skerry.field(3)
    lat: float | None = skerry.field(4, documentation="degrees north")
    lon: float | None = skerry.field(5, documentation="degrees east")
    course: skerry.float32 | None = skerry.field(6, documentation="degrees from north")
    speed: skerry.float32 | None = skerry.field(7, documentation="knots")
    seen: skerry.timepoint | None = skerry.field(8, documentation="when it was there")


@skerry.struct
class Alarm(skerry.Struct):
    """Two vessels are closer than they should be."""

    first: skerry.uint32 | None = skerry.key(1)
    second: skerry.uint32 | None = skerry.key(2)
    vessel: Annotated[skerry.Ref, "Vessel"] | None = skerry.field(3)
    miles: skerry.float32 | None = skerry.field(4)
    since: skerry.timepoint | None = skerry.field(5)


@skerry.struct(cached=False)
class Hail(skerry.Struct):
    """A call by radio: who listens hears it, and then it is gone."""

    caller: skerry.uint32 | None = skerry.field(1)
    text: str | None = skerry.field(2)


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

    def __init__(self, space: LocalSpace, rng: Random, *, count: int) -> None:
        assert count > 0
        self._space = space
        self._rng = rng
        self._count = count
        self._launched = 0
        self._alarms: dict[tuple[int, int], Alarm] = {}
        self.vessels: dict[int, Vessel] = {}
        """The vessels as they really are, to compare with what the space says."""
        self.published_count = 0
        self.payload_bytes = 0

    def step(self, *, now_s: float, elapsed_s: float) -> None:
        """Let so much time pass."""
        while len(self.vessels) < self._count:
            self._launch(now_s)
        for vessel in list(self.vessels.values()):
            self._sail(vessel, now_s, elapsed_s)
            if _miles(vessel, *_CENTRE) > _BAY_MILES:
                self._leave(vessel)
        self._watch(now_s)

    def _launch(self, now_s: float) -> None:
        number = self._launched
        self._launched += 1
        angle = self._rng.uniform(0, 2 * math.pi)
        distance = self._rng.uniform(0.2, 0.9) * _BAY_MILES
        lat, lon = _moved(*_CENTRE, math.degrees(angle), distance)
        vessel = Vessel(
            mmsi=265_000_000 + number,
            name=f"{_NAMES[number % len(_NAMES)]} {number // len(_NAMES) + 1}",
            kind=self._rng.choice(list(VesselKind)),
            lat=lat,
            lon=lon,
            # Numbers that a float32 holds exactly, so that what comes back is what was sent.
            course=float(self._rng.randrange(360)),
            speed=self._rng.randrange(16, 80) / 4,
            seen=now_s,
        )
        assert vessel.mmsi is not None
        self.vessels[vessel.mmsi] = vessel
        self._count_up(self._space.publish(vessel))

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
        self._count_up(self._space.publish(vessel, only=changed))
        if self._rng.random() < 0.01:
            self._count_up(self._space.publish(Hail(caller=vessel.mmsi, text="good morning")))

    def _leave(self, vessel: Vessel) -> None:
        assert vessel.mmsi is not None
        del self.vessels[vessel.mmsi]
        self._count_up(self._space.remove(vessel))

    def _watch(self, now_s: float) -> None:
        """Raise an alarm for each pair that is too close, and end those that are not any more."""
        close: dict[tuple[int, int], float] = {}
        fleet = sorted(self.vessels.items())
        for index, (mmsi, vessel) in enumerate(fleet):
            for other_mmsi, other in fleet[index + 1 :]:
                assert other.lat is not None
                assert other.lon is not None
                miles = _miles(vessel, other.lat, other.lon)
                if miles < _CLOSE_MILES:
                    close[mmsi, other_mmsi] = miles
        for pair, miles in close.items():
            if pair not in self._alarms:
                alarm = Alarm(
                    first=pair[0],
                    second=pair[1],
                    vessel=skerry.ref_to(self.vessels[pair[0]]),
                    miles=miles,
                    since=now_s,
                )
                self._alarms[pair] = alarm
                self._count_up(self._space.publish(alarm))
        for pair in [pair for pair in self._alarms if pair not in close]:
            self._count_up(self._space.remove(self._alarms.pop(pair)))

    def _count_up(self, update: skerry.Update) -> None:
        self.published_count += 1
        self.payload_bytes += len(update.payload)


def _moved(lat: float, lon: float, course: float, miles: float) -> tuple[float, float]:
    """A place so many nautical miles away; a minute of latitude is one."""
    north = miles * math.cos(math.radians(course)) / 60
    east = miles * math.sin(math.radians(course)) / 60 / math.cos(math.radians(lat))
    return lat + north, lon + east


def _miles(vessel: Vessel, lat: float, lon: float) -> float:
    assert vessel.lat is not None
    assert vessel.lon is not None
    north = (vessel.lat - lat) * 60
    east = (vessel.lon - lon) * 60 * math.cos(math.radians(lat))
    return math.hypot(north, east)
