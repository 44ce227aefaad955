"""The demo's fleet."""

from __future__ import annotations

from random import Random

import skerry
from skerry.apps.fleet import Alarm, Fleet, Hail, Vessel
from skerry.engine.local import LocalSpace


def sail(seed: int, *, steps: int, count: int = 12) -> tuple[LocalSpace, Fleet]:
    local = LocalSpace(lambda: 0)
    fleet = Fleet(local, Random(seed), count=count)
    for step in range(steps):
        fleet.step(now_s=float(step), elapsed_s=1.0)
    return local, fleet


def test_space_has_exactly_the_vessels_under_way() -> None:
    local, fleet = sail(1, steps=50)
    current = {vessel.mmsi: vessel for vessel in local.container(Vessel).values()}
    assert current == fleet.vessels
    assert len(current) <= 12


def test_vessels_that_leave_are_replaced_by_new_ones() -> None:
    _, fleet = sail(1, steps=200)
    assert max(fleet.vessels) > 265_000_000 + 12


def test_alarms_point_to_vessels_that_are_there() -> None:
    local, fleet = sail(3, steps=30, count=60)
    alarms = list(local.container(Alarm).values())
    assert alarms
    for alarm in alarms:
        assert alarm.vessel == skerry.ref_to(fleet.vessels[alarm.first])


def test_same_seed_sails_the_same_way() -> None:
    assert sail(5, steps=20)[1].vessels == sail(5, steps=20)[1].vessels
    assert sail(5, steps=20)[1].vessels != sail(6, steps=20)[1].vessels


def test_vessels_call_each_other() -> None:
    local = LocalSpace(lambda: 0)
    heard: list[object] = []
    local.subscribe(Hail, lambda event: heard.append(event.object.caller))
    fleet = Fleet(local, Random(1), count=20)
    for step in range(20):
        fleet.step(now_s=float(step), elapsed_s=1.0)
    assert heard
