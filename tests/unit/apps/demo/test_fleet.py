"""The demo's fleet."""

from __future__ import annotations

from random import Random

import pytest

from skerry.apps.demo.fleet import BearingRequest, Fleet, Vessel, Voyage, bearing, close_pairs
from tests.unit.apps.demo.memory_space import MemorySpace


def sail(seed: int, *, steps: int, count: int = 12) -> tuple[MemorySpace, Fleet]:
    local = MemorySpace()
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
    _, fleet = sail(1, steps=120)
    assert max(fleet.vessels) > 265_000_000 + 12


def test_every_vessel_that_set_out_has_a_voyage() -> None:
    local, fleet = sail(1, steps=120)
    voyages = {voyage.mmsi for voyage in local.container(Voyage).values()}
    assert voyages == {voyage.mmsi for voyage in fleet.voyages}
    assert voyages >= set(fleet.vessels)


def test_all_vessels_can_be_published_again() -> None:
    _, fleet = sail(1, steps=20)
    fresh = MemorySpace()
    fleet._space = fresh
    fleet.publish_all()
    assert {vessel.mmsi: vessel for vessel in fresh.container(Vessel).values()} == fleet.vessels


def test_same_seed_sails_the_same_way() -> None:
    assert sail(5, steps=20)[1].vessels == sail(5, steps=20)[1].vessels
    assert sail(5, steps=20)[1].vessels != sail(6, steps=20)[1].vessels


def test_fleets_of_different_numbers_do_not_meet() -> None:
    fleet = Fleet(MemorySpace(), Random(1), count=3, first_mmsi=266_000_000)
    fleet.step(now_s=0.0, elapsed_s=0.0)
    assert sorted(fleet.vessels) == [266_000_000, 266_000_001, 266_000_002]


def test_pairs_are_close_within_half_a_mile() -> None:
    places = {1: (57.0, 11.0), 2: (57.0 + 0.4 / 60, 11.0), 3: (57.0 + 1.0 / 60, 11.0)}
    assert list(close_pairs(places)) == [(1, 2)]
    assert close_pairs({}) == {}


@pytest.mark.parametrize(
    ("to_lat", "to_lon", "course", "miles"),
    [(58.0, 11.0, 0, 60), (57.0, 12.0, 90, 32.7), (56.0, 11.0, 180, 60), (57.0, 10.0, 270, 32.7)],
)
def test_a_pilot_knows_the_way(to_lat: float, to_lon: float, course: float, miles: float) -> None:
    found = bearing(BearingRequest(lat=57.0, lon=11.0, to_lat=to_lat, to_lon=to_lon), "Ada")
    assert found.pilot == "Ada"
    assert found.course == pytest.approx(course, abs=0.01)
    assert found.miles == pytest.approx(miles, abs=0.1)
