"""The simulated world: one clock, one network, one seed, and all nodes.

Every event is an entry in one queue, ordered by time and, at equal times, by the order of
scheduling. Nothing else determines an order: no iteration over sets, no `hash`, no threads. Each
purpose has its own random source, derived from the seed and the name of the purpose, so that an
additional fault does not change the randomness of another. So the same seed gives the same trace,
byte for byte, in every process.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from skerry.errors import LimitExceeded, SimulationError
from skerry.protocol.machine import Address, Durable, Machine, MachineEvent, WallClocked
from skerry.testing.checkers import Checker
from skerry.testing.network import Network
from skerry.testing.node import Factory, Node, Setting, SimulatedClock
from skerry.testing.trace import Trace
from skerry.tracing import TraceEvent, trace_line

if TYPE_CHECKING:
    from skerry.testing.faults import Fault, LinkFault
    from skerry.testing.packet import Packet
    from skerry.testing.workloads import Workload


SIM_TIME_NS_MAX: Final = 24 * 3600 * 1_000_000_000
"""Simulated time of one world: a day. A system that has not finished its work by then never
will."""
SIM_EVENT_COUNT_MAX: Final = 20_000_000
"""Events of one world: some minutes of computing. It ends a world that would run all night."""
SIM_SPIN_COUNT_MAX: Final = 1000
"""Calls of `advance` in one instant. More of them mean a deadline that never moves, at which
simulated time would stop."""
SIM_NODE_COUNT_MAX: Final = 2000
"""Nodes of one world: forty times the largest group that is tested."""

MS: Final = 1_000_000
"""A millisecond, in nanoseconds."""
SECOND: Final = 1_000_000_000
"""A second, in nanoseconds."""

TAIL_LINE_COUNT: Final = 30
"""Events that are shown with a failure. `--trace` prints all of them."""

SAFETY_EVENT_COUNT: Final = 100
"""Events between two checks of the state. A violation is still there some events later."""

LATENCY_NS: Final = 100_000
"""One-way latency of an idle local network."""

MachineA = TypeVar("MachineA", bound=Machine)
MachineB = TypeVar("MachineB", bound=Machine)


class World:
    """One simulated run: nodes, network, faults, workloads and checkers."""

    def __init__(
        self,
        seed: int,
        *,
        scenario: str = "world",
        command: str | None = None,
        latency_ns: int = LATENCY_NS,
        sink: Callable[[str], None] | None = None,
        time_ns_max: int = SIM_TIME_NS_MAX,
        event_count_max: int = SIM_EVENT_COUNT_MAX,
    ) -> None:
        """`command` repeats this run. `sink` receives every line of the trace."""
        assert seed >= 0
        self.seed = seed
        self.scenario = scenario
        self.command = command
        self.now_ns = 0
        self.event_count = 0
        self.input_count = 0
        """Inputs of machines: datagrams, pieces of streams, deadlines, acts."""
        self.nodes: dict[str, Node[Any]] = {}
        self.faults: list[Fault] = []
        """All injected faults. A fault is listed once per injection."""
        self.taps: list[Checker] = []
        self.trace = Trace(sink)
        self._time_ns_max = time_ns_max
        self._event_count_max = event_count_max
        self._queue: list[tuple[int, int, Callable[[Any], None], Any]] = []
        self._scheduled_count = 0
        self._checkers: list[Checker] = []
        self._observers: list[Checker] = []
        self._guards: list[Checker] = []
        self._workloads: list[Workload] = []
        self._resume_rng = self.random("resume")
        self._clock_rng = self.random("clock")
        self.network = Network(self, latency_ns=latency_ns)

    # -- building

    def add(
        self,
        name: str,
        factory: Factory[MachineA],
        *,
        port: int = 7,
        more_ports: Sequence[int] = (),
        groups: Sequence[Address] = (),
        listens: bool = False,
    ) -> Node[MachineA]:
        """Add and start a node. With `listens`, others can open streams to its `StreamMachine`.

        A `PortMachine` may have a socket at each of `more_ports`.
        """
        assert name not in self.nodes, f"there is a node {name} already"
        if len(self.nodes) >= SIM_NODE_COUNT_MAX:
            raise LimitExceeded(
                what="number of simulated nodes",
                value=len(self.nodes) + 1,
                limit=SIM_NODE_COUNT_MAX,
            )
        clock = SimulatedClock(start_ns=self._clock_rng.randrange(1_000_000 * SECOND))
        node = Node(
            world=self,
            name=name,
            ports=[port, *more_ports],
            factory=factory,
            clock=clock,
            listens=listens,
        )
        self.nodes[name] = node
        self.network.attach(node)
        for group in groups:
            self.network.join(node, group)
        self.start(node)
        return node

    def pair(
        self,
        first: Factory[MachineA],
        second: Factory[MachineB],
        *,
        loss: LinkFault | None = None,
        groups: Sequence[Address] = (),
    ) -> tuple[Node[MachineA], Node[MachineB]]:
        """Add two nodes, `first` and `second`. `loss` affects packets from the first to the second.
        The second starts first, so that the first can reach it."""
        answering = self.add("second", second, groups=groups, listens=True)
        asking = self.add("first", first, groups=groups)
        if loss is not None:
            self.inject(loss.between(sources=["first"], destinations=["second"]))
        return asking, answering

    def inject(self, fault: Fault) -> None:
        """Start a fault. It is active until `calm`."""
        name = type(fault).__name__
        # Counted per class: the third `Loss` has the same randomness with and without pauses.
        index = sum(type(other).__name__ == name for other in self.faults)
        self.faults.append(fault)
        fault.start(self, self.random(f"fault/{name}/{index}"))

    def drive(self, workload: Workload) -> None:
        rng = self.random(f"workload/{len(self._workloads)}")
        self._workloads.append(workload)
        workload.start(self, rng)

    def watch(self, checker: Checker) -> None:
        self._checkers.append(checker)
        kind = type(checker)
        if kind.observed is not Checker.observed:
            self._observers.append(checker)
        if kind.arrived is not Checker.arrived:
            self.taps.append(checker)
        if kind.safety is not Checker.safety:
            self._guards.append(checker)

    def random(self, purpose: str) -> Random:
        """The random source of one purpose: the same for the same seed and purpose."""
        digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).digest()
        return Random(int.from_bytes(digest[:16], "big"))

    def after(self, delay_ns: int, action: Callable[[Any], None], argument: Any = None) -> None:
        """Call `action(argument)` once, `delay_ns` from now."""
        self._scheduled_count += 1
        heappush(self._queue, (self.now_ns + delay_ns, self._scheduled_count, action, argument))

    # -- running

    def run_for(self, duration_ns: int) -> None:
        """Run for `duration_ns` of simulated time."""
        stop_ns = self.now_ns + duration_ns
        self._run(stop_ns, None)
        self.now_ns = stop_ns
        self._check_safety()

    def run_until(self, condition: Callable[[], bool], timeout_ns: int = 60 * SECOND) -> None:
        """Run until `condition()` is true. Raises SimulationError after `timeout_ns`."""
        if not self._run(self.now_ns + timeout_ns, condition):
            name = getattr(condition, "__name__", str(condition))
            raise self.failure("run_until", f"{name} not reached within {timeout_ns / SECOND:g} s")
        self._check_safety()

    def run(self, *, faults_ns: int, calm_ns: int = 60 * SECOND) -> None:
        """A whole run: faults and workloads for `faults_ns`, then `calm`. Within `calm_ns` the
        liveness of every checker must hold."""
        self.run_for(faults_ns)
        self.calm()
        if not self._run(self.now_ns + calm_ns, lambda: not self._unmet()):
            checker, detail = self._unmet()[0]
            raise self.failure(checker, f"{calm_ns / SECOND:g} s after the faults: {detail}")
        self._check_safety()

    def calm(self) -> None:
        """Stop all workloads and faults."""
        for workload in self._workloads:
            workload.stop()
        for fault in self.faults:
            fault.stop(self)
        self.note("calm", None)

    def digest(self) -> str:
        """The hash of the trace so far, which is equal for equal runs."""
        return self.trace.digest()

    def fault_count(self) -> int:
        """Number of times that faults had an effect."""
        # A fault that was injected twice has one count.
        return sum(fault.strike_count for fault in dict.fromkeys(self.faults))

    # -- nodes

    def start(self, node: Node[Any], *, keep_disk: bool = True) -> None:
        """Start the next life of a node that is down."""
        assert not node.is_up, f"{node.name} is up"
        node.life += 1
        if not keep_disk:
            node.disk = None
        self.note("start", node, life=node.life)
        machine = node.factory(
            Setting(
                name=node.name,
                address=node.address,
                now_ns=node.now_ns,
                wall_offset_ns=node.clock.wall_offset_ns,
                rng=self.random(f"node/{node.name}/{node.life}"),
                tracer=_NodeTracer(self, node),
                life=node.life,
                disk=node.disk,
            )
        )
        node.replace_machine(machine)
        self.collect(node)

    def crash(self, node: Node[Any]) -> None:
        """Crash a node. Its disk is kept, its streams break."""
        machine = node.machine
        if isinstance(machine, Durable):
            node.disk = machine.durable()
        node.replace_machine(None)
        node.is_paused = False
        node.paused_until_ns = 0
        node.inbox.clear()
        node.timer_ns = None
        self.note("crash", node)
        self.network.streams.reset_all(node)

    def restart(self, node: Node[Any], *, down_ns: int, keep_disk: bool = True) -> None:
        """Crash a node and start it after `down_ns`, unless it was started before."""
        self.crash(node)
        life = node.life
        self.after(down_ns, lambda _: self._start_again(node, life, keep_disk))

    def pause(self, node: Node[Any], duration_ns: int) -> None:
        """Pause a node. Its inputs wait, and its deadlines pass."""
        assert node.is_up, f"{node.name} is down"
        node.is_paused = True
        node.paused_until_ns = max(node.paused_until_ns, self.now_ns + duration_ns)
        self.note("pause", node, duration_ns=duration_ns)
        self.after(duration_ns, self._resume_if_over, (node, node.life))

    def resume(self, node: Node[Any]) -> None:
        """End a pause. The node processes its waiting inputs and its deadline."""
        node.is_paused = False
        node.paused_until_ns = 0
        self.note("resume", node)
        # A resumed program may process timers or sockets first.
        if self._resume_rng.random() < 0.5:
            self._advance_if_due(node)
        while node.inbox and node.is_running:
            hand_over, what = node.inbox.popleft()
            hand_over(what)
        self._arm(node)

    def set_drift(self, node: Node[Any], drift_ppm: int) -> None:
        """Make the clock of a node run fast, or slow if negative."""
        node.clock.set_drift(drift_ppm, self.now_ns)
        self.note("drift", node, drift_ppm=drift_ppm)
        # The deadline is unchanged in the time of the node, so it changes in world time.
        node.timer_ns = None
        self._arm(node)

    def jump_wall(self, node: Node[Any], jump_ns: int) -> None:
        """Set a node's wall clock forwards or backwards."""
        node.clock.jump_wall(jump_ns)
        self.note("jump", node, jump_ns=jump_ns)
        if node.is_up and isinstance(node.machine, WallClocked):
            node.machine.set_wall_offset(node.clock.wall_offset_ns, node.now_ns)
            self.collect(node)

    # -- for the other parts of the simulator

    def collect(self, node: Node[Any]) -> None:
        """Process transmits, events and deadline of a machine. Called after every input."""
        machine = node.machine
        transmits = machine.take_transmits()
        if transmits:
            self.network.send(node, transmits)
        events = machine.take_events()
        if events:
            for event in events:
                self._observe(node, event)
        deadline_ns = machine.deadline_ns()
        if deadline_ns is not None:
            self._arm_at(node, deadline_ns)

    def note(self, event: str, node: Node[Any] | None, **facts: object) -> None:
        """Write a line about the world to the trace."""
        row = {"_at_ns": self.now_ns, "event": event, **facts}
        if node is not None:
            row["_node"] = node.name
        self.trace.lines.append(json.dumps(row, sort_keys=True, separators=(",", ":")))

    def tap(self, packet: Packet) -> None:
        """Pass a datagram that arrived to the checkers."""
        for checker in self.taps:
            self._fail_if(checker, checker.arrived(packet))

    def failure(self, checker: str, detail: str) -> SimulationError:
        """The error that ends this run. The caller raises it."""
        error = SimulationError(
            scenario=self.scenario,
            seed=self.seed,
            checker=checker,
            detail=detail,
            command=self.command,
            trace=self.trace.tail(TAIL_LINE_COUNT),
        )
        error.add_note(error.hint or "")
        for line in error.trace:
            error.add_note(line)
        return error

    # -- inside

    def _run(self, stop_ns: int, condition: Callable[[], bool] | None) -> bool:
        """Process events up to `stop_ns`. True if the condition became true."""
        queue = self._queue
        trace = self.trace
        bound_ns = min(stop_ns, self._time_ns_max)
        event_count_max = self._event_count_max
        if condition is not None and condition():
            return True
        try:
            while queue and queue[0][0] <= bound_ns:
                if self.event_count >= event_count_max:
                    self._fail_for_events()
                self.now_ns, _, action, argument = heappop(queue)
                action(argument)
                self.event_count += 1
                if not self.event_count % SAFETY_EVENT_COUNT:
                    self._check_safety()
                if trace.is_full:
                    trace.roll()
                if condition is not None and condition():
                    return True
        except SimulationError:
            raise
        except Exception as error:
            # An error of a machine is a failure like that of a checker, so it has to be reported
            # with the seed.
            raise self.failure("machine", f"{type(error).__name__}: {error}") from error
        if stop_ns > self._time_ns_max:
            raise self.failure("bounds", f"more than {self._time_ns_max / SECOND:g} s simulated")
        return False

    def _fail_for_events(self) -> NoReturn:
        raise self.failure("bounds", f"more than {self._event_count_max} events")

    def _check_safety(self) -> None:
        for checker in self._guards:
            self._fail_if(checker, checker.safety(self))

    def _unmet(self) -> list[tuple[str, str]]:
        """Name and detail of the first checker whose liveness does not hold yet."""
        for checker in self._checkers:
            detail = checker.liveness(self)
            if detail is not None:
                return [(checker.name, detail)]
        return []

    def _fail_if(self, checker: Checker, detail: str | None) -> None:
        if detail is not None:
            raise self.failure(checker.name, detail)

    def _observe(self, node: Node[Any], event: MachineEvent) -> None:
        node.events.append(event)
        self.trace.lines.append(trace_line(event, _at_ns=self.now_ns, _node=node.name))
        for checker in self._observers:
            self._fail_if(checker, checker.observed(node, event))

    def _arm(self, node: Node[Any]) -> None:
        if node.is_up:
            deadline_ns = node.machine.deadline_ns()
            if deadline_ns is not None:
                self._arm_at(node, deadline_ns)

    def _arm_at(self, node: Node[Any], deadline_ns: int) -> None:
        # Only an earlier deadline needs a new entry: if the queued entry is too early, `_on_timer`
        # schedules the next. Most inputs move the deadline to a later time.
        due_ns = max(node.clock.world_ns(deadline_ns), self.now_ns)
        if node.timer_ns is None or due_ns < node.timer_ns:
            node.timer_ns = due_ns
            self.after(due_ns - self.now_ns, self._on_timer, node)

    def _on_timer(self, node: Node[Any]) -> None:
        if node.timer_ns != self.now_ns:
            return  # An earlier deadline replaced it, or the life of the node ended.
        node.timer_ns = None
        if not node.is_paused:
            self._advance_if_due(node)
            self._arm(node)

    def _advance_if_due(self, node: Node[Any]) -> None:
        now_ns = node.now_ns
        deadline_ns = node.machine.deadline_ns()
        if deadline_ns is None or deadline_ns > now_ns:
            return
        self._count_spin(node)
        self.trace.lines.append(
            f'{{"_at_ns":{self.now_ns},"_node":{node.label},"event":"advance"}}'
        )
        self.input_count += 1
        node.machine.advance(now_ns)
        self.collect(node)

    def _count_spin(self, node: Node[Any]) -> None:
        if node.spin_ns != self.now_ns:
            node.spin_ns = self.now_ns
            node.spin_count = 0
        node.spin_count += 1
        if node.spin_count > SIM_SPIN_COUNT_MAX:
            raise self.failure(
                "machine",
                f"{node.name} was advanced {SIM_SPIN_COUNT_MAX} times in one instant:"
                " its deadline does not move",
            )

    def _start_again(self, node: Node[Any], life: int, keep_disk: bool) -> None:
        if not node.is_up and node.life == life:
            self.start(node, keep_disk=keep_disk)

    def _resume_if_over(self, who: tuple[Node[Any], int]) -> None:
        node, life = who
        if node.is_paused and node.life == life and self.now_ns >= node.paused_until_ns:
            self.resume(node)


class _NodeTracer:
    """Writes the trace events of a machine to the trace of the world."""

    __slots__ = ("_node", "_world")

    def __init__(self, world: World, node: Node[Any]) -> None:
        self._world = world
        self._node = node

    def emit(self, event: TraceEvent) -> None:
        line = trace_line(event, _at_ns=self._world.now_ns, _node=self._node.name)
        self._world.trace.lines.append(line)
