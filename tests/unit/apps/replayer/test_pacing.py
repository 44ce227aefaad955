"""The clock of a playback: due times, pause, step and loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from skerry.apps.replayer.pacing import DUE_COUNT_MAX, Pacer
from skerry.codec.envelope import CREATE, GAP, SNAPSHOT, UPDATE, Update

S = 1_000_000_000
NOW = 500 * S
DAY = 1_700_000_000 * S


def update(seconds: float, operation: int = UPDATE) -> Update:
    return Update(
        type_name="Vessel",
        subject=f"/Vessel/{seconds}",
        operation=operation,
        present=2,
        key=b"\x81\x01",
        payload=b"\xa1\x01\x01",
        time_ns=DAY + round(seconds * S),
    )


def pacer(*updates: Update, **options: object) -> Pacer[Update]:
    def begin() -> Iterator[Update]:
        return iter(updates)

    return Pacer(begin, **options)  # type: ignore[arg-type]


def times(updates: list[Update]) -> list[float]:
    return [(found.time_ns - DAY) / S for found in updates]


def test_updates_come_as_far_apart_as_they_were() -> None:
    machine = pacer(update(0), update(1), update(3))
    assert times(machine.take_due(NOW)) == [0]
    assert machine.deadline_ns(NOW) == NOW + S
    assert machine.take_due(NOW + S - 1) == []
    assert times(machine.take_due(NOW + S)) == [1]
    assert times(machine.take_due(NOW + 10 * S)) == [3]
    assert machine.deadline_ns(NOW + 10 * S) is None
    assert machine.is_over
    assert machine.played_count == 3


def test_speed_scales_the_intervals() -> None:
    machine = pacer(update(0), update(1), speed=4.0)
    machine.take_due(NOW)
    assert machine.deadline_ns(NOW) == NOW + S // 4


def test_without_a_speed_all_are_due_at_once() -> None:
    machine = pacer(update(0), update(3600), speed=None)
    assert times(machine.take_due(NOW)) == [0, 3600]


def test_no_more_are_given_at_once_than_others_can_wait_for() -> None:
    machine = pacer(*(update(0) for _ in range(DUE_COUNT_MAX + 1)), speed=None)
    assert len(machine.take_due(NOW)) == DUE_COUNT_MAX
    assert machine.deadline_ns(NOW) == NOW
    assert len(machine.take_due(NOW)) == 1


def test_snapshot_rows_are_due_at_once_and_do_not_start_the_clock() -> None:
    machine = pacer(update(-3600, SNAPSHOT), update(10), update(11))
    assert times(machine.take_due(NOW)) == [-3600, 10]
    assert machine.deadline_ns(NOW) == NOW + S
    assert machine.played_count == 1
    assert machine.time_ns == DAY + 10 * S


def test_a_time_that_goes_back_delays_and_reorders_nothing() -> None:
    machine = pacer(update(5), update(2), update(6))
    assert times(machine.take_due(NOW)) == [5, 2]
    assert machine.time_ns == DAY + 5 * S
    assert machine.deadline_ns(NOW) == NOW + S


def test_the_clock_stops_while_paused() -> None:
    machine = pacer(update(0), update(2))
    machine.take_due(NOW)
    machine.pause(NOW + S)
    assert machine.take_due(NOW + 100 * S) == []
    assert machine.deadline_ns(NOW + 100 * S) is None
    machine.resume(NOW + 100 * S)
    assert machine.deadline_ns(NOW + 100 * S) == NOW + 101 * S


def test_a_step_gives_one_more_whenever_it_is_due() -> None:
    machine = pacer(update(0), update(60), update(61), is_paused=True)
    assert machine.take_due(NOW) == []
    machine.step()
    assert machine.deadline_ns(NOW) == NOW
    assert times(machine.take_due(NOW)) == [0]
    machine.step()
    assert times(machine.take_due(NOW)) == [60]
    machine.resume(NOW + 5 * S)
    assert machine.deadline_ns(NOW + 5 * S) == NOW + 6 * S


def test_steps_count_only_while_paused() -> None:
    machine = pacer(update(0), update(60))
    machine.step()
    machine.take_due(NOW)
    machine.pause(NOW)
    assert machine.take_due(NOW) == []


def test_a_loop_starts_again_at_its_end() -> None:
    machine = pacer(update(0, CREATE), update(1), is_looping=True)
    machine.take_due(NOW)
    assert times(machine.take_due(NOW + S)) == [1]
    assert (machine.round_count, machine.played_round) == (2, 1)
    assert times(machine.take_due(NOW + S)) == [0]
    assert machine.played_round == 2
    assert machine.deadline_ns(NOW + S) == NOW + 2 * S


def test_a_loop_of_nothing_ends() -> None:
    machine = pacer(is_looping=True)
    assert machine.take_due(NOW) == []
    assert machine.is_over


def test_gaps_keep_their_order_and_are_not_counted() -> None:
    machine = pacer(update(0), update(1, GAP), update(2))
    machine.take_due(NOW)
    assert machine.deadline_ns(NOW) == NOW + S
    assert [found.operation for found in machine.take_due(NOW + S)] == [GAP]
    assert machine.played_count == 1


def test_pausing_and_going_on_twice_changes_nothing() -> None:
    machine = pacer(update(0), update(1))
    machine.take_due(NOW)
    machine.resume(NOW)
    machine.pause(NOW)
    machine.pause(NOW + 3 * S)
    machine.resume(NOW + 5 * S)
    assert machine.deadline_ns(NOW + 5 * S) == NOW + 6 * S


@pytest.mark.parametrize("speed", [5e-324, 1e-300, 1e300])
def test_any_speed_is_one(speed: float) -> None:
    clock = pacer(update(0), update(1000), speed=speed)
    assert len(clock.take_due(NOW)) >= 1
    clock.deadline_ns(NOW)
    clock.pause(NOW + S)
    clock.resume(NOW + 2 * S)
    assert clock.time_ns is not None
