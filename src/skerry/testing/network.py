"""The simulated network: datagrams to one node or to a group.

Without faults the network is perfect: every datagram arrives once, in order, after the same
latency. All disturbances come from a `LinkFault`, so a test has exactly the faults that it injects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import adler32

from skerry.limits import DATAGRAM_BYTES_MAX, SIM_INBOX_COUNT_MAX
from skerry.protocol.machine import Address, Transmit
from skerry.testing.packet import MULTICAST, UNICAST, Packet
from skerry.testing.streams import Streams

if TYPE_CHECKING:
    from skerry.testing.faults import LinkFault
    from skerry.testing.node import Node
    from skerry.testing.world import World


class Network:
    """Delivers the transmits of machines to their destinations."""

    def __init__(self, world: World, *, latency_ns: int) -> None:
        assert latency_ns > 0
        self.latency_ns = latency_ns
        self.shapers: list[LinkFault] = []
        """The shapers that each packet passes, in this order."""
        self.streams = Streams(world, self)
        self._world = world
        self._nodes: dict[Address, Node[Any]] = {}
        # Members are in a dictionary, which keeps the order of joining.
        self._groups: dict[Address, dict[str, Node[Any]]] = {}
        self._write: Callable[[str], None] = world.trace.lines.append

    def attach(self, node: Node[Any]) -> None:
        """Deliver datagrams to the addresses of the node."""
        for address in node.addresses:
            self._nodes[address] = node

    def join(self, node: Node[Any], group: Address) -> None:
        """Deliver datagrams to `group` to the node, including its own."""
        assert group not in self._nodes, f"{group} is a node, not a group"
        self._groups.setdefault(group, {})[node.name] = node

    def leave(self, node: Node[Any], group: Address) -> None:
        """Undo `join`. Datagrams in flight still arrive."""
        self._groups.get(group, {}).pop(node.name, None)

    def groups_of(self, node: Node[Any]) -> list[Address]:
        """Return the groups that a node has joined."""
        return [group for group, members in self._groups.items() if node.name in members]

    def send(self, node: Node[Any], transmits: Sequence[Transmit]) -> None:
        for transmit in transmits:
            if transmit.destination.is_stream:
                self.streams.send(node, transmit)
            else:
                self._send_datagram(node, transmit)

    def plan(self, packet: Packet) -> list[int]:
        """The delays after which copies of the packet arrive; empty if it is lost."""
        delays_ns = [self.latency_ns]
        for shaper in self.shapers:
            if shaper.matches(packet):
                delays_ns = shaper.shape(packet, delays_ns)
                if not delays_ns:
                    self._note_stopped(packet, shaper)
                    break
        return delays_ns

    def dispatch(self, packet: Packet, delay_ns: int) -> None:
        """Deliver a datagram after `delay_ns`, without faults."""
        self._world.after(delay_ns, self._arrive, packet)

    def _send_datagram(self, node: Node[Any], transmit: Transmit) -> None:
        destination, data = transmit.destination, transmit.data
        if len(data) > DATAGRAM_BYTES_MAX:
            raise self._world.failure(
                "network",
                f"{node.name} sends a datagram of {len(data)} bytes,"
                f" the limit is {DATAGRAM_BYTES_MAX}",
            )
        checksum = adler32(data)
        target = self._nodes.get(destination)
        if target is not None:
            self._send_copy(node, target, transmit, checksum, UNICAST)
            return
        members = self._groups.get(destination)
        if members is None:
            self._world.note("unroutable", node, to=str(destination), bytes=len(data))
            return
        for member in members.values():
            self._send_copy(node, member, transmit, checksum, MULTICAST)

    def _send_copy(
        self, source: Node[Any], target: Node[Any], transmit: Transmit, checksum: int, kind: str
    ) -> None:
        world = self._world
        packet = Packet(
            source,
            target,
            transmit.data,
            checksum,
            kind,
            world.now_ns,
            transmit.destination,
            transmit.port,
        )
        # A node sends datagrams to itself without a link.
        if self.shapers and source is not target:
            for delay_ns in self.plan(packet):
                world.after(delay_ns, self._arrive, packet)
        else:
            world.after(self.latency_ns, self._arrive, packet)

    def _arrive(self, packet: Packet) -> None:
        node = packet.destination
        world = self._world
        # Formatted here, because this is the most frequent line and `json` takes ten times as
        # long. A test compares it with the form of all other lines.
        self._write(
            f'{{"_at_ns":{world.now_ns},"_node":{node.label},"bytes":{len(packet.data)},'
            f'"checksum":{packet.checksum},"event":"receive","from":{packet.source.label},'
            f'"kind":"{packet.kind}","sent_ns":{packet.sent_ns}}}'
        )
        if not node.is_up:
            world.note("unheard", node)
            return
        if node.is_paused and len(node.inbox) >= SIM_INBOX_COUNT_MAX:
            world.note("overflow", node)
            return
        if world.taps:
            world.tap(packet)
        if node.is_paused:
            node.inbox.append((self._hand_over, packet))
        else:
            self._hand_over(packet)

    def _hand_over(self, packet: Packet) -> None:
        world = self._world
        node = packet.destination
        world.input_count += 1
        machine, now_ns = node.machine, node.clock.read(world.now_ns)
        source = packet.source.address
        if packet.source_port:
            source = Address(source.host, packet.source_port)
        if node.has_ports:
            machine.receive_at(packet.data, source, packet.to, now_ns)
        else:
            machine.receive(packet.data, source, now_ns)
        world.collect(node)

    def _note_stopped(self, packet: Packet, shaper: LinkFault) -> None:
        self._write(
            f'{{"_at_ns":{self._world.now_ns},"_node":{packet.source.label},'
            f'"bytes":{len(packet.data)},"by":"{type(shaper).__name__}","checksum":{packet.checksum},'
            f'"event":"stopped","kind":"{packet.kind}","to":{packet.destination.label}}}'
        )
