"""The cost for a node of a message to the group of its system, and from the group to a client.

A publisher's frames go into one node, its datagrams into another, whose client receives all:
machines only, without sockets, in batches as a busy node gets them.
"""

from __future__ import annotations

from functools import partial
from random import Random

import skerry
from benchmarks.rows import Row, best_of
from skerry.protocol.access.header import Header
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.machine import Address
from tests.sim.carrier_host import CarrierHost

GROUP = Address("239.192.7.1", 4711)
BATCH_COUNT = 200
Tick = skerry.define_types("struct BenchTick [cached=false] { 1: [key] uint32 id; 2: float64 x; }")


def run() -> list[Row]:
    """Rows for the way out, and for the whole way."""
    obj = Tick.BenchTick(id=7, x=1.5)
    header = Header("BenchTick")
    header.sent_time = 1.0
    header.attributes = int(obj.attributes)
    payload = obj.encode()

    def out(home: CarrierHost) -> list[bytes]:
        client = home.programs["p"].client
        for _ in range(BATCH_COUNT):
            client.send(header, payload, obj.descriptor, 1.0)
        home.pump(1)
        home.take_events()
        return [transmit.data for transmit in home.take_transmits()]

    def whole_way(home: CarrierHost, away: CarrierHost) -> None:
        for datagram in out(home):
            away.receive(datagram, GROUP, 1)
        away.take_transmits()
        away.take_events()
        away.programs["q"].heard.clear()

    alone, home, away = _host(1), _host(2), _host(3)
    for host in (alone, home):
        host.add_program("p", 1)
    away.add_program("q", 1, joins=("BenchTick",))
    times = best_of(partial(out, alone), partial(whole_way, home, away))
    if away.statistics().brought_count != home.statistics().sent_count:
        raise AssertionError("not all messages came")
    return [
        Row(name=name, ours=ns / BATCH_COUNT, unit="ns CPU")
        for name, ns in zip(
            ("message from a client to the group", "message from client to client by the group"),
            times,
            strict=True,
        )
    ]


def _host(number: int) -> CarrierHost:
    identity = SenderIdentity(
        address=bytes((10, 0, 0, number)), sender_id=1, start_ms=number, application_id=0
    )
    config = DistributorConfig(cache_bytes_max=0)
    connection = GroupConnection(
        group=GROUP, identity=identity, rng=Random(number), now_ns=1, config=config
    )
    return CarrierHost(connection, config, now_ns=1)
