"""Workloads: when they act, how often, and that they stop."""

from __future__ import annotations

from random import Random

import pytest

from skerry.testing import MS, SECOND, Repeat, Script, World


def test_repeat_acts_after_gaps_within_its_bounds(world: World) -> None:
    times_ns: list[int] = []
    world.drive(
        Repeat(lambda world, _: times_ns.append(world.now_ns), gap_ns_min=MS, gap_ns_max=3 * MS)
    )
    world.run_for(SECOND)
    gaps_ns = [b - a for a, b in zip([0, *times_ns], times_ns, strict=False)]
    assert 400 < len(times_ns) < 600
    assert min(gaps_ns) >= MS
    assert max(gaps_ns) <= 3 * MS
    assert len(set(gaps_ns)) > 100


def test_repeat_ends_after_its_count(world: World) -> None:
    acts: list[int] = []
    workload = Repeat(lambda world, _: acts.append(world.now_ns), gap_ns_min=MS, count=3)
    world.drive(workload)
    assert not workload.is_done
    world.run_for(SECOND)
    assert acts == [MS, 2 * MS, 3 * MS]
    assert workload.is_done


def test_calm_stops_workloads(world: World) -> None:
    acts: list[str] = []
    repeat = Repeat(lambda _world, _rng: acts.append("repeat"), gap_ns_min=10 * MS)
    script = Script([(5 * MS, lambda _w, _r: acts.append("early")), (SECOND, _never)])
    world.drive(repeat)
    world.drive(script)
    world.run_for(15 * MS)
    world.calm()
    world.run_for(5 * SECOND)
    assert acts == ["early", "repeat"]
    assert repeat.is_done
    assert script.is_done


def test_a_script_acts_at_its_times(world: World) -> None:
    times_ns: list[int] = []
    script = Script([(n * MS, lambda world, _: times_ns.append(world.now_ns)) for n in (3, 1, 2)])
    world.run_for(SECOND)
    world.drive(script)
    world.run_for(SECOND)
    assert times_ns == [SECOND + MS, SECOND + 2 * MS, SECOND + 3 * MS]
    assert script.is_done


def test_each_workload_has_chance_of_its_own(world: World) -> None:
    draws: dict[str, list[float]] = {"a": [], "b": []}
    world.drive(Repeat(lambda _, rng: draws["a"].append(rng.random()), gap_ns_min=MS, count=5))
    world.drive(Repeat(lambda _, rng: draws["b"].append(rng.random()), gap_ns_min=MS, count=5))
    world.run_for(SECOND)
    assert len(draws["a"]) == 5
    assert not set(draws["a"]) & set(draws["b"])


@pytest.mark.parametrize(("gap_ns_min", "gap_ns_max"), [(0, 1), (2, 1)])
def test_gaps_that_stop_time_are_a_bug(gap_ns_min: int, gap_ns_max: int) -> None:
    with pytest.raises(AssertionError):
        Repeat(_never, gap_ns_min=gap_ns_min, gap_ns_max=gap_ns_max)


def _never(_world: World, _rng: Random) -> None:
    raise AssertionError("a stopped workload acted")
