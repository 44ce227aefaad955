"""Nodes of a system on real sockets, for tests: in this process, on one loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from skerry.engine.system.config import Rejoin, SystemConfig
from skerry.engine.system.events import SystemLeft
from skerry.ids import hash64
from skerry.protocol.link.events import RecordsReceived
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.events import NodeDead
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.udp.system_addresses import SystemNetworkConfig
from skerry.runtime.udp.system_runtime import SystemRuntime

__all__ = ["MESSAGE", "PATIENCE_S", "SystemNode", "agree", "free_port", "multicast_type", "until"]

MESSAGE: Final = hash64("test.message")
PATIENCE_S: Final = 30.0
"""How long a test waits for what has to happen; a busy computer needs longer than it should."""


def free_port(family: int = socket.AF_INET) -> int:
    """A port that no program uses now."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        return int(probe.getsockname()[1])


def multicast_type(name: str = "server", *, group: str = "239.255.77.9", **fields: Any) -> NodeType:
    """A node type with groups that no other test uses, and which notices everything quickly."""
    host = f"[{group}]" if ":" in group else group
    usual = {
        "multicast_control": f"{host}:{free_port()}",
        "multicast_data": f"{host}:{free_port()}",
        "heartbeat_interval_ms": 100,
        "lost_heartbeat_count_max": 10,
    }
    return NodeType(name=name, **{**usual, **fields})


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a condition."""
    end_ns = monotonic_ns() + int(PATIENCE_S * 1e9)
    while not condition():
        assert monotonic_ns() < end_ns, what or "it did not happen in time"
        await asyncio.sleep(0.005)


class SystemNode:
    """A node, and what its machine has reported."""

    def __init__(
        self,
        name: str,
        node_types: NodeTypes,
        *,
        type_name: str = "",
        address: str = "127.0.0.1",
        data: str = "",
        seeds: Sequence[Address] = (),
        network: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Without seeds, the others are found in the control group of the first type."""
        first = next(iter(node_types))
        group = Address(*_split(first.multicast_control)) if first.multicast_control else None
        self.name = name
        self.events: list[MachineEvent] = []
        config = SystemConfig(
            system="harbour",
            name=name,
            node_types=node_types,
            type_name=type_name or first.name,
            control=Address(""),
            data=Address(""),
            seeds=tuple(seeds),
            seed_groups=() if seeds or group is None else (group,),
            rejoin=Rejoin.MANUAL,
            alone_timeout_ns=1_500_000_000,
        )
        self.runtime = SystemRuntime(
            replace(config, **fields),
            SystemNetworkConfig(control=address, data=data, **(network or {})),
            rng=Random(),
            on_events=self._report,
        )
        self.on_message: Callable[[int, bytes], None] = _ignore

    def _report(self, events: Sequence[MachineEvent]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, RecordsReceived):
                for _, _, data in event.records:
                    self.on_message(event.node, data)

    # -- conditions

    @property
    def node(self) -> int:
        """Its id."""
        return self.runtime.machine.node

    @property
    def control(self) -> Address:
        """Its address."""
        return self.runtime.machine.config.control

    def alive(self) -> set[str]:
        """The names of the nodes that are alive in its picture."""
        state = self.runtime.machine.state
        return set() if state is None else {entry.name for entry in state.alive()}

    def digest(self) -> int:
        """What its picture of the system is."""
        state = self.runtime.machine.state
        return 0 if state is None else state.digest

    def deaths(self) -> list[tuple[str, int]]:
        """Name and reason of the nodes that it has seen excluded."""
        found = [event.entry for event in self.events if isinstance(event, NodeDead)]
        return [(entry.name, entry.dead_reason) for entry in found]

    def left(self) -> list[SystemLeft]:
        """Why it has left."""
        return [event for event in self.events if isinstance(event, SystemLeft)]

    def received(self) -> list[tuple[int, bytes]]:
        """Sender and content of all messages."""
        found = [event for event in self.events if isinstance(event, RecordsReceived)]
        return [(event.node, data) for event in found for _, _, data in event.records]

    def has_received(self, count: int) -> bool:
        """Whether it has received so many messages, or more."""
        return len(self.received()) >= count

    # -- acting

    async def publish(self, *messages: bytes, is_reliable: bool = True) -> None:
        """Send messages to all nodes of all types, in order."""
        machine = self.runtime.machine
        for data in messages:
            for one in machine.config.node_types:
                while not machine.send_all(
                    one.name, MESSAGE, data, monotonic_ns(), is_reliable=is_reliable
                ):
                    self.runtime.wake()
                    await asyncio.sleep(0.001)
        self.runtime.wake()


def agree(*nodes: SystemNode) -> bool:
    """Whether these nodes have one picture, and just these are alive in it."""
    names = {node.name for node in nodes}
    return len({node.digest() for node in nodes}) == 1 and all(
        node.alive() == names for node in nodes
    )


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _ignore(node: int, data: bytes) -> None:
    pass
