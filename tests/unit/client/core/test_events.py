"""Events: their attributes, and that objects are decoded on first access."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest

from skerry.client.core.events import Event, ObjectInfo, info_of
from skerry.client.core.received_types import ReceivedType, bytes_of
from skerry.client.core.send_buffer import raw_payload
from skerry.codec.hot_loops import ObjectState
from skerry.codec.operation import Operation
from skerry.errors import DecodeError
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from tests.unit.client.stage import Shout, Vessel


def shape_of(cls: Any) -> ReceivedType:
    return ReceivedType(cls, codec_of(cls).plan, cls.descriptor.flags.cached)


def header(**facts: Any) -> Header:
    made = Header("Vessel")
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def vessel_event(**facts: Any) -> Event[Any]:
    update = Vessel(mmsi=1, lat=2.0).encode()
    whole = Vessel(mmsi=1, name="a", lat=2.0).encode()
    entry = ObjectState(whole, 14, "", 1.0, 5, 2.0, 6, Operation.UPDATE, 3.0, 1)
    return Event(Operation.UPDATE, header(**facts), shape_of(Vessel), update, entry, 6, 3.0)


def test_event_has_the_update_and_the_whole_object() -> None:
    event = vessel_event(sender=6)
    assert event.update == Vessel(mmsi=1, lat=2.0)
    assert event.object == Vessel(mmsi=1, name="a", lat=2.0)
    assert event.object is event.object
    assert event.data == event.update.encode()
    assert (event.type_name, event.subject) == ("Vessel", "/Vessel/1")
    assert event.is_from_myself
    assert not event.is_from_cache
    assert repr(event) == "<update /Vessel/1>"


def test_event_info_has_client_and_time() -> None:
    info = vessel_event().info
    assert (info.last_operation, info.created, info.created_from) == ("update", 1.0, 5)
    assert (info.modified, info.modified_from, info.received) == (2.0, 6, 3.0)


def test_message_is_its_own_object() -> None:
    event: Event[Any] = Event(
        Operation.CREATE,
        header(sender=4, sent_time=9.0),
        shape_of(Shout),
        Shout(text="a").encode(),
        None,
        5,
        10.0,
    )
    assert event.object is event.update
    assert not event.is_from_myself
    assert (event.info.created, event.info.created_from, event.info.received) == (9.0, 4, 10.0)
    assert event.info.last_operation == "create"


def test_subject_of_the_header_precedes_the_default_subject() -> None:
    assert vessel_event(subject="/nav/1", from_cache=0).subject == "/nav/1"
    assert vessel_event(from_cache=0).is_from_cache


def test_decode_error_is_recorded_in_the_event() -> None:
    event: Event[Any] = Event(
        Operation.CREATE, header(), shape_of(Shout), b"\xa1\x01\x01", None, 5, 0.0
    )
    with pytest.raises(DecodeError) as caught:
        _ = event.object
    assert event.fault is caught.value


def test_event_can_be_seen_as_another_class_of_the_type() -> None:
    class Mine(Vessel):  # type: ignore[misc]
        """Ours."""

    assert type(vessel_event().seen_as(shape_of(Mine)).object) is Mine


@pytest.mark.parametrize("size", [0, 1, 23, 24, 255, 256, 65535, 65536])
def test_bytes_under_a_subject_round_trip(size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    payload = raw_payload(data)
    cls = internal_class("SkerryBytes")
    assert payload == cls(data=data).encode()
    assert bytes_of(payload) == data
    event: Event[Any] = Event(
        Operation.CREATE, header(subject="/a"), shape_of(cls), payload, None, 1, 0.0
    )
    assert event.data == data
    assert event.object.data == data


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xa1",
        b"\xa1\x01\x41",
        b"\xa1\x01\x42a",
        b"\xa1\x01\x41ab",
        b"\xa1\x02\x41a",
        b"\xa1\x01\x61a",
        b"\xa1\x01\x58",
        b"\xa1\x01\x59\x00",
        b"\xa1\x01\x5a\x00\x00",
        b"\xa1\x01\x3f",
    ],
)
def test_other_encodings_of_bytes_are_rejected(payload: bytes) -> None:
    with pytest.raises(DecodeError, match="SkerryBytes"):
        bytes_of(payload)


def test_object_without_its_bytes_is_empty() -> None:
    assert bytes_of(b"\xa0") == b""


def test_facts_do_not_change() -> None:
    info = ObjectInfo(
        last_operation=Operation.CREATE,
        created=1.0,
        created_from=2,
        modified=1.0,
        modified_from=2,
        received=3.0,
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.created = 5.0  # type: ignore[misc]


def test_info_of_a_state_has_client_and_time() -> None:
    info = info_of(ObjectState(b"", 0, "", 1.0, 5, 2.0, 6, Operation.UPDATE, 3.0, 1))
    assert (info.last_operation, info.created, info.created_from) == ("update", 1.0, 5)
    assert (info.modified, info.modified_from, info.received) == (2.0, 6, 3.0)


def test_operations_are_an_enum_whose_text_is_equal() -> None:
    made = (header(), shape_of(Shout), Shout(text="a").encode(), None, 5, 0.0)
    event: Event[Any] = Event(Operation.CREATE, *made)
    assert event.operation == "create"
    assert event.operation is Operation.CREATE
    assert f"{event.operation}" == str(event.operation) == "create"
    assert {"create": 1}[event.operation] == 1
    assert json.dumps(event.operation) == '"create"'
    assert pickle.loads(pickle.dumps(Operation.REMOVE)) is Operation.REMOVE
    match event.operation:
        case Operation.CREATE:
            pass
        case _:
            raise AssertionError
