"""A node with a group carriage and programs, in one machine that sends datagrams.

The programs are clients of the node with the real protocol, but without a network between them.
Faults affect the datagrams between nodes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from skerry.engine.carriage.distributor.carriage import GroupCarriage
from skerry.engine.carriage.distributor.events import CarriageStatistics
from skerry.engine.node import NodeCore
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import EXTENSION_SUBJECTS, Accepted, ClientConnection
from skerry.protocol.access.connection import ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.machine import Address, Disconnect, MachineEvent, Transmit

__all__ = ["CarrierHost", "InsideProgram", "MessageHeard"]

_CARRIER: Final = Address("carrier", 0, is_stream=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHeard(MachineEvent):
    """A program received a message."""

    program: str
    type_name: str
    subject: str
    """Empty for the default subject."""
    sender: int
    payload: bytes


class InsideProgram:
    """A client of the node that joins the given groups and records what it receives."""

    def __init__(self, name: str, number: int, *, joins: tuple[str, ...]) -> None:
        self.name = name
        self.address = Address(name, number, is_stream=True)
        self._joins = joins
        self.client = ClientConnection(
            Wire(), name=name, cnonce="", wants_preload=False, extensions=EXTENSION_SUBJECTS
        )
        self.heard: list[MessageHeard] = []
        self.described: list[str] = []
        """Names of types, in the order in which the node described them."""

    def receive(self, data: bytes, now_s: float) -> None:
        for item in self.client.receive(data, now_s):
            if isinstance(item, Accepted):
                for group in self._joins:
                    self.client.join(group, now_s)
            elif isinstance(item, ReceivedFrame):
                self._arrived(item.header, item.payload)

    def _arrived(self, header: Header, payload: bytes) -> None:
        name = header.type_name
        if name.endswith("DescriptorData"):
            self.described.append(internal_class(name).decode(payload).name)
        elif not name.startswith(("Dots", "Skerry")):
            self.heard.append(
                MessageHeard(
                    program=self.name,
                    type_name=name,
                    subject=header.subject,
                    sender=int(header.sender),
                    payload=payload,
                )
            )


class CarrierHost:
    """One node of a system."""

    def __init__(
        self,
        connection: GroupConnection,
        config: DistributorConfig,
        *,
        now_ns: int,
        wall_offset_ns: int = 0,
        name: str = "node",
        core: NodeCore | None = None,
    ) -> None:
        self.core = core or NodeCore(name=name, wall_offset_ns=wall_offset_ns, node_id=1)
        self._connection = connection
        self.carrier = GroupCarriage(self.core, connection, config=config, now_ns=now_ns)
        self.programs: dict[str, InsideProgram] = {}
        self._events: list[MachineEvent] = []
        self._open_if_due(now_ns)

    @property
    def identity(self) -> SenderIdentity:
        """The identity of the node in the group."""
        return self._connection.identity

    # -- programs

    def add_program(self, name: str, now_ns: int, *, joins: tuple[str, ...] = ()) -> InsideProgram:
        """Connect a new program to the node."""
        program = InsideProgram(name, len(self.programs) + 1, joins=joins)
        self.programs[name] = program
        self.core.open(program.address, Wire(), now_ns)
        self.pump(now_ns)
        return program

    def publish(self, name: str, obj: Struct, now_ns: int, *, subject: str = "") -> None:
        """Publish an object from a program."""
        program = self.programs[name]
        header = Header(obj.descriptor.name)
        header.sent_time = self.core.wall_s(now_ns)
        header.attributes = int(obj.attributes)
        header.subject = subject
        program.client.send(header, obj.encode(), obj.descriptor, self.core.wall_s(now_ns))
        self.pump(now_ns)

    # -- the machine's contract

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.carrier.receive(data, source, now_ns)
        self.carrier.settle(now_ns)
        self.pump(now_ns)

    def advance(self, now_ns: int) -> None:
        self.core.advance(now_ns)
        self._open_if_due(now_ns)
        self.carrier.advance(now_ns)
        self.pump(now_ns)

    def deadline_ns(self) -> int | None:
        due = (self.core.deadline_ns(), self.carrier.deadline_ns())
        return min((ns for ns in due if ns is not None), default=None)

    def take_transmits(self) -> list[Transmit]:
        return self.carrier.take_transmits()

    def take_events(self) -> list[MachineEvent]:
        events, self._events = self._events, []
        # Losses precede the messages that were received after them.
        return self.carrier.take_events() + events

    def statistics(self) -> CarriageStatistics:
        return self.carrier.statistics()

    # -- inside

    def pump(self, now_ns: int) -> None:
        """Exchange bytes between the node and its clients until none are left."""
        is_quiet = False
        while not is_quiet:
            is_quiet = True
            for program in self.programs.values():
                output = program.client.take_output()
                if output:
                    is_quiet = False
                    self.core.receive(output, program.address, now_ns)
            for transmit in self.core.take_transmits():
                is_quiet = False
                self._deliver(transmit, now_ns)
            self.core.take_events()

    def _deliver(self, transmit: Transmit, now_ns: int) -> None:
        if transmit.destination == self.carrier.address:
            if isinstance(transmit, Disconnect):
                self.carrier.node_closed(now_ns)
            else:
                self.carrier.node_said(transmit.data, now_ns)
            return
        program: Any = self.programs.get(transmit.destination.host)
        if program is not None and not isinstance(transmit, Disconnect):
            before = len(program.heard)
            program.receive(transmit.data, self.core.wall_s(now_ns))
            self._events += program.heard[before:]

    def _open_if_due(self, now_ns: int) -> None:
        opens_ns = self.carrier.opens_ns
        if opens_ns is not None and now_ns >= opens_ns:
            self.core.open(_CARRIER, Wire(), now_ns)
            self.carrier.node_opened(_CARRIER)
            self.pump(now_ns)
