"""A group without a network: all connections receive each datagram, unless a test drops it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Delivered
from skerry.protocol.distributor.identity import SenderIdentity, mark_application
from skerry.protocol.machine import Address

GROUP = Address("239.192.7.1", 4711)
MS = 1_000_000


class Bus:
    """Connections of one group, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * MS
        self.wall_offset_ns = 1_794_726_418_298 * MS
        self.members: list[GroupConnection] = []
        self.events: dict[GroupConnection, list[Any]] = {}
        self.sent: list[tuple[GroupConnection, bytes]] = []
        self.drop: Callable[[GroupConnection, GroupConnection, bytes], bool] = lambda *_: False

    def join(self, *, first_seq: int = 1, seal: Any = None, **config: Any) -> GroupConnection:
        number = len(self.members) + 1
        connection = GroupConnection(
            group=GROUP,
            identity=SenderIdentity(
                address=bytes((10, 0, 0, number)),
                sender_id=61_234 + number,
                start_ms=1_794_726_418_298 + 1000 * number,
                application_id=mark_application(bytes((10, 0, 0, number)), number),
            ),
            rng=Random(number),
            now_ns=self.now_ns,
            config=DistributorConfig(**config),
            seal=seal,
            first_seq=first_seq,
            wall_offset_ns=self.wall_offset_ns,
        )
        self.members.append(connection)
        self.events[connection] = []
        return connection

    def publisher(self, **config: Any) -> GroupConnection:
        connection = self.join(**config)
        connection.open_publisher(self.now_ns)
        self.settle()
        return connection

    def subscriber(self, *patterns: str, **config: Any) -> GroupConnection:
        connection = self.join(**config)
        for pattern in patterns or ("/...",):
            connection.subscribe(pattern, pattern, self.now_ns)
        return connection

    def publish(self, connection: GroupConnection, *subjects: str, data: bytes = b"x") -> None:
        for subject in subjects:
            connection.publish(subject, data, self.now_ns)
            self.settle()

    def settle(self) -> None:
        """Transmit datagrams until there are none."""
        is_quiet = False
        while not is_quiet:
            is_quiet = True
            for source in self.members:
                for transmit in source.take_transmits():
                    assert transmit.destination == GROUP
                    is_quiet = False
                    self.sent.append((source, transmit.data))
                    for target in self.members:
                        if not self.drop(source, target, transmit.data):
                            target.receive(transmit.data, GROUP, self.now_ns)
                self.events[source] += source.take_events()

    def run_ms(self, ms: float) -> None:
        """Let time pass, from one deadline to the next."""
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

    def sent_kinds(self, source: GroupConnection | None = None) -> list[int]:
        return [data[2] for sender, data in self.sent if source in (None, sender)]

    def sent_of(self, kind: int) -> list[bytes]:
        return [data for _, data in self.sent if data[2] == kind]

    def updates(self, connection: GroupConnection) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        for event in self.events[connection]:
            if isinstance(event, Delivered):
                found += event.updates
        return found

    def subjects(self, connection: GroupConnection) -> list[str]:
        return [subject for subject, _ in self.updates(connection)]

    def events_of(self, connection: GroupConnection, kind: type[Any]) -> list[Any]:
        return [event for event in self.events[connection] if isinstance(event, kind)]


@pytest.fixture
def bus() -> Bus:
    return Bus()
