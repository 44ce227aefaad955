"""The pure part of a client's space, against a pure node."""

from __future__ import annotations

import pytest

import skerry
from skerry.client.space import Event, SpaceCore
from skerry.engine.node import NodeCore
from skerry.errors import LocalProtocolError, SchemaMismatchError
from skerry.objects.base import key_of
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, Disconnect

TYPES = skerry.define_types("""
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }
struct Part [substruct_only] { 1: bool on; }
struct Shout [cached=false] { 1: string text; }
""")
Vessel, Part, Shout = TYPES.Vessel, TYPES.Part, TYPES.Shout


class Bench:
    """A node and clients, joined without sockets."""

    def __init__(self) -> None:
        self.node = NodeCore()
        self.cores: dict[Address, SpaceCore] = {}

    def client(self, *, wire: type[Wire] = Wire, preload: bool = False) -> SpaceCore:
        core = SpaceCore(ClientConnection(wire(), name="c", cnonce="", wants_preload=True))
        if preload:
            core.container(Vessel, 0.0)
        address = Address("c", len(self.cores), is_stream=True)
        self.cores[address] = core
        self.node.open(address, wire(), 0)
        self.run()
        assert core.is_connected
        return core

    def run(self) -> None:
        busy = True
        while busy:
            busy = False
            for transmit in self.node.take_transmits():
                busy = True
                if not isinstance(transmit, Disconnect):
                    core = self.cores[transmit.destination]
                    for subscription, event in core.receive(transmit.data, 0.0):
                        subscription.callback(event)
            for address, core in self.cores.items():
                if core.connection.out_bytes:
                    busy = True
                    self.node.receive(core.connection.take_output(), address, 0)


@pytest.mark.parametrize("wire", [Wire, OldWire])
def test_containers_end_as_the_cache_of_the_node(wire: type[Wire]) -> None:
    bench = Bench()
    writer, reader = bench.client(wire=wire), bench.client(wire=wire)
    container = reader.container(Vessel, 0.0)
    for number in range(5):
        writer.publish(Vessel(mmsi=number, name="a", lat=1.0), 0.0)
        writer.publish(Vessel(mmsi=number, lat=2.0), 0.0)
    writer.publish(Vessel(mmsi=3), 0.0, remove=True)
    bench.run()
    cached = {key: entry.payload for key, entry in bench.node.cache.objects("Vessel")}
    assert {key: container[key].encode() for key in container} == cached
    assert len(cached) == 4


def test_preloaded_container_is_complete_once_connected() -> None:
    bench = Bench()
    bench.client().publish(Vessel(mmsi=1), 0.0)
    bench.run()
    core = bench.client(preload=True)
    container = core.container(Vessel, 0.0)
    assert container.is_complete
    assert list(container) == [key_of(Vessel(mmsi=1))]


def test_later_subscription_first_hears_of_what_the_container_has() -> None:
    bench = Bench()
    core = bench.client(preload=True)
    core.publish(Vessel(mmsi=1), 0.0)
    bench.run()
    events: list[Event] = []
    core.subscribe(Vessel, events.append, 0.0)
    assert [(event.operation, event.is_from_cache) for event in events] == [("create", True)]


def test_types_that_this_program_never_saw_are_learned() -> None:
    bench = Bench()
    reader = bench.client()
    reader.container(skerry.define_types("struct Other { 1: [key] bool on; }").Other, 0.0)
    bench.client().publish(Vessel(mmsi=1), 0.0)
    bench.run()
    assert reader.failure is None
    assert "Vessel" not in reader.registry, "nobody here asked for it"


def test_two_definitions_of_a_type_are_not_mixed() -> None:
    core = Bench().client()
    core.publish(Vessel(mmsi=1), 0.0)
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel
    with pytest.raises(SchemaMismatchError):
        core.publish(other(mmsi="x"), 0.0)


def test_rules_of_publishing_are_kept_here() -> None:
    core = Bench().client()
    with pytest.raises(LocalProtocolError, match="only for use inside"):
        core.publish(Part(on=True), 0.0)
    with pytest.raises(LocalProtocolError, match="without its key mmsi"):
        core.publish(Vessel(name="a"), 0.0)
    with pytest.raises(LocalProtocolError, match="not cached"):
        core.publish(Shout(), 0.0, remove=True)


def test_remove_of_what_is_not_there_is_no_event() -> None:
    bench = Bench()
    core = bench.client()
    events: list[Event] = []
    core.subscribe(Vessel, events.append, 0.0)
    bench.run()
    core.publish(Vessel(mmsi=9), 0.0, remove=True)
    bench.run()
    assert events == []


def test_echo_tells_that_all_before_was_dealt_with() -> None:
    bench = Bench()
    core = bench.client()
    number = core.echo(0.0)
    assert not core.is_echoed(number)
    bench.run()
    assert core.is_echoed(number)


def test_message_is_an_event_and_not_kept() -> None:
    bench = Bench()
    core = bench.client()
    events: list[Event] = []
    core.subscribe(Shout, events.append, 0.0)
    core.publish(Shout(text="a"), 0.0)
    core.publish(Shout(text="a"), 0.0)
    bench.run()
    assert [event.operation for event in events] == ["create", "create"]
    assert len(core.container(Shout, 0.0)) == 0
