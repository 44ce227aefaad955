"""The scenario of the echo, and its checkers.

The factories of the machines are arguments, so that a test can pass a broken one, which a checker
must detect.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from skerry.errors import WouldBlock
from skerry.protocol.machine import Address, MachineEvent
from skerry.testing.checkers import Checker, EachOnce, NoInvention
from skerry.testing.faults import Duplication, Loss, Reordering
from skerry.testing.machines.echo import Answered, EchoClient, EchoServer, GaveUp, Served
from skerry.testing.node import Factory, Node, Setting
from skerry.testing.node_faults import ClockDrift, Clogs, Partitions, Pauses, Restarts
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
    drive_echo(world, clients)
    world.inject(Loss(0.3))
    world.inject(Duplication(0.1))
    world.inject(Reordering(0.1))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=2 * SECOND))
    world.inject(Clogs(gap_ns=3 * SECOND, length_ns_max=SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=4 * SECOND, down_ns_max=SECOND, disk_loss_rate=0.3))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.run(faults_ns=10 * SECOND)


echo = scenario(
    "clients send questions to a server by datagrams until they are answered",
    node_count=4,
    node_count_min=2,
)(play_echo)


def drive_echo(world: World, clients: Sequence[Node[Any]]) -> None:
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
