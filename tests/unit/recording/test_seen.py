"""Detection of duplicates by node, sender and number."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from skerry.codec.envelope import DISTRIBUTOR, SNAPSHOT, Update
from skerry.recording.seen import RECORDING_SEEN_RANGE_COUNT_MAX, SeenUpdates

UpdateOf = Callable[..., Update]


def test_the_same_update_is_new_once(update_of: UpdateOf) -> None:
    seen = SeenUpdates()
    assert seen.is_new(update_of(1))
    assert not seen.is_new(update_of(1, time_ns=5))
    assert seen.duplicate_count == 1


def test_nodes_and_senders_are_independent(update_of: UpdateOf) -> None:
    seen = SeenUpdates()
    found = [update_of(1), update_of(1, node=4), update_of(1, sender=8), update_of(2)]
    assert all(map(seen.is_new, found))


def test_multicast_update_is_the_same_at_every_receiver(update_of: UpdateOf) -> None:
    seen = SeenUpdates()
    assert seen.is_new(update_of(1, source=DISTRIBUTOR, node=4))
    assert not seen.is_new(update_of(1, source=DISTRIBUTOR, node=5))


def test_updates_without_a_number_are_always_new(update_of: UpdateOf) -> None:
    seen = SeenUpdates()
    assert all(seen.is_new(update_of(1, sequence=0)) for _ in range(3))


def test_snapshot_is_not_a_duplicate_of_its_last_update(update_of: UpdateOf) -> None:
    seen = SeenUpdates()
    assert seen.is_new(update_of(1))
    assert seen.is_new(update_of(1, operation=SNAPSHOT))
    assert not seen.is_new(update_of(1, operation=SNAPSHOT))


def test_any_order_gives_the_results_of_a_set(update_of: UpdateOf) -> None:
    chance = random.Random(1)
    seen, model = SeenUpdates(), set[int]()
    for _ in range(3000):
        number = chance.randrange(1, 500)
        assert seen.is_new(update_of(number)) == (number not in model)
        model.add(number)


def test_memory_is_bounded(update_of: UpdateOf) -> None:
    seen = SeenUpdates(range_count_max=10)
    assert all(seen.is_new(update_of(2 * number)) for number in range(1, 100))
    assert not seen.is_new(update_of(198)), "the last ones are remembered"
    assert seen.is_new(update_of(2)), "the first ones are forgotten"
    assert all(seen.is_new(update_of(1, sender=number)) for number in range(100, 150))
    assert seen.is_new(update_of(198)), "the sender that came first goes first"


def test_dense_numbers_use_one_range(update_of: UpdateOf) -> None:
    seen = SeenUpdates(range_count_max=1)
    assert all(seen.is_new(update_of(number)) for number in range(1, 1000))
    assert not seen.is_new(update_of(1))


@pytest.mark.slow
def test_limit_is_reached_and_not_exceeded(update_of: UpdateOf) -> None:
    seen = SeenUpdates()
    update = update_of(1)
    for number in range(1, RECORDING_SEEN_RANGE_COUNT_MAX + 1000):
        update.sequence = 2 * number
        assert seen.is_new(update)
    assert seen._range_count <= RECORDING_SEEN_RANGE_COUNT_MAX
