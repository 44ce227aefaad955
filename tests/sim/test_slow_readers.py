"""Slow readers and objects that change their subjects: the scenarios hold, their faults occur."""

from __future__ import annotations

import json

import pytest

from skerry.testing import World, run_scenario
from skerry.testing.checkers import Checker
from skerry.testing.machines.node_checkers import subjects_of
from skerry.testing.machines.program import PLAIN
from tests.sim import slow_readers
from tests.sim.slow_readers import moving_subject, play_moves, play_slow


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slow", "moves"])
def test_a_scenario_holds_with_few_programs(name: str) -> None:
    outcome = run_scenario(f"{slow_readers.__name__}:{name}", 1, node_count=3)
    assert outcome.error is None, outcome.error
    assert outcome.fault_count > 10


@pytest.mark.slow
def test_readers_are_slow_and_are_disconnected() -> None:
    seen: set[str] = set()
    for seed in range(4):
        world = World(seed, sink=lambda line: seen.add(json.loads(line)["event"]))
        play_slow(world, 4)
    assert {"full", "room", "read-slowly", "closed"} <= seen
    assert {"Seen", "Flushed", "ClientDisconnected"} <= seen


def test_objects_with_a_subject_of_their_own_change_it() -> None:
    moved = [moving_subject(PLAIN, "s1", number) for number in range(4)]
    assert moved == ["", "/fleet/Boat/s1", "/yard/Boat/s1", ""]
    assert {moving_subject(PLAIN, "b1", number) for number in range(4)} == {""}


@pytest.mark.slow
def test_slow_programs_are_conflated_and_cut() -> None:
    conflated = slow = 0
    for seed in range(6):
        world = World(seed)
        play_slow(world, 4)
        statistics = world.nodes["node"].machine.statistics()
        conflated += sum(row.ledger.conflated for row in statistics.types)
        slow += statistics.ends.get("slow", 0)
    assert conflated > 50
    assert slow > 0


class Places(Checker):
    """Where objects ever were."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def safety(self, world: World) -> str | None:
        node = world.nodes.get("node")
        if node is not None and node.is_up:
            self.seen.update(subjects_of(node.machine, PLAIN).items())
        return None


@pytest.mark.slow
def test_objects_change_their_subjects_and_keep_to_few() -> None:
    world, places = World(1), Places()
    world.watch(places)
    play_moves(world, 4)
    of_one = {subject for key, subject in places.seen if key == "s1"}
    assert of_one == {"", "/fleet/Boat/s1", "/yard/Boat/s1"}
    assert {subject for key, subject in places.seen if key == "b1"} == {""}
