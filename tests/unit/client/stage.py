"""A pure node and pure spaces, joined without sockets; streams can be cut and a node restarted."""

from __future__ import annotations

from random import Random
from typing import Any

import skerry
from skerry.client.core.events import Event
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.settings import SpaceConfig
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import SpaceState, StateChanged
from skerry.engine.node import NodeCore
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Connect, Disconnect

NODE = Address("node", 0, is_stream=True)
SECOND = 1_000_000_000
TYPES = skerry.define_types("""
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }
struct Pair { 3: [key] uint32 first; 2: [key] string second; 1: bool on; }
struct Only { 1: string text; }
struct Part [substruct_only] { 1: bool on; }
struct Shout [cached=false] { 1: string text; }
struct Ask [cached=false] { 1: string text; }
struct Say [cached=false] { 1: string text; 2: uint32 count; }
""")
Vessel: Any = TYPES.Vessel
Pair: Any = TYPES.Pair
Only: Any = TYPES.Only
Part: Any = TYPES.Part
Shout: Any = TYPES.Shout
Ask: Any = TYPES.Ask
Say: Any = TYPES.Say


class Stage:
    """A node, the spaces of its clients, and the time."""

    def __init__(self, *, extensions: bool = True) -> None:
        self.extensions = extensions
        self.node = NodeCore(extensions=extensions)
        self.is_up = True
        self.now_ns = SECOND
        self.spaces: dict[int, SpaceCore] = {}
        self.streams: dict[Address, SpaceCore] = {}
        self.asked: list[SpaceCore] = []
        self._stream_count = 0

    def space(
        self, *, preload: Any = (), old: bool = False, start: bool = True, **config: Any
    ) -> SpaceCore:
        """A space that is connected; with `start=False` it was never started."""
        wire = OldWire if old else Wire
        core = SpaceCore(
            NodeConnection(
                node=NODE,
                wire=lambda _: wire(),
                rng=Random(len(self.spaces)),
                config=SpaceConfig(**config),
            )
        )
        self.spaces[len(self.spaces)] = core
        for what in preload:
            core.preload(what, self.now_ns)
        if start:
            core.connection.start(self.now_ns)
            self.run()
        return core

    def run(self, seconds: float = 0) -> None:
        """Let everything happen that happens within some time."""
        until_ns = self.now_ns + int(seconds * SECOND)
        while True:
            while self._step():
                pass
            due = [core.connection.deadline_ns() for core in self.spaces.values()]
            next_ns = min((ns for ns in due if ns is not None), default=None)
            if next_ns is None or next_ns > until_ns:
                break
            self.now_ns = max(self.now_ns, next_ns)
            for core in self.spaces.values():
                core.connection.advance(self.now_ns)
        self.now_ns = until_ns

    def _step(self) -> bool:
        is_busy = False
        self.node.advance(self.now_ns)
        for transmit in self.node.take_transmits():
            is_busy = True
            core = self.streams.get(transmit.destination)
            if core is None:
                continue
            if isinstance(transmit, Disconnect):
                del self.streams[transmit.destination]
                core.connection.stream_closed(NODE, CloseReason.ENDED, self.now_ns)
            else:
                core.connection.receive(transmit.data, NODE, self.now_ns)
        for core in self.spaces.values():
            for said in core.connection.take_transmits():
                is_busy = True
                self._carry(core, said)
        return is_busy

    def _carry(self, core: SpaceCore, transmit: Any) -> None:
        address = next((a for a, owner in self.streams.items() if owner is core), None)
        if isinstance(transmit, Connect):
            if not self.is_up:
                core.connection.stream_closed(NODE, CloseReason.REFUSED, self.now_ns)
                return
            self._stream_count += 1
            address = Address("client", self._stream_count, is_stream=True)
            self.streams[address] = core
            core.connection.stream_opened(NODE, self.now_ns)
            wire = core.connection.new_wire(core.types.registry)
            self.node.open(address, wire, self.now_ns)
        elif address is None:
            return
        elif isinstance(transmit, Disconnect):
            del self.streams[address]
            self.node.stream_closed(address, CloseReason.ENDED, self.now_ns)
        else:
            self.node.receive(transmit.data, address, self.now_ns)

    def cut(self, core: SpaceCore) -> None:
        """The stream of a space breaks."""
        (address,) = [a for a, owner in self.streams.items() if owner is core]
        del self.streams[address]
        self.node.stream_closed(address, CloseReason.LOST, self.now_ns)
        core.connection.stream_closed(NODE, CloseReason.LOST, self.now_ns)

    def kill(self) -> None:
        """The node dies, with all it knew."""
        self.is_up = False
        for core in list(self.streams.values()):
            self.cut(core)

    def restart(self, *, extensions: bool | None = None) -> None:
        """Another node takes its place."""
        self.node = NodeCore(
            extensions=self.extensions if extensions is None else extensions,
        )
        self.is_up = True

    def publish(self, core: SpaceCore, *objects: Any, **options: Any) -> None:
        for obj in objects:
            core.publish(obj, self.now_ns / SECOND, **options)
        self.run()

    def remove(self, core: SpaceCore, *objects: Any) -> None:
        for obj in objects:
            core.remove(obj, self.now_ns / SECOND)
        self.run()

    def hear(self, core: SpaceCore, what: Any, **options: Any) -> list[Event[Any]]:
        """A list that grows with the events of a subscription."""
        events: list[Event[Any]] = []
        core.subscribe(what, events.append, self.now_ns, **options)
        self.run()
        return events

    def current(self, core: SpaceCore, cls: Any) -> dict[bytes, bytes]:
        """The objects of a type as a space has them."""
        route = core.intake.routes[cls.descriptor.name]
        assert route.store is not None
        return {key: entry.payload for key, entry in route.store.objects.items()}

    def cached(self, cls: Any) -> dict[bytes, bytes]:
        """The objects of a type as the node has them."""
        return {k: entry.payload for k, entry in self.node.cache.objects(cls.descriptor.name)}


