"""Measures how a system of nodes grows with their number, and writes the page about it.

    python tools/measure_growth.py measure 3 5 10    in the simulator: one line of JSON for each size
    python tools/measure_growth.py processes 3 5 10  with real nodes on loopback: the same
    python tools/measure_growth.py write             the tables and the plot of docs/internals/growth.md

Lines are added to docs/internals/growth.json; those of the same size are replaced.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from skerry.protocol.picture.bodies import write_raw, write_state
from skerry.testing.checkers import Checker
from skerry.testing.machines.system_site import DATA_PORT, TYPES, SystemSite
from skerry.testing.packet import MULTICAST, Packet
from skerry.testing.world import MS, SECOND, World

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "internals" / "growth.md"
RESULTS: Final = PAGE.with_suffix(".json")
PLOT: Final = PAGE.with_suffix(".svg")
IDLE_S: Final = 60
FORMULA_SIZES: Final = (200, 500, 1000)
Row = dict[str, Any]


class Traffic(Checker):
    """Counts what arrives, from one node to another."""

    def __init__(self) -> None:
        self.is_counting = False
        self.counts = {"unicast": 0, "multicast": 0}
        self.bytes = {"unicast": 0, "multicast": 0}
        self.data_bytes = 0

    def arrived(self, packet: Packet) -> str | None:
        if self.is_counting and packet.source is not packet.destination:
            kind = "multicast" if packet.kind == MULTICAST else "unicast"
            self.counts[kind] += 1
            self.bytes[kind] += len(packet.data)
            if packet.to.port in (DATA_PORT, SERVER_DATA_PORT):
                self.data_bytes += len(packet.data)
        return None


SERVER_DATA_PORT: Final = 26651


def measure(count: int) -> Row:
    """Form a system of so many nodes, let it idle, and let two nodes crash."""
    world = World(1, event_count_max=10**10)
    site, traffic = SystemSite(world=world), Traffic()
    world.watch(traffic)
    rng, started_s = world.random("starts"), time.process_time()
    names = [f"node-{number}" for number in range(count)]
    for name in names:
        site.add(name, by_group=True)
        world.run_for(rng.randrange(1, 2 * SECOND // count))
    traffic.is_counting = True
    first_ns = world.now_ns
    until(site, names)
    row: Row = {"nodes": count, "form_s": (world.now_ns - first_ns) / SECOND}
    row["form_bytes_received"] = round(sum(traffic.bytes.values()) / count)
    world.run_for(90 * SECOND)
    row |= idle(site, traffic, count)
    machine = site.nodes[names[0]].machine
    assert machine.state is not None
    row["raw_bytes"] = len(write_raw(machine.picture.raw()))
    row["state_bytes"] = len(write_state(machine.state))
    row["memory_bytes"] = deep_size(machine)
    elected = machine.state.elected_id
    (leader,) = [name for name in names if site.id_of(name) == elected]
    others = [name for name in names if name != leader]
    for key, victim in (("crash_s", others[-1]), ("elected_crash_s", leader)):
        names = [name for name in names if name != victim]
        crashed_ns = world.now_ns
        site.crash(victim)
        until(site, names)
        row[key] = (world.now_ns - crashed_ns) / SECOND
        world.run_for(15 * SECOND)
    joined_ns = world.now_ns
    site.add("late", by_group=True)
    until(site, [*names, "late"])
    row["join_s"] = (world.now_ns - joined_ns) / SECOND
    row["cpu_s"] = round(time.process_time() - started_s, 1)
    return row


def until(site: SystemSite, names: list[str]) -> None:
    """Run until these nodes have one picture."""
    while not site.agree(*names):
        site.world.run_for(50 * MS)


def idle(site: SystemSite, traffic: Traffic, count: int) -> Row:
    """The traffic of each node and second while nothing happens."""
    traffic.__init__()  # type: ignore[misc]
    traffic.is_counting = True
    site.world.run_for(IDLE_S * SECOND)
    traffic.is_counting = False
    share = count * IDLE_S
    # All nodes are in all groups: a datagram to a group arrives at all others.
    sent = {kind: traffic.counts[kind] for kind in traffic.counts}
    sent_bytes = traffic.bytes["unicast"] + traffic.bytes["multicast"] / (count - 1)
    return {
        "sent_per_s": round((sent["unicast"] + sent["multicast"] / (count - 1)) / share, 2),
        "sent_bytes_per_s": round(sent_bytes / share),
        "received_per_s": round(sum(traffic.counts.values()) / share, 2),
        "received_bytes_per_s": round(sum(traffic.bytes.values()) / share),
        "data_received_bytes_per_s": round(traffic.data_bytes / share),
    }


def deep_size(root: object) -> int:
    """The bytes of an object and of all that only it needs."""
    shared = (type, ModuleType, FunctionType, BuiltinFunctionType)
    seen: set[int] = {id(TYPES)}
    left, size = [root], 0
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, shared):
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        left += gc.get_referents(one)
    return size
