"""The scenario of requests and claims under all faults."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from skerry.testing.checkers import Checker
from skerry.testing.machines.node_checkers import (
    Bounded,
    CleanedUp,
    ConfirmedIsKept,
    ConsistentEvents,
    Explained,
    Genuine,
    NobodyIsBlamed,
    NothingLeftOut,
    OrderKept,
    SameObjects,
)
from skerry.testing.machines.node_host import OLD_PREFIX
from skerry.testing.machines.node_scenarios import KEYS, Doing, inject_all
from skerry.testing.machines.program import NODE, TYPES, History
from skerry.testing.node import Factory, Node
from skerry.testing.node_faults import SlowReaders
from skerry.testing.scenarios import scenario
from skerry.testing.workloads import Repeat
from skerry.testing.world import MS, SECOND, World
from tests.sim.request_checkers import (
    AskedInOrder,
    CarriedOutOnce,
    ClaimsAgree,
    EndedOnce,
    InTime,
    NobodyWasThere,
    NothingIsLeft,
    OneHolder,
    OwnedIsOwn,
    partners,
)
from tests.sim.request_history import HANDLERS, MANNERS, TASKS, Asked, Tasks
from tests.sim.request_host import OWNED_TYPES, REQUEST_LIMITS, RequestHost
from tests.sim.request_program import RequestProgram
from tests.sim.request_state import look

__all__ = ["Exchanging", "play_requests", "requests"]

_EXCUSED: Final = (
    "it is owned by client",
    "owns some of its objects",
    f"{REQUEST_LIMITS.claim_count_max} claims already",
    "the space is closed",
)
"""Expected reasons: objects of another owner, too many claims, and closed spaces."""
_TIMEOUTS_MS: Final = (30, 300, 1000, 3000)
_PATIENCE_NS: Final = 300 * MS
"""Long enough to receive the timeout from the node."""
_DELAY_MS_MAX: Final = 600
_WINDOW_BYTES: Final = 2048
"""A small window, so that slow readers have an effect."""
_BURST_COUNT_MIN: Final = 12
_BURST_COUNT_MAX: Final = 2 * REQUEST_LIMITS.request_count_max


class Exchanging:
    """The workload: programs send one or many requests, claim, release, and restart."""

    def __init__(self, world: World, tasks: Tasks) -> None:
        self._world = world
        self._tasks = tasks

    def act(self, world: World, rng: Random) -> None:
        node = rng.choice(partners(world, NODE.host))
        if not node.is_running:
            return
        kind = rng.random()
        if kind < 0.62:
            self._ask(node, rng, *rng.choice(HANDLERS))
        elif kind < 0.64:
            handler = rng.choice(HANDLERS)
            for _ in range(rng.randrange(_BURST_COUNT_MIN, _BURST_COUNT_MAX)):
                self._ask(node, rng, *handler)
        elif kind < 0.76:
            self._serve(node, rng)
        elif kind < 0.85:
            self._own(node, rng)
        elif kind < 0.99:
            self._release(node, rng)
        else:
            node.do(lambda machine, now_ns: machine.close(now_ns))
            world.restart(node, down_ns=rng.randrange(1, SECOND))

    def last_act(self, rng: Random) -> None:
        """After all faults have ended, every program answers open requests and makes claims."""
        for node in partners(self._world, NODE.host):
            node.do(lambda machine, now_ns: machine.answer_all(now_ns))
            self._serve(node, rng)
            self._own(node, rng)

    def ask_everywhere(self, rng: Random) -> None:
        """Every program sends a request to every handler, which must be answered."""
        seats = look(self._world.nodes[NODE.host].machine.core).seats
        for node in partners(self._world, NODE.host):
            for type_name, handler, _ in seats:
                if handler is not None:
                    self._ask(node, rng, type_name, handler, is_sure=True)

    def _ask(
        self,
        node: Node[RequestProgram],
        rng: Random,
        type_name: str,
        handler: str,
        *,
        is_sure: bool = False,
    ) -> None:
        number = self._tasks.next_number
        manner = "now" if is_sure else rng.choices(list(MANNERS), list(MANNERS.values()))[0]
        timeout_ms = _TIMEOUTS_MS[-1] if is_sure else rng.randrange(1, rng.choice(_TIMEOUTS_MS))
        patience_ns = rng.choice((0, _PATIENCE_NS))
        self._tasks.announce(
            Asked(
                number=number,
                asker=(node.name, node.life),
                type_name=type_name,
                handler=handler,
                manner=manner,
                timeout_ns=timeout_ms * MS,
                patience_ns=patience_ns,
                asked_ns=self._world.now_ns,
                is_sure=is_sure,
            )
        )
        task = TASKS[type_name](
            number=number,
            manner=manner,
            delayMs=rng.randrange(1, _DELAY_MS_MAX),
            note="." * rng.randrange(200),
        )
        timeout_s = timeout_ms / 1000
        node.do(
            lambda m, now_ns: m.ask(
                task, now_ns, to=handler, timeout_s=timeout_s, patience_ns=patience_ns
            )
        )

    def _serve(self, node: Node[RequestProgram], rng: Random) -> None:
        type_name, name = rng.choice(HANDLERS)
        is_standby = rng.random() < 0.5
        if not node.machine.claims_already(type_name, name):
            node.do(lambda m, now_ns: m.serve(type_name, name, now_ns, is_standby=is_standby))

    def _own(self, node: Node[RequestProgram], rng: Random) -> None:
        type_name = rng.choice(OWNED_TYPES)
        wanted = None if rng.random() < 0.2 else rng.sample(KEYS, 1 + rng.randrange(2))
        is_standby = rng.random() < 0.5
        keys: list[str | None] = [None] if wanted is None else [*wanted]
        if not any(node.machine.claims_already(type_name, None, key) for key in keys):
            node.do(lambda m, now_ns: m.own(type_name, wanted, now_ns, is_standby=is_standby))

    def _release(self, node: Node[RequestProgram], rng: Random) -> None:
        if node.machine.claims:
            claim = rng.choice(node.machine.claims)
            node.do(lambda machine, now_ns: machine.release(claim, now_ns))


def play_requests(
    world: World,
    node_count: int,
    *,
    host: Factory[Any] = RequestHost,
    program: Factory[Any] = RequestProgram,
) -> None:
    """Programs send requests and own objects. Connections are lost; all of them crash at times."""
    world.network.streams.window_bytes = _WINDOW_BYTES
    # Otherwise a node would keep claims of clients whose end it did not detect.
    world.network.streams.keep_alive_ns = 2 * SECOND
    world.add(NODE.host, host, port=NODE.port, listens=True)
    programs = [
        world.add(f"{OLD_PREFIX if n % 4 == 3 else ''}program-{n}", program)
        for n in range(1, node_count)
    ]
    history, tasks = History(), Tasks()
    kept = ConfirmedIsKept(NODE.host, history)
    for checker in (*_checkers(history, tasks), kept):
        world.watch(checker)
    doing = Doing(programs, history, kept, note_bytes_max=40)
    exchanging = Exchanging(world, tasks)
    world.drive(Repeat(doing.act, gap_ns_min=MS, gap_ns_max=40 * MS))
    world.drive(Repeat(exchanging.act, gap_ns_min=MS, gap_ns_max=15 * MS))
    inject_all(world, node_life_ns=3 * SECOND)
    # Not the node: it would read a closed stream after the one that replaced it.
    slow = SlowReaders(
        gap_ns=SECOND,
        length_ns_max=2 * SECOND,
        bytes_per_s_max=_WINDOW_BYTES,
        nodes=[node.name for node in programs],
    )
    world.inject(slow)
    world.run_for(5 * SECOND)
    world.calm()
    world.run_until(lambda: all(node.is_running for node in world.nodes.values()))
    doing.last_act(world.random("last act"))
    exchanging.last_act(world.random("last exchange"))
    world.run(faults_ns=1, calm_ns=60 * SECOND)
    exchanging.ask_everywhere(world.random("last requests"))
    world.run(faults_ns=1, calm_ns=60 * SECOND)


def _checkers(history: History, tasks: Tasks) -> list[Checker]:
    consistent = ConsistentEvents()
    return [
        EndedOnce(tasks),
        CarriedOutOnce(tasks),
        AskedInOrder(tasks),
        InTime(NODE.host, tasks),
        OneHolder(NODE.host),
        OwnedIsOwn(),
        NobodyWasThere(tasks),
        ClaimsAgree(NODE.host),
        NothingIsLeft(NODE.host),
        Genuine(history),
        OrderKept(history),
        NothingLeftOut(history, [name for name in TYPES if name not in OWNED_TYPES]),
        consistent,
        SameObjects(NODE.host, consistent),
        CleanedUp(NODE.host),
        Explained(NODE.host),
        Bounded(NODE.host, REQUEST_LIMITS.waiting_bytes_max),
        NobodyIsBlamed(*_EXCUSED),
    ]


requests = scenario(
    "programs send requests and own objects while connections break and programs crash",
    node_count=6,
    node_count_min=2,
)(play_requests)
