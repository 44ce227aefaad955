"""Checkers of whole systems of nodes: one picture, and every message once, in order, to all."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from skerry.engine.system.system_core import SystemCore
from skerry.protocol.link.events import RecordsReceived
from skerry.protocol.machine import MachineEvent
from skerry.protocol.picture.bodies import write_state
from skerry.protocol.picture.entries import digest_of
from skerry.protocol.picture.events import IncarnationEntered, PictureChanged
from skerry.testing.checkers import Checker
from skerry.testing.node import Node
from skerry.testing.packet import Packet
from skerry.testing.world import SECOND, World

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = ["EachMessageOnce", "FormedAlone", "HeardFirst", "OnePicture"]

_NODE_ID_BYTES: Final = slice(12, 20)
"""Where the id of the sender is in a datagram of RTPS."""


class OnePicture(Checker):
    """Nodes that accept a state of the same number accept the same bytes, numbers only increase,
    and no full node is alive again under an id that was dead."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, int], bytes] = {}
        self._dead: dict[Hashable, set[int]] = defaultdict(set)
        self._last: dict[Hashable, tuple[int, int]] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, PictureChanged):
            return None
        state = event.state
        if digest_of(state.nodes) != state.digest:
            return f"{node.name} has a state with a wrong digest"
        number = state.election_id, state.sequence
        known = self._states.setdefault(number, write_state(state))
        if known != write_state(state):
            return f"{node.name} has another state {state.sequence} of election {state.election_id}"
        machine: SystemCore = node.machine
        life = node.name, node.life, machine.node
        election_id, sequence = self._last.get(life, (0, 0))
        self._last[life] = number
        if election_id == state.election_id and sequence >= state.sequence:
            return f"{node.name} has state {state.sequence} after state {sequence}"
        light = {one.id for one in machine.config.node_types if one.light}
        if machine.own_type.light:
            return None  # It remembers only for a while that it has excluded a node.
        dead = self._dead[life]
        for entry in state.nodes:
            if entry.type_id in light:
                continue
            if entry.is_dead:
                dead.add(entry.node)
            elif entry.node in dead:
                return f"{node.name} has {entry.name} alive again"
        return None


class HeardFirst(Checker):
    """A node is known to another one only after a datagram with its id has arrived there."""

    def __init__(self) -> None:
        self._heard: dict[tuple[str, int], set[int]] = defaultdict(set)

    def arrived(self, packet: Packet) -> str | None:
        node = packet.destination
        sender = int.from_bytes(packet.data[_NODE_ID_BYTES], "big", signed=True)
        self._heard[node.name, node.life].add(sender)
        return None

    def safety(self, world: World) -> str | None:
        for node in world.nodes.values():
            if not node.is_up:
                continue
            heard = self._heard[node.name, node.life]
            for known, tracked in node.machine.picture.table.nodes.items():
                if known not in heard and not tracked.is_dead:
                    return f"{node.name} reports {tracked.entry.name}, from which nothing arrived"
        return None


class FormedAlone(Checker):
    """A node forms a system only if it has no contact with a full node that belongs to one.

    Contact means that datagrams arrived in both directions, without a longer silence, for long
    enough to learn of the system in spite of losses. Two systems that were formed do not merge.
    """

    CONTACT_NS: Final = 5 * SECOND
    SILENCE_NS: Final = 1500 * 1_000_000

    def __init__(self) -> None:
        self._entered_ns: dict[int, int] = {}
        """When each node has joined or formed a system."""
        self._contacts: dict[tuple[int, int], tuple[int, int]] = {}
        """Begin and end of the last time without silence, by the ids of receiver and sender."""

    def arrived(self, packet: Packet) -> str | None:
        node = packet.destination
        if not node.is_up or packet.source is node:
            return None
        now_ns = node.world.now_ns
        sender = int.from_bytes(packet.data[_NODE_ID_BYTES], "big", signed=True)
        link = node.machine.node, sender
        since_ns, last_ns = self._contacts.get(link, (now_ns, now_ns))
        if now_ns - last_ns > self.SILENCE_NS:
            since_ns = now_ns
        self._contacts[link] = since_ns, now_ns
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, IncarnationEntered) or event.is_detached:
            return None
        mine: int = node.machine.node
        self._entered_ns[mine] = node.world.now_ns
        if not event.is_formed:
            return None
        for other in node.world.nodes.values():
            if other is node or not other.is_running or other.machine.own_type.light:
                continue
            far: SystemCore = other.machine
            age_ns = node.world.now_ns - self._entered_ns.get(far.node, node.world.now_ns)
            has_contact = self._lasts(node, mine, far.node) and self._lasts(node, far.node, mine)
            if age_ns >= self.CONTACT_NS and not far.is_out and has_contact:
                return f"{node.name} forms a system although it has contact with {other.name}"
        return None

    def _lasts(self, node: Node[Any], receiver: int, sender: int) -> bool:
        now_ns = node.world.now_ns
        since_ns, last_ns = self._contacts.get((receiver, sender), (now_ns, 0))
        return now_ns - last_ns < self.SILENCE_NS and now_ns - since_ns >= self.CONTACT_NS


