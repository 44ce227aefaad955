"""The scenario of a node and its clients: lost connections and crashes.

Other scenarios use its parts: the workload `Doing`, `build_system` with all checkers, and
`finish_run`. The factories of the machines are arguments, so that a test can pass a broken one.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from skerry.client.core.event_queue import OnSlow
from skerry.engine.admission.quotas import ClientLimits
from skerry.errors import WouldBlock
from skerry.testing.checkers import Checker
from skerry.testing.faults import Jitter, Loss
from skerry.testing.machines.node_checkers import (
    Bounded,
    CleanedUp,
    ConfirmedIsKept,
    ConflatedIsNotCut,
    ConsistentEvents,
    Explained,
    Genuine,
    NobodyIsBlamed,
    NothingLeftOut,
    OrderKept,
    SameObjects,
)
from skerry.testing.machines.node_host import OLD_PREFIX, NodeHost
from skerry.testing.machines.program import (
    CLEANUP,
    FIELDS,
    MESSAGE,
    NODE,
    PERSISTENT,
    PLAIN,
    TYPES,
    History,
    Kind,
    Program,
    subject_of,
)
from skerry.testing.node import Factory, Node
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

PATTERNS: Final = (
    "/...",
    "/fleet/...",
    f"/fleet/{PLAIN}/*",
    f"/{PLAIN}/*",
    f"/{PLAIN}/b1",
    f"/*/{PERSISTENT}/*",
    f"/{CLEANUP}/...",
    f"/{MESSAGE}/*",
)
_SUBSCRIPTION_COUNT_MIN: Final = 3
_SUBSCRIPTION_COUNT_MAX: Final = 6
KEYS: Final = ("s1", "s2", "b1", "b2", "b3", "b4")
"""Objects with keys that begin with `s` have their own subject."""


class Doing:
    """The workload: programs publish whole objects and parts, remove, clear and subscribe.

    A subclass may change `patterns`, `subject` and `on_slow`.
    """

    patterns: tuple[str, ...] = PATTERNS

    def __init__(
        self,
        programs: list[Node[Program]],
        history: History,
        kept: ConfirmedIsKept,
        *,
        note_bytes_max: int,
    ) -> None:
        self.programs = programs
        self._history = history
        self._kept = kept
        self._note_bytes_max = note_bytes_max

    def act(self, _world: World, rng: Random) -> None:
        node = rng.choice(self.programs)
        if not node.is_running:
            return
        kind = rng.random()
        if len(node.machine.subscriptions) < _SUBSCRIPTION_COUNT_MIN:
            self._subscribe(node, rng)
        elif kind < 0.72:
            self._publish(node, rng)
        elif kind < 0.81:
            self._remove(node, rng)
        elif kind < 0.82:
            node.do(lambda machine, now_ns: machine.clear(PLAIN, now_ns))
        elif kind < 0.92:
            # As programs do that need confirmation.
            self._publish(node, rng, PERSISTENT)
            self._flush(node)
        elif kind < 0.98:
            self._subscribe(node, rng)
        else:
            self._unsubscribe(node, rng)

    def last_act(self, rng: Random) -> None:
        """After all faults have ended, every program subscribes and publishes once more."""
        for node in self.programs:
            self.ask(node, "type", PLAIN, on_slow=self.on_slow(node, rng))
            self._publish(node, rng)
            self._flush(node)

    def ask(self, node: Node[Program], kind: Kind, what: str, **options: Any) -> None:
        """Subscribe, with the options of `Program.subscribe`."""
        node.do(lambda machine, now_ns: machine.subscribe(kind, what, now_ns, **options))

    def subject(self, type_name: str, key: str, number: int) -> str:
        """The subject of the publish with this number; empty for the default one."""
        return subject_of(type_name, key)

    def on_slow(self, node: Node[Program], rng: Random) -> OnSlow:
        """The `on_slow` of the next subscription of a program."""
        return "disconnect" if rng.random() < 0.7 else "conflate"

    def _publish(self, node: Node[Program], rng: Random, type_name: str = "") -> None:
        history = self._history
        name, key = self._object(node, rng, type_name)
        number = history.next_number
        note = f"{number}:".ljust(rng.randrange(self._note_bytes_max), ".")
        values = {"number": number, "level": rng.randrange(10), "note": note, "extra": number}
        # A named field without a value becomes unset.
        only = ["number", *(field for field in FIELDS[1:] if rng.random() < 0.6)]
        fields = {field: values[field] for field in only if rng.random() < 0.9}
        fields["number"] = number
        obj = TYPES[name](id=key, **fields)
        history.announce(name, key, fields)
        subject = self.subject(name, key, number)
        try:
            node.do(lambda m, now_ns: m.publish(obj, now_ns, only=["id", *only], subject=subject))
        except WouldBlock:
            return  # The send buffer of the program is full.
        self._note(node, name, key, is_remove=False)

    def _remove(self, node: Node[Program], rng: Random) -> None:
        name, key = self._object(node, rng)
        if name == MESSAGE:
            return
        obj = TYPES[name](id=key)
        subject = subject_of(name, key)
        try:
            node.do(lambda machine, now_ns: machine.remove(obj, now_ns, subject=subject))
        except WouldBlock:
            return
        self._note(node, name, key, is_remove=True)

    def _note(self, node: Node[Program], name: str, key: str, *, is_remove: bool) -> None:
        space = node.machine.space
        # A publish that had to wait may be sent on this or on a later connection.
        is_out = space.waiting_bytes == 0
        connection = space.connection.client_id if is_out else -self._history.next_number
        publish = self._history.add(
            (node.name, node.life), name, key, is_remove=is_remove, connection=connection
        )
        if name == PERSISTENT:
            self._kept.published(publish)

    def _flush(self, node: Node[Program]) -> None:
        number = self._history.next_number - 1
        node.do(lambda machine, now_ns: machine.flush(number, now_ns))

    def _subscribe(self, node: Node[Program], rng: Random) -> None:
        if len(node.machine.subscriptions) >= _SUBSCRIPTION_COUNT_MAX:
            return
        kinds: list[Kind] = ["type", "where", "type" if node.machine.is_old else "pattern"]
        kind = rng.choice(kinds)
        if kind == "pattern":
            what = rng.choice(self.patterns)
        else:
            what = rng.choice([name for name in TYPES if kind == "type" or name != MESSAGE])
        level_min = rng.randrange(9)
        fields = rng.choice([FIELDS, ("number", "level"), ("number", "note")])
        on_slow = self.on_slow(node, rng)
        self.ask(node, kind, what, level_min=level_min, fields=fields, on_slow=on_slow)

    def _unsubscribe(self, node: Node[Program], rng: Random) -> None:
        if node.machine.subscriptions:
            number = rng.choice(list(node.machine.subscriptions))
            node.do(lambda machine, now_ns: machine.unsubscribe(number, now_ns))

    def _object(self, node: Node[Program], rng: Random, type_name: str = "") -> tuple[str, str]:
        name = type_name or rng.choice(list(TYPES))
        key = rng.choice(KEYS[2:] if node.machine.is_old else KEYS)
        if name == PERSISTENT:
            # Written by one life of one program, so that its publishes are ordered.
            key = f"{key}.{node.name}.{node.life}"
        return name, key


def play_node(
    world: World,
    node_count: int,
    *,
    host: Factory[Any] = NodeHost,
    program: Factory[Any] = Program,
) -> None:
    """A node and programs. Connections are lost, refused and stall; all of them crash at times."""
    doing = build_system(world, node_count, host, program)
    inject_all(world)
    finish_run(world, doing)


def inject_all(world: World, *, node_life_ns: int = SECOND) -> None:
    """Inject all faults of streams, clocks and nodes. The node restarts about every
    `node_life_ns`."""
    world.inject(Loss(0.01))
    world.inject(Jitter(delay_ns_max=2 * MS))
    world.inject(StreamLosses(gap_ns=700 * MS))
    world.inject(Refusals(0.1))
    world.inject(Partitions(gap_ns=3 * SECOND, length_ns_max=4 * SECOND))
    world.inject(Clogs(gap_ns=3 * SECOND, length_ns_max=SECOND))
    world.inject(Pauses(gap_ns=2 * SECOND, length_ns_max=SECOND))
    world.inject(Restarts(gap_ns=1500 * MS, down_ns_max=SECOND))
    world.inject(Restarts(gap_ns=node_life_ns, down_ns_max=500 * MS, nodes=[NODE.host]))
    world.inject(ClockDrift(drift_ppm_max=500))
    world.inject(ClockJumps(gap_ns=2 * SECOND, jump_ns_max=3600 * SECOND))


def build_system(
    world: World,
    node_count: int,
    host: Factory[Any],
    program: Factory[Any],
    *,
    limits: ClientLimits | None = None,
    note_bytes_max: int = 40,
    workload: type[Doing] = Doing,
) -> Doing:
    """Add a node and programs to the world, with all checkers and a running workload.

    `limits` are those of the host, if it has others than the default.
    """
    world.add(NODE.host, host, port=NODE.port, listens=True)
    programs = [
        world.add(f"{OLD_PREFIX if n % 4 == 3 else ''}program-{n}", program)
        for n in range(1, node_count)
    ]
    history, consistent = History(), ConsistentEvents()
    kept = ConfirmedIsKept(NODE.host, history)
    checkers: list[Checker] = [
        Genuine(history),
        OrderKept(history),
        NothingLeftOut(history),
        consistent,
        SameObjects(NODE.host, consistent),
        kept,
        CleanedUp(NODE.host),
        ConflatedIsNotCut(),
        Explained(NODE.host),
        Bounded(NODE.host, (limits or ClientLimits()).waiting_bytes_max),
        NobodyIsBlamed(),
    ]
    for checker in checkers:
        world.watch(checker)
    doing = workload(programs, history, kept, note_bytes_max=note_bytes_max)
    world.drive(Repeat(doing.act, gap_ns_min=MS, gap_ns_max=15 * MS))
    return doing


def finish_run(world: World, doing: Doing) -> None:
    """Run with faults for 5 s, and then without until all checkers are satisfied."""
    world.run_for(5 * SECOND)
    world.calm()
    doing.last_act(world.random("last act"))
    world.run(faults_ns=1, calm_ns=120 * SECOND)


node = scenario(
    "programs share objects by a node while connections break and programs crash",
    node_count=5,
    node_count_min=2,
)(play_node)
