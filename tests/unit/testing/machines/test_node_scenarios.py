"""The scenarios of a node and its clients: they hold, and they are as hard as they claim to be."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from skerry.testing import World, run_scenario
from skerry.testing.checkers import Checker
from skerry.testing.machines.node_checkers import subjects_of
from skerry.testing.machines.node_history import PLAIN, TYPES
from skerry.testing.machines.node_scenarios import play_moves, play_slow


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "node_count"), [("node", 2), ("node", 8), ("slow", 3), ("moves", 3)]
)
def test_a_scenario_holds_with_few_and_many_programs(name: str, node_count: int) -> None:
    outcome = run_scenario(name, 1, node_count=node_count)
    assert outcome.error is None, outcome.error
    assert outcome.fault_count > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "events"),
    [
        (
            "node",
            {"crash", "closed", "refuse", "partition", "clog", "pause", "jump", "drift", "Seen"}
            | {"Flushed", "Doubted", "StateChanged", "ClientConnected", "ClientDisconnected"},
        ),
        (
            "slow",
            {"full", "room", "read-slowly", "closed", "Seen", "Flushed", "ClientDisconnected"},
        ),
    ],
)
def test_a_scenario_meets_every_fault_it_is_made_of(name: str, events: set[str]) -> None:
    seen: set[str] = set()
    for seed in range(4):
        run_scenario(name, seed, sink=lambda line: seen.add(json.loads(line)["event"]))
    assert events <= seen


@pytest.mark.slow
def test_programs_of_all_kinds_see_objects_of_all_types() -> None:
    seen: Counter[tuple[str, str, str]] = Counter()

    def note(line: str) -> None:
        event = json.loads(line)
        if event["event"] == "Seen":
            kind = "old" if event["_node"].startswith("old-") else "new"
            seen[kind, event["type_name"], event["operation"]] += 1

    for seed in range(6):
        run_scenario("node", seed, sink=note)
    for kind in ("old", "new"):
        for name in TYPES:
            operations = ("create",) if name == "Call" else ("create", "update", "remove")
            assert all(seen[kind, name, operation] for operation in operations), (kind, name)


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