def operations(events: list[Event[Any]]) -> list[str]:
    return [event.operation for event in events]


def states(core: SpaceCore) -> list[str]:
    """How a space stood, since it was asked last."""
    return [str(e.state) for e in core.connection.take_events() if isinstance(e, StateChanged)]


def greeted(core: SpaceCore, *, wire: Wire | None = None, **answer: Any) -> None:
    """A host answers the first words of a space."""
    peer = AccessConnection(wire or Wire())
    hello = {"authChallenge": 0, **answer.pop("hello", {})}
    peer.send_message(internal_class("DotsMsgHello")(serverName="h", **hello), 1.0)
    peer.send_message(internal_class("DotsMsgConnectResponse")(**{"clientId": 7, **answer}), 1.0)
    core.connection.receive(peer.take_output(), NODE, SECOND)


def alone(*, wire: type[Wire] = Wire, **config: Any) -> SpaceCore:
    """A space with a stream that no node reads."""
    core = SpaceCore(
        NodeConnection(
            node=NODE, wire=lambda _: wire(), rng=Random(1), config=SpaceConfig(**config)
        )
    )
    core.connection.start(SECOND)
    core.connection.advance(SECOND)
    assert core.connection.take_transmits() == [Connect(destination=NODE)]
    core.connection.stream_opened(NODE, SECOND)
    return core


def met(**config: Any) -> SpaceCore:
    """A space that was let in by a node of our own kind, which is played by hand."""
    core = alone(**config)
    greet(core)
    core.connection.take_events()
    core.connection.take_transmits()
    return core


def greet(core: SpaceCore) -> None:
    """A node of our own kind lets a space in."""
    capabilities = internal_class("DotsServerCapabilities")(filteredSubscriptions=True, skerry=1)
    greeted(core, hello={"capabilities": capabilities}, accepted=True, preload=False)


def meet_again(core: SpaceCore) -> None:
    """The stream of a space broke, if it has one; there is another, on which it is let in."""
    if core.connection.state is SpaceState.CONNECTED:
        core.connection.stream_closed(NODE, CloseReason.LOST, SECOND)
    core.connection.advance(60 * SECOND)
    core.connection.take_transmits()
    core.connection.stream_opened(NODE, SECOND)
    greet(core)


def said(core: SpaceCore, name: str = "") -> list[Any]:
    """The messages that a space sends next: names of types, or the messages of one type."""
    data = b"".join(transmit.data for transmit in core.connection.take_transmits())
    arrived = Wire().feed(data) if data else []
    if not name:
        return [header.type_name for header, _ in arrived]
    return [
        internal_class(name).decode(payload)
        for header, payload in arrived
        if header.type_name == name
    ]


def receives(core: SpaceCore, name: str, **fields: Any) -> None:
    """Let a space receive a message of an internal type."""
    peer = AccessConnection(Wire())
    peer.send_message(internal_class(name)(**fields), 1.0)
    core.connection.receive(peer.take_output(), NODE, SECOND)


def claimed(core: SpaceCore, number: int, state: str, reason: str | None = None) -> None:
    """Let a space receive the state of a claim."""
    states = internal_class("SkerryClaimState")
    receives(core, "SkerryClaimed", number=number, state=states[state], reason=reason)


def asked(core: SpaceCore, number: int, obj: Any, handler: str | None = None) -> None:
    """The node gives a request to a space."""
    receives(
        core,
        "SkerryRequest",
        number=number,
        typeName=obj.descriptor.name,
        handler=handler,
        object=obj.encode(),
        timeout=5.0,
        client=9,
    )


def responded(core: SpaceCore, number: int, outcome: str, **fields: Any) -> None:
    """The node answers a request of a space."""
    outcomes = internal_class("SkerryOutcome")
    receives(core, "SkerryResponse", number=number, outcome=outcomes[outcome], **fields)
