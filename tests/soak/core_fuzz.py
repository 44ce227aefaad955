"""Mutated sessions on a node without a network: many a second, each to be repeated by its seed.

While strangers say what they like, an honest publisher and an honest subscriber go on. Nothing may
be raised, what the node sends must be readable by its receiver, every object of the honest
must arrive, in order, and the ledger must have no rest.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from skerry import define_types
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.settings import SpaceConfig
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import SpaceState
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.node import NodeCore
from skerry.protocol.access.json.text import parse_text
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect, Transmit
from tests.captured_sessions import CapturedSession, mutated_session, read_sessions
from tests.sim.our_sessions import our_sessions

MINUTES = 2.0
CASES_PER_SEED = 100
OPEN_COUNT_MAX = 12
VIOLATIONS_MAX = 20
WALL_NS = 1_700_000_000_000_000_000
REPORT = define_types(
    "struct HonestReport { 1: [key] uint32 place; 2: uint64 number; 3: string text; }"
).HonestReport
GOLDEN = Path(__file__).parent.parent / "golden" / "dots"
STRANGER = Origin(kind="tcp", host="192.0.2.7")
NEAR = Origin(kind="tcp", host="127.0.0.1")
PERMISSIONS = (
    PermissionRule(verbs=("all",), network="local"),
    PermissionRule(verbs=("publish", "subscribe", "remove", "clear")),
)


def run(minutes: float) -> dict[str, Any]:
    """Seeds until the time is over."""
    stop_s = time.monotonic() + minutes * 60
    first_seed = time.time_ns() % 1_000_000_000
    sessions = all_sessions()
    violations: list[str] = []
    seeds = 0
    while seeds == 0 or (time.monotonic() < stop_s and len(violations) < VIOLATIONS_MAX):
        fault = run_seed(first_seed + seeds, sessions)
        violations += [] if fault is None else [fault]
        seeds += 1
    return {
        "name": "core_fuzz",
        "seeds": seeds,
        "inputs": seeds * CASES_PER_SEED,
        "violations": violations,
    }


def all_sessions() -> list[CapturedSession]:
    """The random changes."""
    return [*read_sessions(GOLDEN), *our_sessions()]


def run_seed(
    seed: int, sessions: list[CapturedSession], *, core_class: type[NodeCore] = NodeCore
) -> str | None:
    """Run one seed; return the violation, or None."""
    stage = Stage(Random(seed), sessions, core_class)
    for case in range(CASES_PER_SEED):
        try:
            stage.play()
            fault = stage.fault()
        except Exception as error:
            at = error.__traceback__
            while at is not None and at.tb_next is not None:
                at = at.tb_next
            place = (
                "" if at is None else f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"
            )
            fault = f"{type(error).__name__} came out at {place}: {error}"
        if fault is not None:
            return f"seed {seed} case {case} ({stage.last}): {fault}"
    return None


class Unreadable(Exception):
    """The node sent an invalid frame, or sent one to a wrong client."""


class Stage:
    """A node, the honest, and the others."""

    def __init__(
        self, rng: Random, sessions: list[CapturedSession], core_class: type[NodeCore]
    ) -> None:
        self._rng = rng
        self._sessions = sessions
        self._now_ns = 0
        self._next_port = 1000
        limits = ClientLimits(waiting_bytes_max=300_000, type_count_max=20, join_count_max=50)
        config = AdmissionConfig(permission=PERMISSIONS, limits=limits)
        self._core = core_class(
            wall_offset_ns=WALL_NS, admission=Admission(config, rng=Random(rng.getrandbits(64)))
        )
        self._ears: dict[Address, Wire] = {}
        """Strangers that are connected, and how they read."""
        self.last = ""
        """Name of the session that was played last."""
        self._seen: list[int] = []
        self._published = 0
        self._honest: dict[Address, SpaceCore] = {}
        self._publisher = self._enter("publisher", 1)
        self._subscriber = self._enter("subscriber", 2)
        self._subscriber.subscribe(
            REPORT, lambda event: self._seen.append(event.update.number), self._now_ns
        )
        self._settle()

    def play(self) -> None:
        """One session of a stranger, and something of the honest in between."""
        rng = self._rng
        session = rng.choice(self._sessions)
        self.last = session.name
        # An administrator could make rules that reject all other clients.
        is_near = rng.random() < 0.5 and not session.name.startswith("auth-configure")
        address = Address("stranger", self._next_port, is_stream=True)
        self._next_port += 1
        wire = _wire(session, self._core)
        self._ears[address] = _wire(session, self._core)
        self._core.open(address, wire, self._now_ns, origin=NEAR if is_near else STRANGER)
        for piece in self._cut(session, mutated_session(session, self._sessions, rng)):
            self._now_ns += rng.choice((0, 1000, 10_000_000))
            self._core.receive(piece, address, self._now_ns)
            self._disturb(address)
            if rng.random() < 0.7:
                self._settle()
            if rng.random() < 0.2:
                self._publish()
        self._publish()
        self._settle()
        while len(self._ears) > OPEN_COUNT_MAX:
            self._hang_up(next(iter(self._ears)))
        if rng.random() < 0.5:
            self._hang_up(address)

    def fault(self) -> str | None:
        """The violations that honest clients observed."""
        unexplained = self._core.statistics().unexplained
        if unexplained:
            return f"{unexplained} updates are not explained"
        for space in self._honest.values():
            if space.connection.state is not SpaceState.CONNECTED:
                return (
                    f"{space.config.name} is {space.connection.state}: {space.connection.failure}"
                )
        if self._seen != list(range(1, self._published + 1)):
            return f"of {self._published} reports {len(self._seen)} arrived, or in another order"
        return None

    def _enter(self, name: str, port: int) -> SpaceCore:
        address = Address("honest", port, is_stream=True)
        config = SpaceConfig(name=name, idle_ns_max=10**18)
        space = SpaceCore(
            NodeConnection(
                node=address,
                wire=lambda _: Wire(),
                rng=Random(port),
                config=config,
                wall_offset_ns=WALL_NS,
            )
        )
        self._honest[address] = space
        space.connection.start(self._now_ns)
        space.connection.advance(self._now_ns)
        self._settle()
        assert space.connection.state is SpaceState.CONNECTED
        return space

    def _publish(self) -> None:
        self._published += 1
        report = REPORT(place=self._published % 5, number=self._published, text="all is well")
        self._publisher.publish(report, 0.0)

    def _cut(self, session: CapturedSession, pieces: list[bytes]) -> list[bytes]:
        """Frames as a stream brings them: several at once, or one in parts."""
        if session.framing == "json":
            return pieces
        way = self._rng.randrange(3)
        if way == 0:
            return pieces
        data = b"".join(pieces)
        if way == 1:
            return [data]
        size = self._rng.choice((1, 7, 64, 500))
        if len(data) > 4000:
            size = max(size, 64)
        return [data[at : at + size] for at in range(0, len(data), size)]

    def _disturb(self, address: Address) -> None:
        chance = self._rng.random()
        if chance < 0.05:
            self._core.pause(address)
        elif chance < 0.1:
            self._core.resume(address, self._now_ns)
        elif chance < 0.15:
            self._core.advance(self._now_ns)

    def _hang_up(self, address: Address) -> None:
        if self._ears.pop(address, None) is not None:
            self._core.stream_closed(address, CloseReason.LOST, self._now_ns)
            self._settle()

    def _settle(self) -> None:
        """Carry everything to where it goes, until there is nothing more."""
        is_busy = True
        while is_busy:
            is_busy = False
            for transmit in self._core.take_transmits():
                is_busy = True
                self._carry(transmit)
            for space in self._honest.values():
                for transmit in space.connection.take_transmits():
                    is_busy = True
                    self._bring(space, transmit)
                space.connection.take_events()
            deadline_ns = self._core.deadline_ns()
            if deadline_ns is not None and deadline_ns <= self._now_ns:
                is_busy = True
                self._core.advance(self._now_ns)
            self._core.take_events()

    def _bring(self, space: SpaceCore, transmit: Transmit) -> None:
        if isinstance(transmit, Connect):
            self._core.open(transmit.destination, Wire(), self._now_ns, origin=NEAR)
            space.connection.stream_opened(transmit.destination, self._now_ns)
        elif isinstance(transmit, Disconnect):
            raise Unreadable(f"{space.config.name} left: {space.connection.failure}")
        else:
            self._core.receive(transmit.data, transmit.destination, self._now_ns)

    def _carry(self, transmit: Transmit) -> None:
        address = transmit.destination
        space = self._honest.get(address)
        if isinstance(transmit, Disconnect):
            if space is not None:
                raise Unreadable(f"the node cut {space.config.name}")
            self._ears.pop(address, None)
        elif space is not None:
            space.connection.receive(transmit.data, address, self._now_ns)
        else:
            # It raises when what the node says makes no sense, whatever was said to it.
            _hear(self._ears[address], transmit.data)


def _hear(ear: Wire, data: bytes) -> None:
    if not isinstance(ear, JsonWire):
        ear.feed(data)
        return
    for message in cut_messages(data):
        header, content = parse_text(message)
        if not isinstance(header, dict) or not isinstance(content, dict):
            raise Unreadable(f"{message!r:.100} is not a header and an object")


def _wire(session: CapturedSession, core: NodeCore) -> Wire:
    if session.framing == "json":
        return JsonNodeWire(core.registry)
    return OldWire() if session.framing == "v1" else Wire()


if __name__ == "__main__":
    print(run(float(sys.argv[1]) if len(sys.argv) > 1 else 0.2))