_Stream = tuple[int, int, str]
"""The ids of sender and receiver, and the type to whose nodes a message is sent, or no name."""


class EachMessageOnce(Checker):
    """A receiver gets of each stream what was accepted since it was included: in order, from the
    first message on, each once and without gaps.

    One that was excluded and does not know it yet may go on to receive, but without a gap too. A
    message that is not acknowledged may be lost, but comes neither twice nor late.
    """

    def __init__(self) -> None:
        self.received_count = 0
        self._sent_count = 0
        self._logs: dict[tuple[int, int | str], list[int]] = defaultdict(list)
        """The numbers of the messages of a sender to one type or node, in order."""
        self._begins: dict[_Stream, list[tuple[int, int]]] = defaultdict(list)
        """Each inclusion of a receiver, and where in the log it begins."""
        self._next: dict[_Stream, int] = {}
        """Where in the log the next message of each stream is."""
        self._best: dict[_Stream, int] = {}

    def number(self) -> int:
        """Return the number of the next message."""
        self._sent_count += 1
        return self._sent_count

    def accepted(self, sender: SystemCore, type_name: str, to: int | None, number: int) -> None:
        """Note that a node has accepted an acknowledged message, to nodes of a type or to one."""
        log = self._logs[sender.node, type_name if to is None else to]
        peers = [peer for peer in sender.data.peers.values() if peer.is_included]
        for peer in peers:
            if peer.type.name == type_name if to is None else peer.node == to:
                begins = self._begins[sender.node, peer.node, type_name if to is None else ""]
                if not begins or begins[-1][0] != peer.index:
                    begins.append((peer.index, len(log)))
        if any(peer.type.name == type_name if to is None else peer.node == to for peer in peers):
            log.append(number)

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, RecordsReceived):
            return None
        machine: SystemCore = node.machine
        name = "" if event.is_single else machine.own_type.name
        stream = event.node, machine.node, name
        for _, _, data in event.records:
            self.received_count += 1
            number = int.from_bytes(data[:8], "big")
            problem = self._received(stream, number, is_reliable=event.is_reliable)
            if problem is not None:
                return f"{node.name} received {problem} of {event.node}"
        return None

    def liveness(self, world: World) -> str | None:
        """All that was accepted for a node that is still included has arrived."""
        machines: dict[int, SystemCore] = {
            node.machine.node: node.machine for node in world.nodes.values() if node.is_up
        }
        for stream, begins in self._begins.items():
            sender, receiver, name = stream
            if sender not in machines or receiver not in machines:
                continue
            log, position = self._logs[sender, name or receiver], self._next.get(stream, 0)
            peer = machines[sender].data.peers.get(receiver)
            if peer is not None and begins[-1][0] == peer.index and position < len(log):
                return f"{receiver} has not received message {log[position]} of {sender}"
        return None

    def _received(self, stream: _Stream, number: int, *, is_reliable: bool) -> str | None:
        if not is_reliable:
            before = self._best.get(stream, 0)
            self._best[stream] = number
            return None if number > before else f"message {number} after {before}"
        sender, receiver, name = stream
        log, position = self._logs[sender, name or receiver], self._next.get(stream, -1)
        # The rest of an earlier inclusion was lost with it. A new one begins with its first one.
        places = [position, *(begin for _, begin in self._begins[stream] if begin > position)]
        for place in places:
            if 0 <= place < len(log) and log[place] == number:
                self._next[stream] = place + 1
                return None
        due = log[position] if 0 <= position < len(log) else None
        return f"message {number} instead of {due}"
