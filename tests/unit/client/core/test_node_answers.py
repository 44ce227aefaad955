"""Answers, refusals and descriptions of the node reach the part that they are for."""

from __future__ import annotations

import pytest

import skerry
from skerry.client.core.states import Refusal, SpaceState, TypeConflict
from skerry.errors import LocalProtocolError, Refused
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import NODE, Only, Stage, Vessel


def test_unknown_type_is_requested_by_name() -> None:
    stage = Stage()
    writer, reader = stage.space(), stage.space()
    events = stage.hear(reader, "Vessel")
    assert "Vessel" not in reader.types.classes()
    stage.publish(writer, Vessel(mmsi=1, name="a"))
    assert events[0].object.name == "a"
    assert reader.types.classes()["Vessel"].descriptor.name == "Vessel"
    with pytest.raises(LocalProtocolError, match="a condition needs a type"):
        reader.subscribe("Unknown", print, stage.now_ns, where="lat > 1")


def test_types_of_the_node_can_be_requested() -> None:
    stage = Stage()
    stage.publish(stage.space(), Vessel(mmsi=1), Only(text="x"))
    core = stage.space()
    request = core.request_types([], stage.now_ns)
    stage.run()
    assert request.is_done
    assert set(core.types.classes()) == {"Vessel", "Only"}
    narrow = stage.space()
    narrow.request_types(["Only"], stage.now_ns)
    stage.run()
    assert set(narrow.types.classes()) == {"Only"}


def test_conflicting_definition_is_reported() -> None:
    stage = Stage()
    other = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: uint32 name; }").Vessel
    writer, reader = stage.space(), stage.space()
    stage.publish(writer, other(mmsi=1, name=7))
    events = stage.hear(reader, "StructDescriptorData")
    reader.types.learn(Vessel)
    request = reader.request_types([], stage.now_ns)
    stage.run()
    assert request.is_done
    assert events
    (conflict,) = [e for e in reader.connection.take_events() if isinstance(e, TypeConflict)]
    assert conflict.name == "Vessel"
    assert reader.connection.state is SpaceState.CONNECTED


def test_flush_confirms_all_earlier_publishes() -> None:
    stage = Stage()
    core = stage.space()
    core.publish(Vessel(mmsi=1), 1.0)
    flush = core.flush(stage.now_ns)
    assert stage.cached(Vessel) == {}
    stage.run()
    assert flush.is_done
    assert flush.error is None
    assert len(stage.cached(Vessel)) == 1


def test_echoes_of_the_program_are_ignored() -> None:
    stage = Stage()
    core = stage.space()
    flush = core.flush(stage.now_ns)
    core.connection.take_transmits()
    echo = internal_class("DotsEcho")(request=False, identifier=flush.number, data="mine")
    peer = AccessConnection(Wire())
    peer.send_message(echo, 1.0)
    core.connection.receive(peer.take_output(), NODE, stage.now_ns)
    assert not flush.is_done


def test_refusal_is_reported_and_fails_the_next_flush() -> None:
    stage = Stage()
    core = stage.space()
    peer = AccessConnection(Wire())
    peer.send_message(internal_class("SkerryRefusal")(what="publish /Vessel", reason="no"), 1.0)
    core.connection.receive(peer.take_output(), NODE, stage.now_ns)
    assert Refusal(what="publish /Vessel", reason="no") in core.connection.take_events()
    flush = core.flush(stage.now_ns)
    stage.run()
    assert isinstance(flush.error, Refused)
    assert "publish /Vessel: no" in str(flush.error)
    again = core.flush(stage.now_ns)
    stage.run()
    assert again.error is None
