"""A node with clients, all of them in this process, and no clock but the one in the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

import skerry
from skerry.engine.admission.origins import INSIDE, Origin
from skerry.engine.node import NodeCore
from skerry.objects.base import codec_of, key_of, selection
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.connection import ConnectionEnded, ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.where.filters import make_filter
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect, MachineEvent

WALL_NS = 1_700_000_000_000_000_000


class Harbour:
    """A node and its clients."""

    def __init__(self, **options: Any) -> None:
        self.node = NodeCore(wall_offset_ns=WALL_NS, **options)
        self.now_ns = 0
        self.guests: dict[Address, Guest] = {}

    def guest(self, name: str = "guest", *, extensions: int = 3, **options: Any) -> Guest:
        """A client that is connected, unless it wants to join early."""
        guest = self.stranger(name, extensions=extensions, **options)
        self.pump()
        return guest

    def stranger(
        self,
        name: str = "guest",
        *,
        extensions: int = 3,
        origin: Origin = INSIDE,
        wire: Callable[[], Wire] = Wire,
        wants_preload: bool = False,
        secret: str | None = None,
        has_extensions: bool = True,
    ) -> Guest:
        """A client whose stream is open, and nothing was said yet."""
        connection = ClientConnection(
            wire(),
            name=name,
            cnonce="n",
            secret=secret,
            wants_preload=wants_preload,
            extensions=extensions,
        )
        guest = Guest(self, connection, Address(name, len(self.guests), is_stream=True))
        self.guests[guest.address] = guest
        self.node.open(guest.address, wire(), self.now_ns, origin=origin, extensions=has_extensions)
        return guest

    def plain(self, name: str = "plain", **options: Any) -> Guest:
        """A client that knows nothing beyond DOTS."""
        return self.guest(name, extensions=0, **options)

    def carry(self) -> bool:
        """Hand out once what the node has to say, and take the answers; whether there was any."""
        transmits = self.node.take_transmits()
        for transmit in transmits:
            guest = self.guests[transmit.destination]
            if isinstance(transmit, Disconnect):
                guest.is_cut = guest.is_mute = True
                guest.is_cut_abruptly = transmit.is_abrupt
            else:
                guest.hear(transmit.data)
        talking = [g for g in self.guests.values() if g.connection.out_bytes and not g.is_mute]
        for guest in talking:
            data = guest.connection.take_output()
            self.node.receive(data, guest.address, self.now_ns)
        return bool(transmits or talking)

    def pump(self) -> None:
        """Carry bytes in both directions until no side sends any and no replay can continue."""
        while True:
            while self.carry():
                pass
            due_ns = self.node.deadline_ns()
            if due_ns is None or due_ns > self.now_ns:
                return
            self.node.advance(self.now_ns)

    def wait(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)
        self.node.advance(self.now_ns)
        self.pump()

    def events(self, kind: type[MachineEvent]) -> list[Any]:
        return [event for event in self.node.take_events() if isinstance(event, kind)]

    def cached(self, cls: type[skerry.Struct]) -> list[Any]:
        name = cls.descriptor.name
        return [cls.decode(entry.payload) for _, entry in self.node.cache.objects(name)]

    def row(self, type_name: str) -> Any:
        """The ledger of a type."""
        (found,) = [r for r in self.node.statistics().types if r.name == type_name]
        return found.ledger

    def check(self) -> None:
        """The ledger explains what became of every update."""
        statistics = self.node.statistics()
        wrong = [row for row in statistics.clients if row.ledger.unexplained]
        types = [row for row in statistics.types if row.ledger.unexplained]
        assert statistics.unexplained == 0, (wrong, types)
        # Types and clients count separately what is queued.
        queued = sum(row.ledger.queued for row in statistics.types)
        assert queued == sum(row.ledger.queued for row in statistics.clients)


class Guest:
    """One client, and what it heard."""

    def __init__(self, harbour: Harbour, connection: ClientConnection, address: Address) -> None:
        self.harbour = harbour
        self.connection = connection
        self.address = address
        self.inputs: list[Any] = []
        self.heard: list[ReceivedFrame] = []
        self.fault = ""
        self.is_mute = False
        """Whether what it would say does not reach the node."""
        self.is_cut = False
        self.is_cut_abruptly = False

    @property
    def client_id(self) -> int:
        return self.connection.client_id

    def hear(self, data: bytes) -> None:
        for item in self.connection.receive(data, 0.0):
            self.inputs.append(item)
            if isinstance(item, ReceivedFrame):
                self.heard.append(item)
            elif isinstance(item, ConnectionEnded):
                self.fault = item.text

    # -- what it does

    def join(self, group: str, **options: Any) -> None:
        self.connection.join(group, 0.0, **options)
        self.harbour.pump()

    def open_view(
        self,
        cls: type[skerry.Struct],
        number: int,
        *,
        where: str | None = None,
        fields: Iterable[str] | None = None,
        is_conflated: bool = False,
    ) -> None:
        wanted = make_filter(cls.descriptor, where, fields)
        name = cls.descriptor.name
        self.join(name, subscription_id=number, filter_=wanted, is_conflated=is_conflated)

    def leave(self, group: str, **options: Any) -> None:
        self.connection.leave(group, 0.0, **options)
        self.harbour.pump()

    def describe(self, cls: type[skerry.Struct]) -> None:
        self.connection.describe(cls.descriptor, 0.0)
        self.harbour.pump()

    def say_description(self, cls: type[skerry.Struct]) -> None:
        """Describe a type whatever was described before."""
        self.connection.send_message(describe(cls.descriptor), 0.0)
        self.harbour.pump()

    def post(
        self,
        obj: skerry.Struct,
        *,
        only: Iterable[str] | None = None,
        is_remove: bool = False,
        subject: str = "",
    ) -> None:
        """Publish without waiting for what comes of it."""
        cls = type(obj)
        mask = int(obj.attributes if only is None else selection(cls, only))
        mask |= obj.descriptor.key_mask
        header = header_of(obj)
        header.attributes = obj.descriptor.key_mask if is_remove else mask
        header.remove_obj = int(is_remove)
        header.subject = subject
        payload = codec_of(cls).encode_only(obj, int(header.attributes))
        self.connection.send(header, payload, obj.descriptor, 0.0)

    def publish(self, *objs: skerry.Struct, **options: Any) -> None:
        for obj in objs:
            self.post(obj, **options)
        self.harbour.pump()

    def remove(self, obj: skerry.Struct, *, subject: str = "") -> None:
        self.publish(obj, is_remove=True, subject=subject)

    def send(self, name: str, /, **fields: Any) -> None:
        """A message to the node."""
        self.connection.send_message(internal_class(name)(**fields), 0.0)
        self.harbour.pump()

    def echo(self, number: int) -> None:
        self.send("DotsEcho", request=True, sequenceNumber=number)

    def say(self, header: Header, payload: bytes) -> None:
        """Anything at all."""
        data = self.connection.wire.frame(header, payload)
        self.say_bytes(data)

    def say_bytes(self, data: bytes) -> None:
        self.harbour.node.receive(data, self.address, self.harbour.now_ns)
        self.harbour.pump()

    def pause(self) -> None:
        self.harbour.node.pause(self.address)

    def resume(self) -> None:
        self.harbour.node.resume(self.address, self.harbour.now_ns)
        self.harbour.pump()

    def goodbye(self) -> None:
        self.connection.end(0.0)
        self.harbour.pump()

    def vanish(self) -> None:
        self.connection.take_output()
        self.is_cut = self.is_mute = True
        self.harbour.node.stream_closed(self.address, CloseReason.LOST, self.harbour.now_ns)
        self.harbour.pump()

    # -- what it heard

    def items(self, type_name: str, number: int | None = None) -> list[ReceivedFrame]:
        """Objects of a type; with a number those of a filtered subscription."""
        return [
            item
            for item in self.heard
            if item.header.type_name == type_name
            and item.header.subscription_id == (-1 if number is None else number)
        ]

    def objects(self, cls: type[skerry.Struct], number: int | None = None) -> list[Any]:
        """What came of a type, removals left out."""
        name = cls.descriptor.name
        items = [item for item in self.items(name, number) if item.header.remove_obj != 1]
        return [cls.decode(item.payload) for item in items]

    def messages(self, name: str) -> list[Any]:
        return [internal_class(name).decode(item.payload) for item in self.items(name)]

    def names(self) -> list[str]:
        """The types of all that came, in order."""
        return [item.header.type_name for item in self.heard]

    def counts_down(self, type_name: str, number: int | None = None) -> list[int]:
        """What was said about how many follow."""
        items = self.items(type_name, number)
        return [int(i.header.from_cache) for i in items if i.header.from_cache >= 0]

    def refusals(self) -> list[tuple[str, str]]:
        return [(m.what, m.reason) for m in self.messages("SkerryRefusal")]

    def sees(self, cls: type[skerry.Struct], number: int | None = None) -> dict[bytes, Any]:
        """The objects as a client has them that applies one transmission after the other."""
        seen: dict[bytes, Any] = {}
        for item in self.items(cls.descriptor.name, number):
            obj: Any = cls.decode(item.payload)
            key = key_of(obj)
            if item.header.remove_obj == 1:
                seen.pop(key, None)
                continue
            merged = seen.setdefault(key, cls())
            for field in cls.descriptor.fields:
                if item.header.attributes >> field.tag & 1 or field.is_key:
                    setattr(merged, field.name, getattr(obj, field.name))
        return seen

    def forget(self) -> None:
        self.heard.clear()
        self.inputs.clear()


def header_of(obj: skerry.Struct) -> Header:
    header = Header(obj.descriptor.name)
    header.sent_time = 1.0
    header.attributes = int(obj.attributes)
    header.remove_obj = 0
    return header


@pytest.fixture(scope="session")
def make_harbour() -> Callable[..., Harbour]:
    """For tests that want a node of their own making; they call `check` themselves."""
    return Harbour


@pytest.fixture
def harbour() -> Iterator[Harbour]:
    """A node; in the end its ledger must explain everything."""
    made = Harbour()
    yield made
    made.check()


@pytest.fixture(scope="session")
def make_header() -> Callable[[skerry.Struct], Header]:
    """The header a client sends with an object."""
    return header_of
