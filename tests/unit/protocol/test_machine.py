"""The contract of machines: its values, and the optional parts."""

from __future__ import annotations

import dataclasses

import pytest

from skerry.protocol.machine import (
    Address,
    Connect,
    Disconnect,
    Durable,
    Machine,
    Paced,
    StreamMachine,
    Transmit,
    WallClocked,
)
from skerry.testing import Setting, World
from skerry.testing.machines.echo import EchoClient, EchoServer
from tests.sim.heartbeat import HeartbeatDetector
from tests.sim.probe import Probe
from tests.sim.stream_echo import StreamEchoClient, StreamEchoServer


def test_a_stream_and_a_datagram_address_are_not_the_same() -> None:
    assert Address("a", 7) != Address("a", 7, is_stream=True)
    assert str(Address("a", 7)) == "datagram:a:7"
    assert str(Address("a", 7, is_stream=True)) == "stream:a:7"
    assert [Address(host, 7).text for host in ("10.0.0.1", "fd00::5")] == [
        "10.0.0.1:7",
        "[fd00::5]:7",
    ]


def test_transmits_cannot_be_changed_on_their_way() -> None:
    transmit = Transmit(destination=Address("a", 7), data=b"x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        transmit.data = b"y"  # type: ignore[misc]


def test_opening_and_closing_a_stream_are_in_order_with_data() -> None:
    assert isinstance(Connect(destination=Address("a", 7, is_stream=True)), Transmit)
    assert isinstance(Disconnect(destination=Address("a", 7, is_stream=True)), Transmit)


def test_machines_are_recognised_by_their_methods() -> None:
    world = World(0)
    probe = world.add("probe", Probe).machine
    server = EchoServer()
    assert isinstance(probe, StreamMachine)
    assert isinstance(probe, Durable)
    assert isinstance(probe, WallClocked)
    assert isinstance(probe, Paced)
    assert not isinstance(server, Paced)
    assert not isinstance(server, StreamMachine)
    assert not isinstance(server, Durable)
    assert not isinstance(server, WallClocked)


def test_the_machines_that_are_shipped_keep_the_contract_for_the_type_checker_too() -> None:
    world = World(0)
    machines: list[Machine] = []

    def build(setting: Setting) -> Probe:
        address = Address("x", 7, is_stream=True)
        stream_machines: list[StreamMachine] = [
            StreamEchoClient(server=address, rng=setting.rng, now_ns=0),
            StreamEchoServer(),
        ]
        machines.extend(stream_machines)
        machines.append(EchoClient(server=address, rng=setting.rng, now_ns=0))
        machines.append(
            HeartbeatDetector(address=address, group=address, rng=setting.rng, now_ns=0)
        )
        return Probe(setting)

    world.add("a", build)
    assert [machine.take_events() for machine in machines] == [[], [], [], []]
