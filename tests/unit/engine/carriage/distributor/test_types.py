"""Types of a carriage: subjects, checks and descriptions."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.engine.carriage.distributor.types import (
    CARRIER_SUBJECT_COUNT_MAX,
    CarriedType,
    CarriedTypes,
    describing,
)
from skerry.errors import DecodeError
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header, read_header
from skerry.schema.model import NamedType, dependencies


def header_of(obj: Any) -> Header:
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    return header


def test_subjects_are_chosen_or_made_of_the_key(site: Any) -> None:
    ping = site.make("Ping", who="a/b", number=1)
    carried = CarriedType(ping.descriptor)
    header = header_of(ping)
    assert carried.subject_of(header, ping.encode()) == "/Ping/a%2Fb"
    header.subject = "/elsewhere"
    assert carried.subject_of(header, ping.encode()) == "/elsewhere"
    tick = site.make("Tick", number=1)
    assert CarriedType(tick.descriptor).subject_of(header_of(tick), tick.encode()) == "/Tick"


def test_remembered_subjects_are_limited(site: Any) -> None:
    cls = type(site.make("Ping"))
    carried = CarriedType(cls.descriptor)
    for round_ in range(2):
        for number in range(CARRIER_SUBJECT_COUNT_MAX + 1):
            ping = cls(who=str(number), number=round_)
            assert carried.subject_of(header_of(ping), ping.encode()) == f"/Ping/{number}"
            assert len(carried._subjects) <= CARRIER_SUBJECT_COUNT_MAX
    assert len(carried._subjects) == 2


@pytest.mark.parametrize(
    ("name", "subject", "is_default"),
    [
        ("Ping", "/Ping/a", True),
        ("Ping", "/Ping", False),
        ("Ping", "/Ping/a/b", False),
        ("Ping", "/Pinger/a", False),
        ("Ping", "/x/Ping/a", False),
        ("Tick", "/Tick", True),
        ("Tick", "/Tick/a", False),
    ],
)
def test_default_subjects_are_recognized_by_their_form(
    site: Any, name: str, subject: str, is_default: bool
) -> None:
    assert CarriedType(site.make(name).descriptor).is_default(subject) is is_default


def test_a_valid_message_passes_the_check(site: Any) -> None:
    ping = site.make("Ping", who="a", number=1)
    CarriedType(ping.descriptor).check(header_of(ping), ping.encode())


def test_an_invalid_message_does_not_pass_the_check(site: Any) -> None:
    ping = site.make("Ping", who="a", number=1)
    carried, header, payload = CarriedType(ping.descriptor), header_of(ping), ping.encode()
    with pytest.raises(DecodeError, match="bytes follow"):
        carried.check(header, payload + b"\x00")
    with pytest.raises(DecodeError):
        carried.check(header, payload[:-1])
    with pytest.raises(DecodeError, match="the key is not complete"):
        carried.check(header, site.make("Ping", number=1).encode())
    header.remove_obj = 1
    with pytest.raises(DecodeError, match="cannot be removed"):
        carried.check(header, payload)
    header.remove_obj = 0
    header.sent_time = float("inf")
    with pytest.raises(DecodeError, match="sentTime is not a valid time"):
        carried.check(header, payload)


def test_a_description_is_an_update_that_reads_as_a_descriptor(site: Any) -> None:
    subject, data = describing(site.make("Ping").descriptor)
    assert subject == "/StructDescriptorData/Ping"
    header, at = read_header(data, 0)
    assert header.type_name == "StructDescriptorData"
    message = internal_class("StructDescriptorData").decode(data[at:])
    assert [item.name for item in message.properties] == ["who", "number", "colour", "at"]


def test_types_inside_are_described_first(site: Any) -> None:
    carried = CarriedType(site.make("Ping").descriptor)
    assert [subject for subject, _ in carried.descriptions] == [
        "/EnumDescriptorData/Colour",
        "/StructDescriptorData/Place",
        "/StructDescriptorData/Ping",
    ]
    assert carried.names == {"Colour", "Place", "Ping"}


def test_types_are_those_in_the_registry_now(site: Any) -> None:
    registry: dict[str, NamedType] = {}
    types = CarriedTypes(registry)
    assert types.get("Tick") is None
    registry["Tick"] = site.make("Tick").descriptor
    carried = types.get("Tick")
    assert carried is not None
    assert types.get("Tick") is carried
    registry |= {type_.name: type_ for type_ in dependencies(site.make("Ping").descriptor)}
    assert "Colour" in registry
    assert types.get("Colour") is None
    other = site.make("Tick", "struct Tick [cached=false] { 1: string number; }").descriptor
    registry["Tick"] = other
    replaced = types.get("Tick")
    assert replaced is not None
    assert replaced.type is other
