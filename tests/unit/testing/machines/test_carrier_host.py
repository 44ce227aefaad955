"""A node with its carrier and programs in one machine."""

from __future__ import annotations

from random import Random

from skerry.objects.classes import class_of
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.machine import Address
from skerry.schema.check import define
from skerry.schema.model import StructType
from skerry.testing.machines.carrier_host import CarrierHost, MessageHeard

GROUP = Address("239.192.7.1", 4711)
(TICK,) = define("struct Tick [cached=false] { 1: uint32 number; }", file="x").types
assert isinstance(TICK, StructType)
Tick = class_of(TICK)


def host(number: int) -> CarrierHost:
    identity = SenderIdentity(
        address=bytes((10, 0, 0, number)), sender_id=1, start_ms=number, application_id=0
    )
    connection = GroupConnection(group=GROUP, identity=identity, rng=Random(number), now_ns=1)
    return CarrierHost(connection, DistributorConfig(), now_ns=1)


def test_messages_reach_programs_of_the_same_and_of_other_nodes() -> None:
    home, away = host(1), host(2)
    home.add_program("p", 1, joins=("Tick",))
    away.add_program("q", 1, joins=("Tick",))
    home.publish("p", Tick(number=7), 2)
    for transmit in home.take_transmits():
        away.receive(transmit.data, GROUP, 3)
    for one, name in ((home, "p"), (away, "q")):
        (heard,) = [event for event in one.take_events() if isinstance(event, MessageHeard)]
        assert (heard.program, heard.type_name, heard.subject) == (name, "Tick", "")
        assert Tick.decode(heard.payload).number == 7
        assert one.programs[name].heard == [heard]
        assert one.take_events() == []
    assert away.programs["q"].described == ["Tick"]


def test_the_deadline_is_that_of_node_or_carriage() -> None:
    home = host(1)
    home.add_program("p", 1)
    home.publish("p", Tick(number=7), 2)
    home.take_transmits()
    due_ns = home.deadline_ns()
    assert due_ns is not None
    home.advance(due_ns)
    assert home.statistics().sent_count == 1
    assert home.deadline_ns() != due_ns
