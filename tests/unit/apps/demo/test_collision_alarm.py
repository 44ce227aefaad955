"""The demo's lookout."""

from __future__ import annotations

import skerry
from skerry.apps.demo.collision_alarm import CollisionAlarm
from skerry.apps.demo.fleet import Alarm, Vessel
from tests.unit.apps.demo.memory_space import MemorySpace


def test_alarm_is_raised_once_and_ends() -> None:
    space = MemorySpace()
    lookout = CollisionAlarm(space)
    space.subscribe(Vessel, lookout.note)
    first, second = Vessel(mmsi=1, lat=57.0, lon=11.0), Vessel(mmsi=2, lat=57.001, lon=11.0)
    space.publish(first)
    space.publish(second)
    lookout.watch(1.0)
    lookout.watch(2.0)
    (alarm,) = space.container(Alarm).values()
    assert (alarm.first, alarm.second, alarm.since) == (1, 2, 1.0)
    assert alarm.vessel == skerry.ref_to(first)
    space.publish(Vessel(mmsi=2, lat=58.0))
    lookout.watch(3.0)
    assert len(space.container(Alarm)) == 0
    assert (lookout.raised_count, lookout.event_count) == (1, 3)


def test_vessel_that_is_gone_raises_no_alarm() -> None:
    space = MemorySpace()
    lookout = CollisionAlarm(space)
    space.subscribe(Vessel, lookout.note)
    for mmsi in (1, 2):
        space.publish(Vessel(mmsi=mmsi, lat=57.0, lon=11.0))
    space.publish(Vessel(mmsi=3))
    space.remove(Vessel(mmsi=2))
    lookout.watch(1.0)
    assert len(space.container(Alarm)) == 0
    assert lookout.places == {1: (57.0, 11.0)}


def test_all_alarms_can_be_told_again() -> None:
    lookout = CollisionAlarm(MemorySpace())
    lookout.places = {1: (57.0, 11.0), 2: (57.0, 11.0)}
    lookout.watch(1.0)
    fresh = MemorySpace()
    lookout._space = fresh
    lookout.publish_all()
    assert len(fresh.container(Alarm)) == 1
