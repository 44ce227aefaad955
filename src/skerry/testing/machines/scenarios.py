"""The scenarios of the example machines: the echo, the echo over streams, and the heartbeat.

The factories of the machines are arguments, so that a test can pass a broken one, which a checker
must detect.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, cast

from skerry.errors import WouldBlock
from skerry.protocol.machine import Address, MachineEvent
from skerry.testing.checkers import Checker, EachOnce, NoInvention
from skerry.testing.faults import Duplication, Jitter, Loss, Reordering
from skerry.testing.machines.echo import Answered, EchoClient, EchoServer, GaveUp, Served
from skerry.testing.machines.heartbeat import (
    Beat,
    Found,
    HeartbeatConfig,
    HeartbeatDetector,
    Restored,
    Suspected,
)
from skerry.testing.machines.stream_echo import StreamEchoClient, StreamEchoServer
from skerry.testing.node import Factory, Node, Setting
from skerry.testing.node_faults import (
    ClockDrift,
    ClockJumps,
    Clogs,
    Partitions,
    Pauses,
    Refusals,
    Restarts,
    StreamLosses,
)
from skerry.testing.packet import Packet
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World


def answered_once() -> EachOnce:
    """A client reports each answer once."""
    return EachOnce("answered once", _answer_key)


def served_once() -> EachOnce:
    """A server serves each question once per life."""
    return EachOnce("served once", _served_key)


def genuine() -> NoInvention:
    """Questions and answers have the data that was announced as (life, number, data)."""
    return NoInvention("genuine", _content_key)


class AllAnswered(Checker):
    """Liveness: every question is answered, except those that a client lost with its disk."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], str] = {}

    def asked(self, node: Node[Any], life: int, number: int) -> None:
        """Record a question that must be answered."""
        self._open[life, number] = node.name

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, GaveUp):
            return f"{node.name} gave up question {event.number}"
        if isinstance(event, Answered):
            self._open.pop((event.life, event.number), None)
        return None

    def liveness(self, world: World) -> str | None:
        for (life, number), name in self._open.items():
            if world.nodes[name].machine.life == life:
                return f"question {number} of {name} has no answer"
        return None


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


def _answer_key(node: Node[Any], event: MachineEvent) -> tuple[str, int, int] | None:
    if not isinstance(event, Answered):
        return None
    return (node.name, event.life, event.number)


def _served_key(node: Node[Any], event: MachineEvent) -> tuple[str, int, int, int] | None:
    if not isinstance(event, Served):
        return None
    return (node.name, node.life, event.life, event.number)


def _content_key(_: Node[Any], event: MachineEvent) -> tuple[int, int, bytes] | None:
    if not isinstance(event, (Answered, Served)):
        return None
    return (event.life, event.number, event.data)


# -- checkers


SERVER: Final = Address("server", 7)
STREAM_SERVER: Final = Address("server", 7, is_stream=True)
GROUP: Final = Address("239.192.7.1", 4711)


def echo_client(setting: Setting) -> EchoClient:
    """A client that continues where its last life ended."""
    return EchoClient(
        server=SERVER,
        rng=setting.rng,
        now_ns=setting.now_ns,
        disk=setting.disk,
        tracer=setting.tracer,
    )


def echo_server(setting: Setting) -> EchoServer:
    """A server without memory of its last life."""
    return EchoServer(tracer=setting.tracer)


def stream_echo_client(setting: Setting) -> StreamEchoClient:
    """A client that loses its questions in a crash."""
    return StreamEchoClient(server=STREAM_SERVER, rng=setting.rng, now_ns=setting.now_ns)


def stream_echo_server(setting: Setting) -> StreamEchoServer:
    return StreamEchoServer(server=echo_server(setting))


def member(setting: Setting) -> HeartbeatDetector:
    return HeartbeatDetector(
        address=setting.address,
        group=GROUP,
        rng=setting.rng,
        now_ns=setting.now_ns,
        tracer=setting.tracer,
    )


def play_echo(
    world: World,
    node_count: int,
    *,
    client: Factory[EchoClient] = echo_client,
    server: Factory[EchoServer] = echo_server,
) -> None:
    """One server and clients. Datagrams are lost, duplicated, reordered, delayed and
    partitioned."""
    world.add("server", server)
    clients = [world.add(f"client-{n}", client) for n in range(1, node_count)]
    _drive_echo(world, clients)
    world.inject(Loss(0.3))
    world.inject(Duplication(0.1))
    world.inject(Reordering(0.1))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Clogs(gap_ns=3 * SECOND, length_ns_max=SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=4 * SECOND, down_ns_max=SECOND, disk_loss_rate=0.3))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run(faults_ns=10 * SECOND)


def play_stream_echo(
    world: World,
    node_count: int,
    *,
    client: Factory[StreamEchoClient] = stream_echo_client,
    server: Factory[StreamEchoServer] = stream_echo_server,
) -> None:
    """One server and clients. Streams break, are refused, stall, and end with a crash."""
    world.add("server", server, listens=True)
    clients = [world.add(f"client-{n}", client) for n in range(1, node_count)]
    _drive_echo(world, clients)
    world.inject(Loss(0.05))
    world.inject(Jitter(delay_ns_max=2 * MS))
    world.inject(StreamLosses(gap_ns=SECOND))
    world.inject(Refusals(0.2))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=4 * SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=4 * SECOND, down_ns_max=SECOND))
    world.run(faults_ns=10 * SECOND)


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


echo = scenario(
    "clients send questions to a server by datagrams until they are answered",
    node_count=4,
    node_count_min=2,
)(play_echo)
heartbeat = scenario(
    "members of a multicast group detect members that stopped", node_count=5, node_count_min=2
)(play_heartbeat)
stream_echo = scenario(
    "clients send questions to a server over streams that break", node_count=4, node_count_min=2
)(play_stream_echo)


def _drive_echo(world: World, clients: Sequence[Node[Any]]) -> None:
    """Make clients send questions, and check that each is answered."""
    origin = genuine()
    answers = AllAnswered()
    for checker in (origin, answers, answered_once(), served_once()):
        world.watch(checker)

    def ask(_: World, rng: Random) -> None:
        node = rng.choice(clients)
        if not node.is_running:
            return
        data = rng.randbytes(rng.randrange(64))
        life = node.machine.life
        # Announced under the number it will get: the answer must not be there before the question.
        number = node.machine.next_number
        origin.announce((life, number, data))
        try:
            node.do(lambda machine, now_ns: machine.ask(data, now_ns))
        except WouldBlock:
            return  # The client has enough under way; that it says so is what it should do.
        answers.asked(node, life, number)

    world.drive(Repeat(ask, gap_ns_min=MS, gap_ns_max=40 * MS))
