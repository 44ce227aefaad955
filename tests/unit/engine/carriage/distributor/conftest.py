"""Nodes with carriages in one group, without a network: all receive every datagram."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from skerry.engine.node import NodeCore
from skerry.objects.classes import class_of
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.machine import Address, MachineEvent
from skerry.schema.check import define
from skerry.schema.model import StructType
from tests.sim.carrier_host import CarrierHost, InsideProgram

GROUP = Address("239.192.7.1", 4711)
MS = 1_000_000
TEXT = """
enum Colour { 1: red, 2: green, }
struct Place { 1: float64 x; 2: float64 y; }
struct Ping [cached=false] { 1: [key] string who; 2: uint32 number; 3: Colour colour; 4: Place at; }
struct Tick [cached=false] { 1: uint32 number; }
struct Far [cached=false, scope="global"] { 1: uint32 number; }
struct Near [cached=false, scope="server"] { 1: uint32 number; }
struct Kept { 1: [key] uint32 number; }
"""


def struct(name: str, text: str = TEXT) -> StructType:
    (found,) = [type_ for type_ in define(text, file="x.dots").types if type_.name == name]
    assert isinstance(found, StructType)
    return found


class Site:
    """Nodes of one system, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS
        self.members: list[Any] = []
        """Hosts, and connections without a node."""
        self.events: dict[int, list[MachineEvent]] = {}
        self.sent: list[bytes] = []
        self.drop: Callable[[Any, Any, bytes], bool] = lambda *_: False

    def make(self, name: str, text: str = TEXT, /, **fields: Any) -> Any:
        """An object of a type of the text above, or of another one."""
        return class_of(struct(name, text))(**fields)

    def connection(self, **config: Any) -> GroupConnection:
        number = len(self.members) + 1
        return GroupConnection(
            group=GROUP,
            identity=SenderIdentity(
                address=bytes((10, 0, 0, number)),
                sender_id=61_234 + number,
                start_ms=1_794_726_418_298 + 1000 * number,
                application_id=number,
            ),
            rng=Random(number),
            now_ns=self.now_ns,
            config=DistributorConfig(**config),
        )

    def add(self, *, core: NodeCore | None = None, **config: Any) -> CarrierHost:
        host = CarrierHost(
            self.connection(**config),
            DistributorConfig(**config),
            now_ns=self.now_ns,
            wall_offset_ns=1_700_000_000 * 1_000_000_000,
            core=core,
        )
        self._join(host)
        return host

    def outsider(self) -> GroupConnection:
        """A member of the group without a node."""
        connection = self.connection()
        connection.subscribe("/...", None)
        connection.open_publisher(self.now_ns)
        self._join(connection)
        return connection

    def program(self, host: CarrierHost, name: str, *joins: str) -> InsideProgram:
        program = host.add_program(name, self.now_ns, joins=joins)
        self.settle()
        return program

    def publish(self, host: CarrierHost, name: str, *objects: Any, subject: str = "") -> None:
        for obj in objects:
            host.publish(name, obj, self.now_ns, subject=subject)
        self.settle()

    def say(self, outsider: GroupConnection, subject: str, data: bytes) -> None:
        outsider.publish(subject, data, self.now_ns)
        self.settle()

    def settle(self) -> None:
        is_quiet = False
        while not is_quiet:
            is_quiet = True
            for source in self.members:
                for transmit in source.take_transmits():
                    is_quiet = False
                    self.sent.append(transmit.data)
                    for target in self.members:
                        if not self.drop(source, target, transmit.data):
                            target.receive(transmit.data, GROUP, self.now_ns)
                self.events[id(source)] += source.take_events()

    def run_ms(self, ms: float) -> None:
        stop_ns = self.now_ns + int(ms * MS)
        self.settle()
        while True:
            dues = [due for member in self.members if (due := member.deadline_ns()) is not None]
            if not dues or min(dues) > stop_ns:
                break
            self.now_ns = max(self.now_ns, min(dues))
            for member in self.members:
                member.advance(self.now_ns)
            self.settle()
        self.now_ns = stop_ns

    def events_of(self, member: Any, kind: type[Any]) -> list[Any]:
        return [event for event in self.events[id(member)] if isinstance(event, kind)]

    def _join(self, member: Any) -> None:
        self.members.append(member)
        self.events[id(member)] = []
        self.settle()


@pytest.fixture
def site() -> Site:
    return Site()
