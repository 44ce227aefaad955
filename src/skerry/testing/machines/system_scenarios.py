"""The scenario of a system of nodes: under all faults, and after the faults have stopped.

In the end all nodes have one picture, and the messages that they send then arrive at all others.
Two systems that were formed apart do not merge, and an excluded node with `rejoin = "manual"` stays
out: there an operator restarts nodes, as people would.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random
from typing import Any, Final

from skerry.engine.system.config import Rejoin
from skerry.engine.system.system_core import SystemCore
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.machines.system_checkers import EachMessageOnce, FormedAlone, HeardFirst
from skerry.testing.machines.system_site import MESSAGE, SystemSite
from skerry.testing.node_faults import (
    ClockDrift,
    ClockJumps,
    Clogs,
    InterfaceLosses,
    Partitions,
    Pauses,
    Restarts,
)
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World

__all__ = ["play_system", "system"]

_ALONE_NS: Final = 10 * SECOND
"""How long a node waits for others before it forms a system."""
_LOOK_NS: Final = 500 * MS
"""Time between two looks at the system after the faults."""
_OPERATOR_NS: Final = 30 * SECOND
"""How long the operator waits before it restarts the nodes of other systems."""
_AGREEMENT_NS: Final = 240 * SECOND
"""After this time all nodes have one picture. A node that was excluded several times waits for up
to a minute before it returns."""
_LATER_COUNT: Final = 3
"""Messages of each node to the nodes of each type, after the faults."""


class _SystemRun:
    """One run: a random system with its traffic and its operator."""

    def __init__(self, world: World, node_count: int, core: type[SystemCore]) -> None:
        rng = world.random("system")
        self.world = world
        self.rng = rng
        self.site = SystemSite(world=world, core=core)
        self.deliveries = EachMessageOnce()
        for checker in (self.deliveries, HeardFirst(), FormedAlone()):
            world.watch(checker)
        self.rejoin = Rejoin.MANUAL if rng.random() < 0.2 else Rejoin.AUTO
        self.beat_ms = rng.choice([250, 250, 1000])
        self.types = _random_types(rng, self.beat_ms)
        self.names = [f"n{number}" for number in range(node_count)]
        self._link = LinkConfig(
            datagram_bytes=rng.choice([512, 1450, 1450]),
            send_queue_packet_count=rng.choice([20, 100]),
        )

    def begin(self) -> None:
        """Add the nodes, some of them later. They seed each other, or ask in a group."""
        rng, count = self.rng, len(self.names)
        others = rng.choices(["server", "field", "light"], [5, 2, 2], k=count - 1)
        # Light nodes do not name others, so only full nodes are seeds.
        type_names = ["server", *sorted(others, key=lambda name: name == "light")]
        full_count = count - type_names.count("light")
        by_group = rng.random() < 0.3
        delay_ns_max = rng.choice([1, 100 * MS, 3 * SECOND])
        for number, type_name in enumerate(type_names):
            seeds: tuple[str, ...] = ()
            if number and not by_group:
                seeds = (self.names[rng.randrange(min(number, full_count))],)
            add = partial(self._add, self.names[number], type_name, seeds, by_group)
            self.world.after(rng.randrange(delay_ns_max), add)
        self.world.run_for(delay_ns_max)
        self._supervise(None)

    def disturb(self) -> None:
        """Inject random faults, at least one of them."""
        rng, world = self.rng, self.world
        # In terms of the time after which a silent node is excluded.
        dead_ns = self.types.named("server").dead_timeout_ns
        length_ns = rng.choice([dead_ns // 2, 3 * dead_ns])
        faults = [
            Loss(rng.choice([0.01, 0.1, 0.2])),
            Duplication(rng.choice([0.02, 0.1])),
            Reordering(rng.choice([0.05, 0.3]), delay_ns_max=rng.choice([5, 50]) * MS),
            Partitions(gap_ns=2 * dead_ns, length_ns_max=length_ns),
            Clogs(gap_ns=2 * dead_ns, length_ns_max=length_ns),
            Pauses(gap_ns=2 * dead_ns, length_ns_max=length_ns),
            Restarts(gap_ns=3 * dead_ns, down_ns_max=length_ns),
            InterfaceLosses(gap_ns=3 * dead_ns, length_ns_max=length_ns),
            ClockDrift(drift_ppm_max=500),
            ClockJumps(gap_ns=2 * dead_ns, jump_ns_max=2 * SECOND),
        ]
        for fault in rng.sample(faults, rng.randrange(1, len(faults) + 1)):
            world.inject(fault)

    def send_randomly(self) -> None:
        """Begin the random traffic."""
        gap_ns_max = self.rng.choice([40, 400]) * MS
        self.world.drive(Repeat(self._send_one, gap_ns_min=MS, gap_ns_max=gap_ns_max))

    def agree(self) -> bool:
        """Return whether all nodes have one picture in which they all are."""
        return self.site.agree(*self.names)

    def let_faults_show(self) -> None:
        """Run until the effects of the faults are seen: nodes find that others were silent."""
        self.world.run_for(2 * self.types.named("server").dead_timeout_ns + 2 * SECOND)

    def settle(self) -> None:
        """Run until all nodes agree, with the help of the operator."""
        start_ns, is_helped = self.world.now_ns, False
        while not self.agree():
            passed_ns = self.world.now_ns - start_ns
            if passed_ns >= _AGREEMENT_NS:
                raise self.world.failure("Agreement", self._disagreement())
            if passed_ns >= _OPERATOR_NS and not is_helped:
                is_helped = self._help()
            self.world.run_for(_LOOK_NS)

    def send_later(self) -> None:
        """Send from all nodes to all others, and run until all has arrived."""
        for name in self.names:
            for _ in range(_LATER_COUNT):
                for one in self.types:
                    self._send(name, one.name, None, 100)
                to = self.rng.choice([other for other in self.names if other != name])
                self._send(name, "", to, 100)

        def is_complete() -> bool:
            return self.deliveries.liveness(self.world) is None

        stop_ns = self.world.now_ns + 20 * SECOND
        while not is_complete() and self.world.now_ns < stop_ns:
            self.world.run_for(_LOOK_NS)
        missing = self.deliveries.liveness(self.world)
        if missing is not None:
            raise self.world.failure("EachMessageOnce", f"20 s after the faults, {missing}")
        if not self.agree():
            raise self.world.failure("Agreement", f"not for long: {self._disagreement()}")

    # -- inside

    def _add(
        self, name: str, type_name: str, seeds: tuple[str, ...], by_group: bool, _: None
    ) -> None:
        self.site.add(
            name,
            node_type=self.types.named(type_name),
            types=self.types,
            seeds=seeds,
            by_group=by_group,
            rejoin=self.rejoin,
            link=self._link,
            alone_timeout_ns=_ALONE_NS,
        )

    def _send_one(self, _world: World, rng: Random) -> None:
        name = rng.choice(self.names)
        size = rng.choice([0, 0, 0, 50, 50, 400, 1300, 3000, 20_000])
        is_reliable = rng.random() < 0.8
        to = rng.choice([other for other in self.names if other != name])
        type_name = rng.choice([one.name for one in self.types])
        is_single = rng.random() < 0.3
        for _ in range(rng.choice([1, 1, 3])):
            if is_single:
                self._send(name, "", to, size, is_reliable=is_reliable)
            else:
                self._send(name, type_name, None, size, is_reliable=is_reliable)

    def _send(
        self, name: str, type_name: str, to: str | None, size: int, *, is_reliable: bool = True
    ) -> None:
        """Send a message that begins with its number, if both nodes are there."""
        nodes = self.site.nodes
        if not nodes[name].is_running or (to is not None and not nodes[to].is_up):
            return
        far = None if to is None else self.site.id_of(to)
        number = self.deliveries.number()
        data = number.to_bytes(8, "big") + bytes(size)

        def act(machine: SystemCore, now_ns: int) -> None:
            if machine.is_out:
                return
            if far is not None:
                is_sent = machine.send_to(far, MESSAGE, data, now_ns, is_reliable=is_reliable)
            else:
                is_sent = machine.send_all(
                    type_name, MESSAGE, data, now_ns, is_reliable=is_reliable
                )
            if is_sent and is_reliable:
                self.deliveries.accepted(machine, type_name, far, number)

        nodes[name].do(act)

    def _supervise(self, _: None) -> None:
        """Restart nodes that have left for good, as the supervisor of their programs does."""
        for node in self.site.nodes.values():
            if self.rejoin is Rejoin.MANUAL and node.is_running and node.machine.is_out:
                self.world.restart(node, down_ns=100 * MS)
        self.world.after(SECOND, self._supervise)

    def _help(self) -> bool:
        """Restart the nodes of all systems but the largest; False if there is one system."""
        up = [
            node for node in self.site.nodes.values() if node.is_running and not node.machine.is_out
        ]
        systems: dict[str, tuple[int, frozenset[int]]] = {}
        for node in up:
            machine, alive = node.machine, frozenset[int]()
            if self.rejoin is Rejoin.MANUAL and machine.state is not None:
                alive = frozenset(one.node for one in machine.state.alive())
            systems[node.name] = machine.picture.membership.incarnation_id, alive
        counts = Counter(system for system in systems.values() if system[0])
        if len(counts) < 2:
            return False
        largest = max(counts, key=lambda system: (counts[system], system[0]))
        for node in up:
            if systems[node.name] != largest:
                self.world.restart(node, down_ns=100 * MS)
        return True

    def _disagreement(self) -> str:
        pictures = [f"{name} has {self.site.alive_at(name)}" for name in self.names]
        return "; ".join(pictures)


def play_system(world: World, node_count: int, *, core: type[SystemCore] = SystemCore) -> None:
    """Nodes of all types form a system under faults, exchange messages, and agree in the end.

    `core` is the class of their machines, so that a test can pass a broken one.
    """
    run = _SystemRun(world, node_count, core)
    run.begin()
    if run.rng.random() < 0.5:
        run.settle()
    run.disturb()
    run.send_randomly()
    world.run_for(run.rng.choice([4, 10]) * run.beat_ms * 5 * MS)
    world.calm()
    run.let_faults_show()
    run.settle()
    run.send_later()


system: Final = scenario(
    "nodes form a system and send messages; in the end all have one picture",
    node_count=4,
    node_count_min=2,
)(play_system)


def _random_types(rng: Random, beat_ms: int) -> NodeTypes:
    """Return types with one speed: multicast, unicast and light."""
    window = rng.choice([4, 20, 20, 64])

    def make(name: str, groups: tuple[str, str] = ("", ""), **more: Any) -> NodeType:
        return NodeType(
            name=name,
            multicast_control=groups[0],
            multicast_data=groups[1],
            heartbeat_interval_ms=beat_ms,
            window_packet_count=window,
            ack_request_threshold=max(1, window // 2),
            **more,
        )

    return NodeTypes(
        [
            make("server", ("239.192.77.1:26650", "239.192.77.1:26651")),
            make("field", may_form_system=False),
            make("light", light=True, may_form_system=False),
        ]
    )
