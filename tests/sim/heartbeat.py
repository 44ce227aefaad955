"""A failure detector: every member sends beats to a group, and suspects members without beats.

The difficulty is not to suspect others because of a pause of the own process. A program that was
paused for a second finds its deadlines passed and unread datagrams, and the missing beat may be
among them. So when the timeout of a peer ends, a last call begins, a short time in which unread
datagrams are read. A last call that is processed late itself is repeated.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from random import Random
from typing import Any, Final, cast

from skerry.protocol.deadlines import Deadlines
from skerry.protocol.machine import Address, MachineEvent, Statistics, Transmit
from skerry.protocol.outbox import Outbox
from skerry.testing import (
    SECOND,
    Checker,
    ClockDrift,
    ClockJumps,
    Clogs,
    Duplication,
    Factory,
    Loss,
    Node,
    Packet,
    Partitions,
    Pauses,
    Reordering,
    Restarts,
    Setting,
    World,
    scenario,
)
from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, Tracer

_BEAT: Final = struct.Struct(">4sQI")
_MARK: Final = b"beat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One beat: the life of the member, and the number of the beat in that life."""

    life: int
    number: int

    def encode(self) -> bytes:
        return _BEAT.pack(_MARK, self.life, self.number)

    @staticmethod
    def decode(data: bytes) -> Beat | None:
        if len(data) != _BEAT.size:
            return None
        mark, life, number = _BEAT.unpack(data)
        return Beat(life=life, number=number) if mark == _MARK else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatConfig:
    """Interval of beats, timeout, and bounds."""

    interval_ns: int = 100_000_000
    timeout_ns: int = 1_000_000_000
    last_call_ns: int = 1_000_000
    """Time to read waiting datagrams before a peer is suspected. A last call that is processed
    later than this is repeated, because the own process was paused."""
    peer_count_max: int = 256
    """Monitored peers. Beats of further peers are dropped."""
    past_life_count_max: int = 8
    """Past lives of a peer that are remembered, so that their late beats are recognized."""

    def __post_init__(self) -> None:
        assert 0 < self.interval_ns < self.timeout_ns
        assert 0 < self.last_call_ns < self.interval_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(MachineEvent):
    """The first beat of a peer arrived."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected(MachineEvent):
    """No beat of a peer arrived within the timeout."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(MachineEvent):
    """A beat of a suspected peer arrived."""

    peer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted(MachineEvent):
    """A peer was restarted."""

    peer: str


@dataclass(slots=True, kw_only=True)
class _Peer:
    life: int
    number: int
    past_lives: list[int]
    is_called: bool = False
    """The timeout has ended and the last call is running."""
    is_suspected: bool = False


class HeartbeatDetector(Outbox):
    """One member of a group: sends beats and monitors those of the others."""

    def __init__(
        self,
        *,
        address: Address,
        group: Address,
        rng: Random,
        now_ns: int,
        config: HeartbeatConfig | None = None,
        tracer: Tracer = NO_TRACE,
    ) -> None:
        self._address = address
        self._group = group
        self._config = config or HeartbeatConfig()
        self._tracer = tracer
        self._peers: dict[Address, _Peer] = {}
        self._expiry: Deadlines[Address] = Deadlines()
        # Members that start together must not send their beats together.
        self._beat_due_ns = now_ns + rng.randrange(self._config.interval_ns)
        self._number = 0
        super().__init__()
        self.life = rng.getrandbits(64)

    def alive(self) -> list[str]:
        """The peers that are not suspected, in the order they were found."""
        return [address.host for address, peer in self._peers.items() if not peer.is_suspected]

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        if source == self._address:
            return  # A member receives its own beats from the group.
        beat = Beat.decode(data)
        if beat is None:
            self._drop(DropReason.MALFORMED, source, now_ns)
            return
        reason = self._accept(beat, source)
        if reason is not None:
            self._drop(reason, source, now_ns)
        else:
            self._expiry.set(source, now_ns + self._config.timeout_ns)

    def advance(self, now_ns: int) -> None:
        """Send a beat, and suspect peers without beats."""
        if now_ns >= self._beat_due_ns:
            self._beat_due_ns = now_ns + self._config.interval_ns
            beat = Beat(life=self.life, number=self._number)
            self._number += 1
            self._transmits.append(Transmit(destination=self._group, data=beat.encode()))
        for address, due_ns in self._expiry.take_due(now_ns):
            peer = self._peers[address]
            if self._may_suspect(peer, now_ns - due_ns):
                peer.is_suspected = True
                self._events.append(Suspected(peer=address.host))
            else:
                peer.is_called = True
                self._expiry.set(address, now_ns + self._config.last_call_ns)

    def deadline_ns(self) -> int | None:
        """Time of the next own beat, or of the next timeout."""
        expiry_ns = self._expiry.next_ns()
        return self._beat_due_ns if expiry_ns is None else min(self._beat_due_ns, expiry_ns)

    def statistics(self) -> Statistics:
        return Statistics()

    def _accept(self, beat: Beat, source: Address) -> DropReason | None:
        peer = self._peers.get(source)
        if peer is None:
            return self._find(beat, source)
        if beat.life != peer.life:
            if beat.life in peer.past_lives:
                return DropReason.DUPLICATE
            self._begin_life(peer, beat, source)
        elif beat.number <= peer.number:
            # A delayed beat is not a sign that the peer is alive now.
            return DropReason.DUPLICATE
        peer.number = beat.number
        peer.is_called = False
        if peer.is_suspected:
            peer.is_suspected = False
            self._events.append(Restored(peer=source.host))
        return None

    def _find(self, beat: Beat, source: Address) -> DropReason | None:
        if len(self._peers) >= self._config.peer_count_max:
            return DropReason.STRANGER
        self._peers[source] = _Peer(life=beat.life, number=beat.number, past_lives=[])
        self._events.append(Found(peer=source.host))
        return None

    def _begin_life(self, peer: _Peer, beat: Beat, source: Address) -> None:
        peer.past_lives.append(peer.life)
        del peer.past_lives[: -self._config.past_life_count_max]
        peer.life = beat.life
        self._events.append(Restarted(peer=source.host))

    def _may_suspect(self, peer: _Peer, late_ns: int) -> bool:
        return peer.is_called and late_ns <= self._config.last_call_ns

    def _drop(self, reason: DropReason, source: Address, now_ns: int) -> None:
        self._tracer.emit(DatagramDropped(now_ns=now_ns, source=str(source), reason=reason))


