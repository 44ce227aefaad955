"""The machine of discovery: which nodes and addresses it queries when, and what it answers.

Every one to three seconds it asks all addresses and nodes from which nothing, or not all, has been
received. An answer lists the nodes and addresses that the answering node knows. A multicast group
can be asked as well: often while no other node is known, seldom afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from random import Random
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.discovery.descriptions import (
    DiscoveryKind,
    DiscoveryMessage,
    NodeDescription,
    SystemStanding,
)
from skerry.protocol.discovery.directory import (
    DISCOVERY_NODE_COUNT_MAX,
    Directory,
    KnownNode,
)
from skerry.protocol.discovery.events import (
    ClockMeasured,
    DiscoveryStatistics,
    LightSeed,
    NodeFound,
    NodesRefused,
    RefusedBy,
    SeedIgnored,
)
from skerry.protocol.discovery.probes import Probes
from skerry.protocol.discovery.strangers import Strangers
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_reader import HEADER_BYTES, Datagram, DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import (
    DISCOVERY_READER,
    DISCOVERY_WRITER,
    Channel,
    guid_prefix,
)
from skerry.protocol.rtps.parameters import is_locatable
from skerry.protocol.rtps.submessages import Data
from skerry.tracing import DropReason

__all__ = ["ASK_COUNT_MAX", "Discovery"]

_SECOND: Final = 1_000_000_000
_ASK_NS_MIN: Final = 1 * _SECOND
_ASK_NS_MAX: Final = 3 * _SECOND
_GROUP_NS: Final = 30 * _SECOND
"""How often a multicast group is asked while other nodes are known."""
_REFUSAL_NS: Final = _SECOND
"""A node is refused no more often than this."""
ASK_COUNT_MAX: Final = 50
"""Nodes and addresses that are asked at once. More of them take turns."""
_ANSWER_COUNT_MAX: Final = 4
"""Answers to one node between two ticks."""
_PROBED_COUNT_MAX: Final = 16
"""Answers to the probes of one node between two ticks: a round has two, once a second."""
_LIGHT_MEMORY_FACTOR: Final = 4
"""A light node remembers an excluded node for this many of the longest dead timeouts."""
_DATA_BYTES: Final = 24
"""Bytes of a message in a datagram before its payload."""
_FRAME_BYTES: Final = 20 + 16 + 12 + 8
"""Header, destination, timestamp and checksum."""


class Discovery:
    """Finds the other nodes of a system, and lets them find this one."""

    def __init__(
        self,
        *,
        me: NodeDescription,
        own_type: NodeType,
        node_types: NodeTypes,
        system: int,
        rng: Random,
        now_ns: int,
        seeds: Sequence[Address] = (),
        groups: Sequence[Address] = (),
        datagram_bytes: int = 1450,
        checksum: bool = True,
        wall_offset_ns: int = 0,
    ) -> None:
        """`system` is the hash of the system's name. `groups` are multicast groups to ask at."""
        self.directory = Directory(me.node, me.control)
        self.standing: SystemStanding | None = None
        """The system of this node, for the nodes that it refuses; None if it belongs to none."""
        self._me = me
        self._own_type = own_type
        self._types = node_types
        self._system = system
        self._groups = {Directory.seed_id(group): group for group in groups}
        self._rng = rng
        self._datagram_bytes = datagram_bytes
        self.probes = Probes(rng)
        self._strangers = Strangers()
        self._prefix = guid_prefix(me.node, Channel.CONTROL)
        self._writer = DatagramWriter(self._prefix, has_checksum=checksum)
        self._own_reader = DatagramReader(guid_prefix(0, Channel.CONTROL), has_checksum=checksum)
        self._wall_offset_ns = wall_offset_ns
        self._seq = 0
        self._ask_ns = now_ns
        self._group_ns = now_ns
        self._turn = 0
        """Where the next turn of asking begins, if there are too many to be asked at once."""
        self._asked_ns: dict[int, int] = {}
        """When each id was asked last, if it was in this turn."""
        self._was_full = False
        self._datagrams: list[tuple[Address, bytes]] = []
        self._events: list[MachineEvent] = []
        self._drops: Counter[DropReason] = Counter()
        self._discover_count = 0
        self._node_info_count = 0
        self._refusal_count = 0
        self.add_seeds(seeds)

    # -- for the caller

    def add_seeds(self, addresses: Iterable[Address]) -> None:
        """Add addresses at which a node may be. The own one is ignored."""
        for address in addresses:
            if is_locatable(address):
                self.directory.add_seeds([address])
            else:
                self._events.append(SeedIgnored(address=address))

    def is_excluded(self, node: int) -> bool:
        return self.directory.is_excluded(node)

    def exclude(self, node: int, reason: int, now_ns: int) -> None:
        """Forget a node and refuse it, for ever unless one of the two nodes is light."""
        known = self.directory.known.get(node)
        other = None if known is None else self._types.by_id(known.description.type_id)
        until_ns: int | None = None
        if self._own_type.light:
            longest_ns = max(one.dead_timeout_ns for one in self._types)
            until_ns = now_ns + _LIGHT_MEMORY_FACTOR * longest_ns
        self._strangers.forget(node)
        self.directory.exclude(node, reason, until_ns)
        if other is not None and other.light:
            self.directory.readmit(node)

    def forget(self, nodes: Iterable[int]) -> None:
        """Forget that nodes were excluded, since they will not return."""
        for node in nodes:
            self.directory.readmit(node)

    def refuse(self, node: int, address: Address, now_ns: int) -> None:
        """Notify an excluded node of its exclusion, at most once a second."""
        excluded = self.directory.excluded.get(node)
        if excluded is None:
            return
        if excluded.refused_ns is not None and now_ns - excluded.refused_ns < _REFUSAL_NS:
            return
        excluded.refused_ns = now_ns
        self._refusal_count += 1
        message = DiscoveryMessage(
            kind=DiscoveryKind.REFUSAL,
            node=self._me,
            system=self._system,
            reason=excluded.reason,
            standing=self.standing,
        )
        self._send(address, [message.encode()], now_ns, to=node)

    def probe(self, now_ns: int) -> list[tuple[Address, bytes]]:
        """Begin a round of probes; return two datagrams for each known node, of which the second
        one has the full size. The caller sends them so that the network does not divide them."""
        self.probes.begin()
        made: list[tuple[Address, bytes]] = []
        for node, known in self.directory.known.items():
            small = self._probe_datagram(node, now_ns, pad_bytes=0)
            pad_bytes = (self._datagram_bytes - len(small)) // 4 * 4
            whole = self._probe_datagram(node, now_ns, pad_bytes=max(pad_bytes, 4))
            made += [(known.description.control, small), (known.description.control, whole)]
        return made

    # -- the contract

    def receive(self, datagram: Datagram, source: Address, now_ns: int) -> DropReason | None:
        """Process the messages of discovery in a datagram; return why it is dropped, or None."""
        messages: list[DiscoveryMessage] = []
        is_addressed = False
        for part in datagram.submessages:
            if isinstance(part, Data) and part.writer == DISCOVERY_WRITER:
                is_addressed = part.is_addressed
                try:
                    messages.append(DiscoveryMessage.decode(part.payload))
                except DecodeError:
                    return self._drop(DropReason.BODY)
        if not messages:
            if not self.is_excluded(datagram.node) and is_locatable(source):
                self._strangers.heard(datagram.node, source, now_ns)
            return None
        first = messages[0]
        if first.node is None or first.system is None or first.node.node != datagram.node:
            return self._drop(DropReason.BODY)
        if first.system != self._system:
            return self._drop(DropReason.SYSTEM)
        reason = self._process(first, messages[1:], source, now_ns, is_addressed=is_addressed)
        if reason is None and first.kind is DiscoveryKind.SELF:
            self._measure_clock(first, datagram.sent_ns, now_ns)
        return reason

    def is_own(self, data: bytes) -> bool:
        """Return whether this node itself sent a datagram."""
        return data[8:HEADER_BYTES] == self._prefix

    def own_received(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process a datagram that this node sent to itself: one of the seeds is its own address."""
        found = self._own_reader.read(data)
        if isinstance(found, Datagram):
            self.receive(found, source, now_ns)

    def advance(self, now_ns: int) -> None:
        """Ask where it is due."""
        if now_ns < self._ask_ns:
            return
        self._ask_ns = now_ns + self._rng.randrange(_ASK_NS_MIN, _ASK_NS_MAX)
        if self._own_type.light:
            self.directory.expire(now_ns)
        self._asked_ns.clear()
        directory = self.directory
        for known in directory.known.values():
            known.answered_count = known.probed_count = 0
        targets = list(directory.seeds.items())
        targets += self._strangers.take_due(now_ns)
        targets += [(node, one.control) for node, one in directory.reported.items()]
        targets += [
            (node, one.description.control)
            for node, one in directory.known.items()
            if not one.is_complete
        ]
        if not directory.known or now_ns >= self._group_ns:
            self._group_ns = now_ns + _GROUP_NS
            targets = [*self._groups.items(), *targets]
        if len(targets) > ASK_COUNT_MAX:
            start = self._turn % len(targets)
            self._turn += ASK_COUNT_MAX
            targets = list(islice([*targets[start:], *targets[:start]], ASK_COUNT_MAX))
        for asked_id, address in targets:
            self._ask(asked_id, address, now_ns)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return self._ask_ns

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        """Return what is to be sent since the last call."""
        datagrams, self._datagrams = self._datagrams, []
        return datagrams

    def take_transmits(self) -> list[Transmit]:
        """Return the same as transmits."""
        return [Transmit(destination=address, data=data) for address, data in self.take_datagrams()]

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def set_wall_offset(self, wall_offset_ns: int, _now_ns: int) -> None:
        """Set the offset of wall time, after the wall clock was changed."""
        self._wall_offset_ns = wall_offset_ns

    def statistics(self) -> DiscoveryStatistics:
        directory = self.directory
        return DiscoveryStatistics(
            known_count=len(directory.known),
            reported_count=len(directory.reported),
            seed_count=len(directory.seeds),
            excluded_count=len(directory.excluded),
            discover_sent_count=self._discover_count,
            node_info_sent_count=self._node_info_count,
            refusal_sent_count=self._refusal_count,
            drops={reason.value: count for reason, count in self._drops.items()},
        )

    # -- inside: receiving

    def _process(
        self,
        first: DiscoveryMessage,
        listed: list[DiscoveryMessage],
        source: Address,
        now_ns: int,
        *,
        is_addressed: bool,
    ) -> DropReason | None:
        assert first.node is not None
        node = first.node.node
        if node == self._me.node:
            # An address of this node that it did not know as its own.
            self.directory.drop_seed(first.sent_to or 0)
            return self._drop(DropReason.OWN)
        if first.kind is DiscoveryKind.REFUSAL:
            if not is_addressed:
                return self._drop(DropReason.BODY)
            self._events.append(RefusedBy(node=node, reason=first.reason, standing=first.standing))
            return None
        if self.directory.is_excluded(node):
            if first.kind is DiscoveryKind.DISCOVER:
                self.refuse(node, first.node.control, now_ns)
            return None
        other = self._types.by_id(first.node.type_id)
        if other is None:
            return self._drop(DropReason.NODE_TYPE)
        if other.light and self._own_type.light:
            self._events.append(LightSeed(address=source))
            self.directory.drop_seed(Directory.seed_id(first.node.control))
            return None
        if first.kind is DiscoveryKind.DISCOVER:
            return self._asked(first, first.node, other, now_ns)
        if first.kind is DiscoveryKind.SELF:
            if self.probes.answered(first.sent_to or 0, node, now_ns):
                return None
            return self._answered(first, first.node, other, listed)
        return self._drop(DropReason.BODY)

    def _asked(
        self, message: DiscoveryMessage, sender: NodeDescription, other: NodeType, now_ns: int
    ) -> DropReason | None:
        is_member = sender.node in self.directory.known
        known = self._meet(sender, other)
        if known is None:
            return self._drop(DropReason.SENDERS)
        if message.probe_bytes is not None:
            if known.probed_count < _PROBED_COUNT_MAX:
                known.probed_count += 1
                head = self._self_message(message.sent_to or 0, 0, 1)
                self._send(sender.control, [head], now_ns, to=sender.node)
        elif known.answered_count < _ANSWER_COUNT_MAX:
            known.answered_count += 1
            # All nodes of a group answer. If each of them listed all others every time, the bytes
            # at a node would grow with the square of their number.
            is_listing = not (is_member and message.sent_to in self._groups)
            self._answer(message.sent_to or 0, sender, other, now_ns, is_listing=is_listing)
        return None

    def _answered(
        self,
        message: DiscoveryMessage,
        sender: NodeDescription,
        other: NodeType,
        listed: list[DiscoveryMessage],
    ) -> DropReason | None:
        self.directory.drop_seed(message.sent_to or 0)
        known = self._meet(sender, other)
        if known is None:
            return self._drop(DropReason.SENDERS)
        if message.packet_count:
            known.packet_received(message.packet, message.packet_count)
        for one in listed:
            if one.kind is DiscoveryKind.OTHER and one.node is not None:
                self.directory.add_reported(one.node)
            elif one.kind is DiscoveryKind.SEED and one.seed is not None:
                self.directory.add_seeds([one.seed])
        return None

    def _meet(self, sender: NodeDescription, other: NodeType) -> KnownNode | None:
        """Return what is known of a node, and report it if it is new."""
        known = self.directory.known.get(sender.node)
        if known is not None:
            return known
        known = self.directory.add_known(sender)
        if known is None:
            if not self._was_full:
                self._was_full = True
                self._events.append(NodesRefused(limit=DISCOVERY_NODE_COUNT_MAX))
            return None
        self._strangers.forget(sender.node)
        self._events.append(
            NodeFound(
                node=sender.node,
                name=sender.name,
                type_name=other.name,
                control=sender.control,
                data=sender.data,
            )
        )
        return known

    def _measure_clock(self, message: DiscoveryMessage, sent_ns: int | None, now_ns: int) -> None:
        """Compare the clock of a node that answers at once with the own one."""
        asked_ns = self._asked_ns.get(message.sent_to or 0)
        assert message.node is not None
        known = self.directory.known.get(message.node.node)
        # A delayed answer does not measure the clock well; the node is queried again.
        if asked_ns is None or known is None or sent_ns is None or now_ns - asked_ns >= _SECOND:
            return
        known.clock_offset_ns = sent_ns - (asked_ns + now_ns) // 2 - self._wall_offset_ns
        self._events.append(ClockMeasured(node=message.node.node, offset_ns=known.clock_offset_ns))

    # -- inside: sending

    def _ask(self, asked_id: int, address: Address, now_ns: int) -> None:
        self._asked_ns[asked_id] = now_ns
        self._discover_count += 1
        message = DiscoveryMessage(
            kind=DiscoveryKind.DISCOVER, node=self._me, sent_to=asked_id, system=self._system
        )
        self._send(address, [message.encode()], now_ns)

    def _answer(
        self,
        sent_to: int,
        asker: NodeDescription,
        other: NodeType,
        now_ns: int,
        *,
        is_listing: bool,
    ) -> None:
        """Send all known nodes and seeds, in as many datagrams as are needed, or only this node."""
        parts = self._listed(asker, other) if is_listing else []
        own_size = len(self._self_message(sent_to, 0, 1)) + _DATA_BYTES
        room_bytes = self._datagram_bytes - _FRAME_BYTES - own_size
        packets: list[list[bytes]] = [[]]
        left_bytes = room_bytes
        for part in parts:
            size = len(part) + _DATA_BYTES
            if size > left_bytes:
                packets.append([])
                left_bytes = room_bytes
            packets[-1].append(part)
            left_bytes -= size
        packet_count = len(packets) if is_listing else 0
        for number, packet in enumerate(packets):
            head = self._self_message(sent_to, number, packet_count)
            self._node_info_count += 1
            self._send(asker.control, [head, *packet], now_ns, to=asker.node)

    def _listed(self, asker: NodeDescription, other: NodeType) -> list[bytes]:
        """Return the nodes and seeds for an answer. Light nodes do not learn of each other."""
        if self._own_type.light:
            return []
        parts: list[bytes] = []
        for node, known in self.directory.known.items():
            node_type = self._types.by_id(known.description.type_id)
            is_light = node_type is not None and node_type.light
            if node != asker.node and not (is_light and other.light):
                message = DiscoveryMessage(kind=DiscoveryKind.OTHER, node=known.description)
                parts.append(message.encode())
        seeds = self.directory.seeds.values()
        parts += [DiscoveryMessage(kind=DiscoveryKind.SEED, seed=one).encode() for one in seeds]
        return parts

    def _probe_datagram(self, node: int, now_ns: int, *, pad_bytes: int) -> bytes:
        message = DiscoveryMessage(
            kind=DiscoveryKind.DISCOVER,
            node=self._me,
            sent_to=self.probes.add(node, now_ns, is_whole=pad_bytes > 0),
            system=self._system,
            probe_bytes=pad_bytes,
        )
        return self._datagram([message.encode()], now_ns, to=node)

    def _self_message(self, sent_to: int, packet: int, packet_count: int) -> bytes:
        return DiscoveryMessage(
            kind=DiscoveryKind.SELF,
            node=self._me,
            sent_to=sent_to,
            packet=packet,
            packet_count=packet_count,
            system=self._system,
        ).encode()

    def _send(
        self, address: Address, payloads: list[bytes], now_ns: int, to: int | None = None
    ) -> None:
        self._datagrams.append((address, self._datagram(payloads, now_ns, to)))

    def _datagram(self, payloads: list[bytes], now_ns: int, to: int | None) -> bytes:
        writer = self._writer
        if to is not None:
            writer.destination(guid_prefix(to, Channel.CONTROL))
        writer.timestamp(now_ns + self._wall_offset_ns)
        for payload in payloads:
            self._seq += 1
            writer.data(Data(DISCOVERY_WRITER, self._seq, payload), DISCOVERY_READER)
        return writer.finish()

    def _drop(self, reason: DropReason) -> DropReason:
        self._drops[reason] += 1
        return reason
