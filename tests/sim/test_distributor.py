"""The distributor under all faults: nothing is lost unnoticed, and broken ones are caught."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from skerry.errors import SimulationError
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered, UpdatesLost
from skerry.protocol.distributor.messages import REQUEST, RETRANSMISSION
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.patterns import PatternHandle
from skerry.testing import World, run_scenario
from skerry.testing.node import Setting
from skerry.testing.world import SECOND
from tests.sim import distributor
from tests.sim.distributor import (
    MakeConnection,
    make_connection,
    play_distributor,
)
from tests.sim.group_starts import play_starts
from tests.sim.group_storms import play_short_lives, play_storm

SCENARIO = f"{distributor.__name__}:distributor"
SEED_COUNT = 40
BROKEN_SEED_COUNT = 10


@pytest.mark.parametrize("node_count", [2, 4])
def test_the_scenario_holds_with_few_nodes(node_count: int) -> None:
    outcome = run_scenario(SCENARIO, 1, node_count=node_count)
    assert outcome.error is None
    assert outcome.fault_count > 20


@pytest.mark.slow
def test_the_scenario_meets_every_fault_it_is_made_of() -> None:
    seen: set[str] = set()
    reasons: set[str] = set()

    def look(line: str) -> None:
        row = json.loads(line)
        seen.add(row["event"])
        if row["event"] == "UpdatesLost":
            reasons.add(row["reason"])

    faults = {"stopped", "pause", "crash", "partition", "drift"}
    events = {"Delivered", "SenderFound", "SenderRemoved", "UpdatesLost"}
    for seed in range(20):
        run_scenario(SCENARIO, seed, node_count=6, sink=look)
        if faults | events <= seen and {"nak", "overflow", "retries"} <= reasons:
            return
    pytest.fail(f"only {seen} and {reasons} were met")


@pytest.mark.slow
def test_the_first_seeds_hold() -> None:
    for seed in range(SEED_COUNT):
        outcome = run_scenario(SCENARIO, seed, node_count=8)
        if outcome.error is not None:
            raise outcome.error
        assert outcome.fault_count > 0


@pytest.mark.slow
def test_a_pair_alone_holds() -> None:
    for seed in range(1000, 1020):
        outcome = run_scenario(SCENARIO, seed, node_count=2)
        if outcome.error is not None:
            raise outcome.error


@pytest.mark.slow
def test_a_seed_gives_the_same_run_again() -> None:
    first = run_scenario(SCENARIO, 3, node_count=3)
    assert first.error is None
    assert run_scenario(SCENARIO, 3, node_count=3) == first
    assert run_scenario(SCENARIO, 4, node_count=3).digest != first.digest


@pytest.mark.slow
def test_fifty_receivers_with_the_same_loss_send_few_requests_and_are_answered_once() -> None:
    for seed in range(2):
        play_storm(World(seed), 51)


@pytest.mark.slow
def test_no_update_of_changing_publishers_is_lost_silently() -> None:
    for seed in range(5):
        play_short_lives(World(seed), 32, loss=0.1)
        play_short_lives(World(seed), 32, loss=0.3)


@pytest.mark.slow
def test_updates_after_a_subscriber_joined_are_delivered_or_reported() -> None:
    for seed in range(30):
        play_starts(World(seed), 9)


@pytest.mark.slow
def test_a_stream_whose_start_is_lost_is_delivered_completely() -> None:
    for seed in range(20):
        accounted = play_starts(World(seed), 9, java_rate=0.0, loss=0.0, first_lost_count_max=5)
        assert accounted.is_whole()


# -- broken ones


class Delivering(GroupConnection):
    """Does something to the events on their way."""

    def take_events(self) -> Sequence[MachineEvent]:
        return [self.changed(event) for event in super().take_events() if self.is_told(event)]

    def is_told(self, event: MachineEvent) -> bool:
        return True

    def changed(self, event: MachineEvent) -> MachineEvent:
        return event


class HidesLosses(Delivering):
    """Passes over gaps without a word."""

    def is_told(self, event: MachineEvent) -> bool:
        return not isinstance(event, UpdatesLost)


class DeliversTwice(Delivering):
    """Delivers each update again."""

    def changed(self, event: MachineEvent) -> MachineEvent:
        if isinstance(event, Delivered):
            event.updates.append(event.updates[0])
        return event


class Swaps(Delivering):
    """Delivers in another order."""

    def changed(self, event: MachineEvent) -> MachineEvent:
        if isinstance(event, Delivered):
            event.updates.reverse()
        return event


class Withholds(Delivering):
    """Does not deliver some updates."""

    def changed(self, event: MachineEvent) -> MachineEvent:
        if isinstance(event, Delivered) and len(event.updates) > 2:
            del event.updates[1]
        return event


class Receiving(GroupConnection):
    """Does not hear some kinds of messages."""

    deaf_to: tuple[int, ...] = ()

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        if data[2] not in self.deaf_to:
            super().receive(data, source, now_ns)


class IgnoresRequests(Receiving):
    """Never sends anything again."""

    deaf_to = (REQUEST,)


class IgnoresAnswers(Receiving):
    """Never takes what was sent again."""

    deaf_to = (RETRANSMISSION,)


class NeverAsks(GroupConnection):
    """Waits for what is missing instead."""

    def take_transmits(self) -> Sequence[Transmit]:
        return [one for one in super().take_transmits() if one.data[2] != REQUEST]


def maker(kind: type[GroupConnection]) -> MakeConnection:
    def make(setting: Setting, config: DistributorConfig) -> GroupConnection:
        sound = make_connection(setting, config)
        return kind(
            group=distributor.GROUP,
            identity=sound.identity,
            rng=setting.rng,
            now_ns=setting.now_ns,
            config=config,
            wall_offset_ns=setting.wall_offset_ns,
        )

    return make


class BeginsWhereItHears(GroupConnection):
    """Takes each stream from the first datagram that arrives."""

    def subscribe(self, pattern: str, value: object, now_ns: int | None = None) -> PatternHandle:
        return super().subscribe(pattern, value)


@pytest.mark.slow
def test_a_connection_that_begins_with_the_first_received_datagram_is_caught() -> None:
    with pytest.raises(SimulationError) as error:
        for seed in range(BROKEN_SEED_COUNT):
            play_short_lives(World(seed), 32, make=maker(BeginsWhereItHears))
    assert error.value.checker == "short lives"


@pytest.mark.slow
def test_a_connection_that_does_not_ask_where_it_joined_is_caught() -> None:
    with pytest.raises(SimulationError) as error:
        for seed in range(BROKEN_SEED_COUNT):
            play_starts(World(seed), 9, make=BeginsWhereItHears)
    assert error.value.checker == "starts"


class AsksForAll(GroupConnection):
    """Takes all streams as begun after it joined."""

    def subscribe(self, pattern: str, value: object, now_ns: int | None = None) -> PatternHandle:
        assert now_ns is not None
        return super().subscribe(pattern, value, now_ns - 60 * SECOND)


@pytest.mark.slow
def test_a_connection_that_requests_earlier_datagrams_is_caught() -> None:
    with pytest.raises(SimulationError) as error:
        for seed in range(BROKEN_SEED_COUNT):
            play_starts(World(seed), 9, make=AsksForAll)
    assert error.value.checker == "StartsAccounted"


def caught(make: MakeConnection, seed: int) -> str | None:
    """The checker that catches it with this seed."""
    try:
        play_distributor(World(seed), 5, make=make, calm_ns=5 * SECOND)
    except SimulationError as error:
        return error.checker
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "checker"),
    [
        (HidesLosses, "StreamsInOrder"),
        (DeliversTwice, "StreamsInOrder"),
        (Swaps, "StreamsInOrder"),
        (Withholds, "StreamsInOrder"),
        (IgnoresRequests, "AllDelivered"),
        (IgnoresAnswers, "AllDelivered"),
        (NeverAsks, "AllDelivered"),
    ],
)
def test_a_broken_connection_is_caught(kind: type[GroupConnection], checker: str) -> None:
    assert any(caught(maker(kind), seed) == checker for seed in range(BROKEN_SEED_COUNT))


@pytest.mark.slow
def test_a_sound_connection_passes_the_same_seeds() -> None:
    assert not any(caught(maker(GroupConnection), seed) for seed in range(BROKEN_SEED_COUNT))


@pytest.mark.slow
def test_connections_that_request_at_once_cause_a_request_storm() -> None:
    def hasty(setting: Setting, config: DistributorConfig) -> GroupConnection:
        return make_connection(setting, DistributorConfig(request_delay_ms_max=0))

    with pytest.raises(SimulationError) as error:
        play_storm(World(1), 11, make=hasty)
    assert error.value.checker == "storm"
