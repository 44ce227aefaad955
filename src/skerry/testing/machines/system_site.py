"""Whole systems of nodes, with discovery, picture and both channels, in one simulated network."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

from skerry.engine.system.config import Rejoin, SystemConfig
from skerry.engine.system.events import SystemLeft
from skerry.engine.system.system_core import SystemCore
from skerry.ids import hash64
from skerry.protocol.link.events import RecordsReceived
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.events import NodeDead
from skerry.protocol.rtps.entities import Channel
from skerry.testing.faults import Partition
from skerry.testing.machines.system_checkers import OnePicture
from skerry.testing.node import Node, Setting
from skerry.testing.world import SECOND, World

__all__ = [
    "CONTROL_PORT",
    "DATA_PORT",
    "FIELD",
    "LIGHT",
    "MESSAGE",
    "SERVER",
    "TYPES",
    "SystemSite",
]

CONTROL_PORT: Final = 26660
DATA_PORT: Final = 26661
_SEED_GROUP: Final = Address("239.192.77.1", 26650)
SERVER: Final = NodeType(
    name="server", multicast_control="239.192.77.1:26650", multicast_data="239.192.77.1:26651"
)
FIELD: Final = NodeType(name="field", may_form_system=False)
"""Full nodes that are reached by unicast only, and need another type to form a system."""
LIGHT: Final = NodeType(name="light", light=True, may_form_system=False)
TYPES: Final = NodeTypes([SERVER, FIELD, LIGHT])
MESSAGE: Final = hash64("sim.message")
EventT = TypeVar("EventT", bound=MachineEvent)


class SystemSite:
    """Nodes that seed each other as told, in one simulated network."""

    def __init__(
        self, seed: int = 1, *, world: World | None = None, core: type[SystemCore] = SystemCore
    ) -> None:
        """`core` is the class of the nodes' machines."""
        self._core = core
        self.world = world or World(seed)
        self.checker = OnePicture()
        self._hosts: dict[str, str] = {}
        self.world.watch(self.checker)
        self.nodes: dict[str, Node[SystemCore]] = {}

    def host(self, name: str) -> str:
        """The host of a node, which is its name in the world: addresses on the wire are of IP."""
        if name not in self._hosts:
            number = len(self._hosts) + 1
            self._hosts[name] = f"10.0.{number >> 8}.{number & 255}"
        return self._hosts[name]

    def hosts(self, *names: str) -> list[str]:
        """The hosts of some nodes."""
        return [self.host(name) for name in names]

    def add(
        self,
        name: str,
        *,
        node_type: NodeType = SERVER,
        types: NodeTypes = TYPES,
        seeds: tuple[str, ...] = (),
        by_group: bool = False,
        system: str = "harbour",
        rejoin: Rejoin = Rejoin.MANUAL,
        ids: tuple[int, ...] = (),
        **more: Any,
    ) -> Node[SystemCore]:
        """Add a node that begins with the addresses of some others, or with a multicast group.

        `ids` are the ids of its lives; they are random if there are none.
        """

        def make(setting: Setting) -> SystemCore:
            config = SystemConfig(
                system=system,
                name=name,
                node_types=types,
                type_name=node_type.name,
                control=Address(self.host(name), CONTROL_PORT),
                data=Address(self.host(name), DATA_PORT),
                seeds=tuple(Address(self.host(one), CONTROL_PORT) for one in seeds),
                seed_groups=(_SEED_GROUP,) if by_group else (),
                rejoin=rejoin,
                node_id=ids[setting.life - 1] if ids else 0,
                **more,
            )
            return self._core(
                config,
                rng=setting.rng,
                now_ns=setting.now_ns,
                wall_offset_ns=setting.wall_offset_ns,
                tracer=setting.tracer,
            )

        groups = [node_type.group(channel) for channel in Channel]
        joined = [group for group in groups if group is not None]
        if by_group and _SEED_GROUP not in joined:
            joined.append(_SEED_GROUP)
        node = self.world.add(
            self.host(name), make, port=CONTROL_PORT, more_ports=(DATA_PORT,), groups=joined
        )
        self.nodes[name] = node
        return node

    def form(self, *names: str, timeout_ns: int = 40 * SECOND) -> None:
        """Run until these nodes have one picture."""
        self.world.run_until(self.agreed(*names), timeout_ns=timeout_ns)

    def cut(
        self, sources: Iterable[str], destinations: Iterable[str], **which: Any
    ) -> Callable[[], None]:
        """Lose all packets of some nodes to others; return what ends it."""
        fault = Partition(sources=self.hosts(*sources), destinations=self.hosts(*destinations))
        fault.between(**which)
        self.world.inject(fault)
        return partial(fault.stop, self.world)

    def cut_both(
        self, some: Iterable[str], others: Iterable[str], **which: Any
    ) -> Callable[[], None]:
        """Lose all packets between some nodes and others; return what ends it."""
        some, others = tuple(some), tuple(others)
        ends = [self.cut(some, others, **which), self.cut(others, some, **which)]

        def heal() -> None:
            for end in ends:
                end()

        return heal

    def crash(self, name: str) -> None:
        """Kill a node without notice."""
        self.world.crash(self.nodes[name])

    def id_of(self, name: str) -> int:
        """The id of a node in its current life."""
        return self.nodes[name].machine.node

    def send(self, name: str, text: str, *, to: str | None = None) -> None:
        """Send a message on the data channel to all nodes, or to one."""

        def act(machine: SystemCore, now_ns: int) -> None:
            data = text.encode()
            if to is not None:
                machine.send_to(self.id_of(to), MESSAGE, data, now_ns)
            else:
                for one in machine.config.node_types:
                    machine.send_all(one.name, MESSAGE, data, now_ns)

        self.nodes[name].do(act)

    # -- conditions

    def alive_at(self, name: str) -> list[str]:
        """The sorted names of the nodes that are alive in the picture of a node."""
        node = self.nodes[name]
        if not node.is_up or node.machine.state is None:
            return []
        return sorted(entry.name for entry in node.machine.state.alive())

    def agree(self, *names: str) -> bool:
        """Whether these nodes have one picture, and just these are alive in it."""
        found = [self.nodes[name] for name in names]
        if not all(node.is_up and node.machine.state is not None for node in found):
            return False
        states = [node.machine.state for node in found]
        digests = {state.digest for state in states if state is not None}
        return len(digests) == 1 and all(self.alive_at(name) == sorted(names) for name in names)

    def agreed(self, *names: str) -> Callable[[], bool]:
        """`agree` as a condition."""
        return partial(self.agree, *names)

    def left(self, name: str) -> list[SystemLeft]:
        """The events by which a node has left."""
        return [event for event in self.nodes[name].events if isinstance(event, SystemLeft)]

    def deaths(self, name: str) -> list[tuple[str, int]]:
        """Name and reason of the nodes that a node has excluded."""
        return [
            (event.entry.name, event.entry.dead_reason)
            for event in self.nodes[name].events
            if isinstance(event, NodeDead)
        ]

    def events(self, name: str, kind: type[EventT]) -> list[EventT]:
        """The events of a kind of a node, oldest first."""
        return [event for event in self.nodes[name].events if isinstance(event, kind)]

    def texts(self, name: str) -> dict[str, list[str]]:
        """What a node has received on the data channel, by the name of the sender."""
        found: dict[str, list[str]] = defaultdict(list)
        names = {
            tracked.entry.node: tracked.entry.name
            for tracked in self.nodes[name].machine.picture.table.nodes.values()
        }
        for sender, data in self.received(name):
            found[names.get(sender, str(sender))].append(data.decode())
        return found

    def received(self, name: str) -> list[tuple[int, bytes]]:
        """Sender and content of all messages on the data channel."""
        return [
            (event.node, data)
            for event in self.nodes[name].events
            if isinstance(event, RecordsReceived)
            for _, _, data in event.records
        ]
