"""The scenarios of the example machines: the echo, the echo over streams, and the heartbeat.

The factories of the machines are arguments, so that a test can pass a broken one, which a checker
must detect.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from skerry.errors import WouldBlock
from skerry.protocol.machine import Address
from skerry.testing.faults import Duplication, Jitter, Loss, Reordering
from skerry.testing.machines.checkers import (
    AllAnswered,
    AllHeard,
    NoHastySuspicion,
    SuspicionsAlternate,
    answered_once,
    genuine,
    served_once,
)
from skerry.testing.machines.echo import EchoClient, EchoServer
from skerry.testing.machines.heartbeat import HeartbeatConfig, HeartbeatDetector
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
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World

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