# -- the scenario and its checkers

GROUP: Final = Address("239.192.7.1", 4711)


class NoHastySuspicion(Checker):
    """No member suspects a peer whose new beat arrived within the timeout.

    A beat counts from its arrival at the node, even if the node is paused and has not read it.
    """

    def __init__(self, config: HeartbeatConfig) -> None:
        # The clocks of the nodes may drift by a thousandth.
        self._recent_ns = config.timeout_ns - config.timeout_ns // 1000
        # A pause may begin just before the end of the last call and end just in time after it.
        self._unread_ns = 2 * config.last_call_ns + config.last_call_ns // 500
        self._arrivals: dict[tuple[str, str], tuple[Beat, list[int]]] = {}

    def arrived(self, packet: Packet) -> str | None:
        beat = Beat.decode(packet.data)
        link = (packet.destination.name, packet.source.name)
        # A beat of a past life is not a sign of the current one.
        if beat is None or not packet.source.is_up or packet.source.machine.life != beat.life:
            return None
        last, times_ns = self._arrivals.get(link, (None, []))
        if last is not None and last.life == beat.life and last.number >= beat.number:
            return None
        now_ns = packet.destination.world.now_ns
        recent = [at_ns for at_ns in times_ns if now_ns - at_ns < self._recent_ns]
        self._arrivals[link] = (beat, [*recent, now_ns])
        return None

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, Suspected):
            return None
        _, times_ns = self._arrivals.get((node.name, event.peer), (None, []))
        for at_ns in times_ns:
            silent_ns = node.world.now_ns - at_ns
            if self._unread_ns < silent_ns < self._recent_ns:
                silent_ms = silent_ns / 1_000_000
                return (
                    f"{node.name} suspects {event.peer}, whose beat arrived {silent_ms:.1f} ms ago"
                )
        return None


class SuspicionsAlternate(Checker):
    """A peer is found before it is suspected, and restored before it is suspected again."""

    def __init__(self) -> None:
        self._trusted: dict[tuple[str, int, str], bool] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, (Found, Suspected, Restored)):
            return None
        key = (node.name, node.life, event.peer)
        trusted = self._trusted.get(key)
        expected = {Found: None, Suspected: True, Restored: False}[type(event)]
        self._trusted[key] = not isinstance(event, Suspected)
        if trusted is expected:
            return None
        return f"{node.name} reports {type(event).__name__} of {event.peer} in the wrong order"


class AllHeard(Checker):
    """Liveness: every member trusts every other member that is up."""

    def liveness(self, world: World) -> str | None:
        for node in world.nodes.values():
            if not node.is_up:
                continue
            alive = cast("HeartbeatDetector", node.machine).alive()
            for other in world.nodes.values():
                if other is not node and other.is_up and other.name not in alive:
                    return f"{node.name} does not receive beats of {other.name}"
        return None


def member(setting: Setting) -> HeartbeatDetector:
    return HeartbeatDetector(
        address=setting.address,
        group=GROUP,
        rng=setting.rng,
        now_ns=setting.now_ns,
        tracer=setting.tracer,
    )


def play_heartbeat(
    world: World, node_count: int, *, factory: Factory[HeartbeatDetector] = member
) -> None:
    """Members of a group under all faults. Then one crashes, and all others detect it."""
    config = HeartbeatConfig()
    nodes = [world.add(f"member-{n}", factory, groups=[GROUP]) for n in range(node_count)]
    world.watch(NoHastySuspicion(config))
    world.watch(SuspicionsAlternate())
    world.watch(AllHeard())
    world.inject(Loss(0.3))
    world.inject(Duplication(0.05))
    world.inject(Reordering(0.1))
    world.inject(Partitions(gap_ns=4 * SECOND, length_ns_max=3 * SECOND))
    world.inject(Clogs(gap_ns=4 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Pauses(gap_ns=SECOND, length_ns_max=3 * SECOND))
    world.inject(Restarts(gap_ns=4 * SECOND, down_ns_max=2 * SECOND))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.inject(ClockJumps(gap_ns=2 * SECOND, jump_ns_max=3600 * SECOND))
    world.run(faults_ns=10 * SECOND, calm_ns=2 * SECOND)
    victim = nodes[world.random("victim").randrange(node_count)]
    world.crash(victim)

    def is_suspected_by_all() -> bool:
        return all(victim.name not in node.machine.alive() for node in nodes if node is not victim)

    world.run_until(is_suspected_by_all, config.timeout_ns + 2 * config.interval_ns)


heartbeat = scenario(
    "members of a multicast group detect members that stopped", node_count=5, node_count_min=2
)(play_heartbeat)
