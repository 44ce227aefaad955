"""Scenarios of a node with slow readers, and of objects that change their subjects."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from skerry.client.core.event_queue import OnSlow
from skerry.engine.admission.quotas import ClientLimits
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.node_scenarios import PATTERNS, Doing, build_system, finish_run
from skerry.testing.machines.program import MESSAGE, PLAIN, TYPES, Program, subject_of
from skerry.testing.node import Factory, Node, Setting
from skerry.testing.node_faults import SlowReaders, StreamLosses
from skerry.testing.scenarios import scenario
from skerry.testing.world import MS, SECOND, World

__all__ = [
    "SLOW_LIMITS",
    "DoingSlowly",
    "MovingObjects",
    "moves",
    "moving_subject",
    "play_moves",
    "play_slow",
    "slow",
    "slow_host",
]

SLOW_LIMITS: Final = ClientLimits(waiting_bytes_max=150_000)
"""More than the bytes that are queued before conflation begins, and low enough to be reached."""
_WINDOW_BYTES: Final = 8_192


class DoingSlowly(Doing):
    """Every second program conflates in all its subscriptions, the others in none."""

    def on_slow(self, node: Node[Program], rng: Random) -> OnSlow:
        return _on_slow_of(self.programs.index(node))


class MovingObjects(DoingSlowly):
    """Objects change their subjects."""

    patterns = (*PATTERNS, "/yard/...", f"/yard/{PLAIN}/*", "/*/*/s1")

    def subject(self, type_name: str, key: str, number: int) -> str:
        if type_name == MESSAGE:
            return subject_of(type_name, key)
        return moving_subject(type_name, key, number)


def moving_subject(type_name: str, key: str, number: int) -> str:
    """The subject of an object that changes it with each publish; empty for the default one."""
    own = subject_of(type_name, key)
    return own and ("", own, f"/yard/{type_name}/{key}")[number % 3]


def slow_host(setting: Setting) -> NodeHost:
    """A node with a low bound on queued bytes per client."""
    return NodeHost(setting, limits=SLOW_LIMITS)


def play_slow(
    world: World,
    node_count: int,
    *,
    host: Factory[Any] = slow_host,
    program: Factory[Any] = Program,
    workload: type[DoingSlowly] = DoingSlowly,
) -> None:
    """Large objects and slow readers: some are conflated, others disconnected; none lose
    updates."""
    world.network.streams.window_bytes = _WINDOW_BYTES
    doing = build_system(
        world,
        node_count,
        host,
        program,
        limits=SLOW_LIMITS,
        note_bytes_max=4000,
        workload=workload,
    )
    for index, node in enumerate(doing.programs):
        _subscribe_all(doing, node, _on_slow_of(index))
    # The last program reads all the time and must not be affected by the others.
    names = [node.name for node in doing.programs[:-1]]
    world.inject(
        SlowReaders(gap_ns=200 * MS, length_ns_max=4 * SECOND, bytes_per_s_max=100_000, nodes=names)
    )
    world.inject(StreamLosses(gap_ns=2 * SECOND))
    finish_run(world, doing)


def play_moves(world: World, node_count: int) -> None:
    """The same with objects that change their subjects."""
    play_slow(world, node_count, workload=MovingObjects)


def _on_slow_of(program_index: int) -> OnSlow:
    return "disconnect" if program_index % 2 else "conflate"


def _subscribe_all(doing: Doing, node: Node[Program], on_slow: OnSlow) -> None:
    """Subscribe to all types, and to one under a condition."""
    for name in TYPES:
        doing.ask(node, "type", name, on_slow=on_slow)
    doing.ask(node, "where", PLAIN, level_min=4, on_slow=on_slow)


slow = scenario(
    "a node serves slow readers without effect on other programs",
    node_count=4,
    node_count_min=3,
)(play_slow)
moves = scenario(
    "objects change their subjects, and subscribers of a subject receive create and remove",
    node_count=5,
    node_count_min=3,
)(play_moves)
