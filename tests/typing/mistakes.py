"""Mistakes: each line that must be refused says by which rule. A test takes the words away."""

from __future__ import annotations

from typing import assert_never

import skerry
from tests.typing.fleet import Alarm, Place, Purpose, Vessel


def wrong_arguments() -> None:
    Vessel(mmsi="244660000")  # type: ignore[arg-type]
    Vessel(1, "Anna", Place())  # type: ignore[call-arg]
    Vessel(speed=3.0)  # type: ignore[call-arg]
    Vessel(destinations="Rotterdam")  # type: ignore[arg-type]
    Vessel(track=[Purpose.cargo])  # type: ignore[list-item]
    Vessel(parts=6)  # type: ignore[arg-type]
    Alarm(1)  # type: ignore[call-arg]
    Place(lat=Purpose.cargo)  # type: ignore[arg-type]


def unset_is_not_a_value(vessel: Vessel) -> float:
    vessel.name.upper()  # type: ignore[union-attr]
    return vessel.age + 1  # type: ignore[operator]


def wrong_assignments(vessel: Vessel) -> None:
    vessel.mmsi = 1.5  # type: ignore[assignment]
    vessel.mmsi = None  # type: ignore[assignment]
    vessel.purpose = 2  # type: ignore[assignment]
    vessel.sped = 3.0  # type: ignore[attr-defined]
    vessel.colours = []  # type: ignore[attr-defined]
    vessel.encode = "text"  # type: ignore[method-assign,assignment]


def forgotten_member(purpose: Purpose) -> str:
    match purpose:
        case Purpose.cargo | Purpose.tanker:
            return "sea"
        case _:
            assert_never(purpose)  # type: ignore[arg-type]


def wrong_pattern(vessel: Vessel) -> None:
    match vessel:
        case Vessel(_, _, _):  # type: ignore[misc]
            pass  # type: ignore[unreachable]


@skerry.struct
class Declared(skerry.Struct):
    id: skerry.uint32 | None = skerry.key(1)


Declared(id="1")  # type: ignore[arg-type]
Declared(number=1)  # type: ignore[call-arg]


def wrong_talk(space: skerry.Space) -> None:
    space.publish(1)  # type: ignore[call-overload]
    space.publish("/prices/X", "text")  # type: ignore[call-overload]
    space.remove("/prices/X")  # type: ignore[arg-type]
    space.request(Alarm(), answer=int)  # type: ignore[type-var]
    _ = space.request(Alarm(), answer=Vessel).speed  # type: ignore[attr-defined]
    space.subscribe(Vessel, on_slow="wait")  # type: ignore[arg-type]
    space.subscribe(Vessel, lambda event: event.object.speed)  # type: ignore[attr-defined]
    for event in space.subscribe(Vessel):
        event.object.sped = 1  # type: ignore[attr-defined]
