"""The collision alarm of the demo."""

from __future__ import annotations

import skerry
from skerry.apps.demo.fleet import Alarm, CollisionAlarm, Vessel
from tests.unit.apps.demo.memory_space import MemorySpace


def test_alarm_is_published_once_and_removed() -> None:
    space = MemorySpace()
    alarm = CollisionAlarm(space)
    space.subscribe(Vessel, alarm.note)
    first, second = Vessel(mmsi=1, lat=57.0, lon=11.0), Vessel(mmsi=2, lat=57.001, lon=11.0)
    space.publish(first)
    space.publish(second)
    alarm.check(1.0)
    alarm.check(2.0)
    (raised,) = space.container(Alarm).values()
    assert (raised.first, raised.second, raised.since) == (1, 2, 1.0)
    assert raised.vessel == skerry.ref_to(first)
    space.publish(Vessel(mmsi=2, lat=58.0))
    alarm.check(3.0)
    assert len(space.container(Alarm)) == 0
    assert (alarm.raised_count, alarm.event_count) == (1, 3)


def test_removed_vessel_raises_no_alarm() -> None:
    space = MemorySpace()
    alarm = CollisionAlarm(space)
    space.subscribe(Vessel, alarm.note)
    for mmsi in (1, 2):
        space.publish(Vessel(mmsi=mmsi, lat=57.0, lon=11.0))
    space.publish(Vessel(mmsi=3))
    space.remove(Vessel(mmsi=2))
    alarm.check(1.0)
    assert len(space.container(Alarm)) == 0
    assert alarm.places == {1: (57.0, 11.0)}


def test_all_alarms_can_be_published_again() -> None:
    alarm = CollisionAlarm(MemorySpace())
    alarm.places = {1: (57.0, 11.0), 2: (57.0, 11.0)}
    alarm.check(1.0)
    fresh = MemorySpace()
    alarm._space = fresh
    alarm.publish_all()
    assert len(fresh.container(Alarm)) == 1
