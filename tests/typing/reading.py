"""Reading fields: each is of its type or None, and of nothing else."""

from __future__ import annotations

from typing import assert_type
from uuid import UUID

import skerry
from tests.typing.fleet import Alarm, Place, Purpose, Vessel


def fields(vessel: Vessel, alarm: Alarm) -> None:
    assert_type(vessel.mmsi, int)
    assert_type(alarm.id, int)
    assert_type(vessel.name, str | None)
    assert_type(vessel.place, Place | None)
    assert_type(vessel.purpose, Purpose | None)
    assert_type(vessel.destinations, list[str] | None)
    assert_type(vessel.track, list[Place] | None)
    assert_type(vessel.seen, float | None)
    assert_type(vessel.age, float | None)
    assert_type(vessel.raw, bytes | None)
    assert_type(vessel.number, UUID | None)
    assert_type(vessel.parts, skerry.PropertySet | None)
    assert_type(vessel.thing, skerry.AnyObject | None)
    assert_type(vessel.tug, skerry.Ref | None)
    assert_type(vessel.active, bool | None)
    assert_type(vessel.class_, str | None)
    assert_type(vessel.encode_, str | None)
    assert_type(vessel.list, list[Purpose] | None)
    assert_type(alarm.vessel, Vessel | None)


def narrowed(vessel: Vessel) -> float:
    if vessel.place is None or vessel.place.lat is None:
        return 0.0
    return vessel.place.lat


def inherited(vessel: Vessel) -> None:
    assert_type(vessel.encode(), bytes)
    assert_type(Vessel.decode(b""), Vessel)
    assert_type(Vessel.from_json("{}"), Vessel)
    assert_type(vessel.attributes, skerry.PropertySet)
    assert_type(vessel.is_set("mmsi"), bool)
    assert_type(skerry.merge(vessel, vessel), Vessel)


def members(purpose: Purpose) -> None:
    assert_type(purpose.tag, int)
    assert_type(purpose.value, int)
    assert_type(purpose.label, str)
    assert_type(Purpose.of_tag(1), Purpose)
    assert_type([member.name for member in Purpose], list[str])
