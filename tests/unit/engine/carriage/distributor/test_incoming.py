"""Messages from the group are checked, wait for their type, or are dropped with a reason."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.carriage.distributor.events import DefinitionConflict, MessagesGivenUp
from skerry.engine.carriage.distributor.incoming import (
    CARRIER_CONFLICT_COUNT_MAX,
    CARRIER_WAITING_BYTES_MAX,
)
from skerry.engine.carriage.distributor.types import describing
from skerry.engine.node import NodeCore
from skerry.protocol.access.header import NEVER, Header, write_header
from skerry.schema.check import define
from skerry.schema.model import NamedType

KINDS = st.sampled_from(["object", "repeated", "type"])


def types_of(text: str) -> dict[str, NamedType]:
    return {type_.name: type_ for type_ in define(text, file="y.dots").types}


def data_of(obj: Any, **fields: Any) -> bytes:
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    for name, value in fields.items():
        setattr(header, name, value)
    return bytes(write_header(header) + obj.encode())


def dropped(host: Any) -> dict[str, int]:
    return {reason: count for reason, count in host.statistics().dropped.items() if count}


@pytest.fixture
def host(site: Any) -> Any:
    """A node that knows the types, with a subscriber."""
    made = site.add()
    site.program(made, "q", "Tick", "Ping", "Near", "Kept")
    for name in ("Tick", "Ping", "Near", "Kept"):
        obj = site.make(name)
        made.programs["q"].client.describe(obj.descriptor, 0.0)
    made.pump(site.now_ns)
    return made


@pytest.fixture
def stranger(site: Any, host: Any) -> Any:
    return site.outsider()


def test_a_message_is_forwarded_to_the_node(site: Any, host: Any, stranger: Any) -> None:
    site.say(stranger, "/Tick", data_of(site.make("Tick", number=1)))
    assert len(host.programs["q"].heard) == 1
    assert dropped(host) == {}


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda _: b"nonsense",
        lambda _: b"\xff" * 40,
        lambda site: data_of(site.make("Tick", number=1))[:-1],
        lambda site: data_of(site.make("Tick", number=1)) + b"\x00",
        lambda site: data_of(site.make("Tick", number=1), attributes=-1),
        lambda site: data_of(site.make("Tick", number=1), type_name=""),
        lambda site: data_of(site.make("Tick", number=1), remove_obj=1),
        lambda site: data_of(site.make("Tick", number=1), sent_time=float("nan")),
        lambda site: data_of(site.make("Tick", number=1), sent_time=1e18),
        lambda site: data_of(site.make("Ping", number=1)),
        lambda site: data_of(site.make("Tick", number=1), type_name="StructDescriptorData"),
    ],
)
def test_malformed_messages_are_counted_and_do_no_harm(
    site: Any, host: Any, stranger: Any, change: Any
) -> None:
    site.say(stranger, "/Tick", change(site))
    assert dropped(host) == {"malformed": 1}
    site.say(stranger, "/Tick", data_of(site.make("Tick", number=2)))
    assert len(host.programs["q"].heard) == 1
    assert host.statistics().cut_count == 0


def test_an_invalid_time_in_a_repeated_header_does_no_harm(
    site: Any, host: Any, stranger: Any
) -> None:
    tick = site.make("Tick", number=1)
    for number in range(3):
        site.say(stranger, "/Tick", data_of(tick, sent_time=float(number)))
    for time in (NEVER, float("nan"), 1e200):
        known, other = struct.pack(">d", 1.5), struct.pack(">d", time)
        site.say(stranger, "/Tick", data_of(tick, sent_time=1.5).replace(known, other))
    assert dropped(host) == {"malformed": 3}
    assert host.statistics().cut_count == 0
    assert len(host.programs["q"].heard) == 3


@pytest.mark.slow
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(start=st.integers(0, 60), length=st.integers(0, 8), other=st.binary(max_size=12), kind=KINDS)
def test_the_node_survives_any_change_of_a_message(
    site: Any, start: int, length: int, other: bytes, kind: str
) -> None:
    fresh = type(site)()
    host = fresh.add()
    hearer = fresh.program(host, "q", "Ping")
    hearer.client.describe(fresh.make("Ping").descriptor, 0.0)
    host.pump(fresh.now_ns)
    stranger = fresh.outsider()
    sound = data_of(fresh.make("Ping", who="a", number=1), sent_time=1.5, server_sent_time=2.5)
    subject, data = describing(fresh.make("Far").descriptor) if kind == "type" else ("/x", sound)
    if kind == "repeated":
        for _ in range(3):
            fresh.say(stranger, "/x", sound)
    heard_count = len(hearer.heard)
    fresh.say(stranger, subject, data[:start] + other + data[start + length :])
    fresh.run_ms(10_000)
    assert host.statistics().cut_count == 0
    fresh.say(stranger, "/x", sound)
    assert len(hearer.heard) - heard_count in (1, 2)


@pytest.mark.parametrize("name", ["Near", "Kept", "DotsClient", "Colour"])
def test_messages_of_other_scopes_are_dropped(
    site: Any, host: Any, stranger: Any, name: str
) -> None:
    site.say(stranger, "/x", data_of(site.make("Tick", number=1), type_name=name))
    assert dropped(host) == {"scope": 1}
    assert host.programs["q"].heard == []


def test_messages_of_a_type_that_is_not_described_in_time_are_dropped(
    site: Any, host: Any, stranger: Any
) -> None:
    for number in range(3):
        site.say(stranger, "/Far", data_of(site.make("Far", number=number)))
    assert host.statistics().waiting_count == 3
    site.run_ms(5999)
    assert host.statistics().waiting_count == 3
    site.run_ms(1)
    assert host.statistics().waiting_count == 0
    assert dropped(host) == {"undescribed": 3}
    assert site.events_of(host, MessagesGivenUp) == [
        MessagesGivenUp(type_name="Far", message_count=3)
    ]


def test_waiting_messages_come_first_if_a_local_client_describes_the_type(
    site: Any, host: Any, stranger: Any
) -> None:
    hearer = site.program(host, "far", "Far")
    far = [site.make("Far", number=number) for number in range(3)]
    site.say(stranger, "/Far", data_of(far[0]))
    host.programs["q"].client.describe(far[0].descriptor, 0.0)
    host.pump(site.now_ns)
    site.say(stranger, "/Far", data_of(far[1]))
    assert [one.payload for one in hearer.heard] == [far[0].encode(), far[1].encode()]


def test_waiting_messages_do_not_change_the_time_of_later_ones(
    site: Any, host: Any, stranger: Any
) -> None:
    far = site.make("Far", number=1)
    for number in range(4):
        site.say(stranger, "/Far", data_of(far, sent_time=float(number)))
    host.programs["q"].client.describe(far.descriptor, 0.0)
    host.pump(site.now_ns)
    known, other = struct.pack(">d", 7.5), struct.pack(">d", float("nan"))
    site.say(stranger, "/Far", data_of(far, sent_time=7.5).replace(known, other))
    assert host.statistics().brought_count == 4
    assert dropped(host) == {"malformed": 1}
    assert host.statistics().cut_count == 0


def test_small_waiting_messages_are_limited_too(site: Any, host: Any, stranger: Any) -> None:
    count = CARRIER_WAITING_BYTES_MAX // 512
    data = data_of(site.make("Far", number=1))
    for number in range(count):
        stranger.publish("/x", data.replace(b"Far", f"F{number:x}".encode()[:3]), site.now_ns)
    site.settle()
    assert host.statistics().waiting_count < count
    assert host.statistics().dropped["undescribed"] > 0


def test_waiting_messages_are_not_dropped_if_their_type_became_known(
    site: Any, host: Any, stranger: Any
) -> None:
    hearer = site.program(host, "far", "Far")
    site.say(stranger, "/Far", data_of(site.make("Far", number=1)))
    host.programs["q"].client.describe(site.make("Far").descriptor, 0.0)
    host.pump(site.now_ns)
    site.run_ms(7000)
    assert len(hearer.heard) == 1
    assert dropped(host) == {}


def test_waiting_messages_are_limited(site: Any, host: Any, stranger: Any) -> None:
    size = CARRIER_WAITING_BYTES_MAX // 4
    text = "struct Large [cached=false] { 1: string text; }"
    data = data_of(site.make("Large", text, text="x" * (size - 600)))
    for _ in range(4):
        site.say(stranger, "/Large", data)
    assert host.statistics().waiting_count == 4
    site.say(stranger, "/Large", data)
    # Those of one type go together: some of them would be of no more use.
    assert host.statistics().waiting_count == 1
    assert dropped(host) == {"undescribed": 4}
    huge = data_of(site.make("Large", text, text="x" * CARRIER_WAITING_BYTES_MAX))
    site.say(stranger, "/Large", huge)
    assert dropped(host) == {"undescribed": 6}


def test_a_description_is_unusable_until_the_types_inside_are_described(
    site: Any, stranger: Any
) -> None:
    host = site.add()
    hearer = site.program(host, "q", "Ping")
    ping = site.make("Ping", who="a", number=1)
    parts = types_of(TEXT_OF_PING)
    site.say(stranger, *describing(parts["Ping"]))
    assert dropped(host)["undescribed"] == 1
    site.say(stranger, "/Ping/a", data_of(ping))
    for name in ("Colour", "Place", "Ping"):
        site.say(stranger, *describing(parts[name]))
    assert len(hearer.heard) == 1


TEXT_OF_PING = """
enum Colour { 1: red, 2: green, }
struct Place { 1: float64 x; 2: float64 y; }
struct Ping [cached=false] { 1: [key] string who; 2: uint32 number; 3: Colour colour; 4: Place at; }
"""


def test_a_compatible_definition_is_united_with_the_one_of_this_node(
    site: Any, host: Any, stranger: Any
) -> None:
    more = "struct Tick [cached=false] { 1: uint32 number; 5: string note; }"
    tick = site.make("Tick", more, number=1, note="hm")
    site.say(stranger, *describing(tick.descriptor))
    site.say(stranger, "/Tick", data_of(tick))
    friend = site.outsider()
    other = "struct Tick [cached=false] { 1: uint32 number; 6: bool is_last; }"
    last = site.make("Tick", other, number=2, is_last=True)
    site.say(friend, *describing(last.descriptor))
    site.say(friend, "/Tick", data_of(last))
    site.say(stranger, "/Tick", data_of(tick))
    assert dropped(host) == {}
    assert [f.name for f in host.core.registry["Tick"].fields] == ["number", "note", "is_last"]
    assert len(host.programs["q"].heard) == 3


def test_a_conflicting_definition_is_reported_once_and_its_messages_are_dropped(
    site: Any, host: Any, stranger: Any
) -> None:
    other = "struct Tick [cached=false] { 1: string number; }"
    for _ in range(3):
        site.say(stranger, *describing(types_of(other)["Tick"]))
        site.say(stranger, "/Tick", data_of(site.make("Tick", other, number="one")))
    assert dropped(host) == {"conflict": 3}
    (conflict,) = site.events_of(host, DefinitionConflict)
    assert conflict.type_name == "Tick"
    assert "skerry at 10.0.0.2, sender 61236" in conflict.sender
    assert "uint32 to string" in conflict.detail
    assert host.statistics().conflict_count == 1
    # Others are not concerned.
    friend = site.outsider()
    site.say(friend, *describing(site.make("Tick").descriptor))
    site.say(friend, "/Tick", data_of(site.make("Tick", number=1)))
    assert len(host.programs["q"].heard) == 1


def test_a_conflicting_type_inside_concerns_the_whole_type(
    site: Any, host: Any, stranger: Any
) -> None:
    parts = types_of(TEXT_OF_PING.replace("2: green", "3: green"))
    for name in ("Colour", "Place", "Ping"):
        site.say(stranger, *describing(parts[name]))
    site.say(stranger, "/Ping/a", data_of(site.make("Ping", who="a", number=1)))
    assert dropped(host) == {"conflict": 1}
    conflicts = [e.type_name for e in site.events_of(host, DefinitionConflict)]
    assert conflicts == ["Colour", "Ping"]


@pytest.mark.slow
def test_remembered_conflicts_are_limited(site: Any, stranger: Any) -> None:
    limits = ClientLimits(type_count_max=2 * CARRIER_CONFLICT_COUNT_MAX)
    admission = Admission(AdmissionConfig(limits=limits), rng=_rng())
    host = site.add(core=NodeCore(admission=admission))
    text = "struct T{} [cached=false] {{ 1: {} number; }}"
    for number in range(CARRIER_CONFLICT_COUNT_MAX + 1):
        mine = types_of(text.format(number, "uint32"))[f"T{number}"]
        host.core.registry.register(mine, client=9, client_name="here", may_publish=lambda _: True)
        theirs = types_of(text.format(number, "string"))[f"T{number}"]
        stranger.publish(*describing(theirs), site.now_ns)
    site.settle()
    assert host.statistics().conflict_count == CARRIER_CONFLICT_COUNT_MAX + 1
    # The first was forgotten, and is found out again; the last was not.
    for number in (CARRIER_CONFLICT_COUNT_MAX, 0):
        theirs = types_of(text.format(number, "string"))[f"T{number}"]
        site.say(stranger, *describing(theirs))
    assert host.statistics().conflict_count == CARRIER_CONFLICT_COUNT_MAX + 2


def test_more_types_than_the_node_accepts_are_refused(site: Any, stranger: Any) -> None:
    limits = ClientLimits(type_count_max=2)
    admission = Admission(AdmissionConfig(limits=limits), rng=_rng())
    host = site.add(core=NodeCore(admission=admission))
    for number in range(4):
        text = f"struct T{number} [cached=false] {{ 1: uint32 number; }}"
        site.say(stranger, *describing(types_of(text)[f"T{number}"]))
        site.say(stranger, f"/T{number}", data_of(site.make(f"T{number}", text, number=1)))
    statistics = host.statistics()
    assert statistics.brought_count == 2
    assert statistics.waiting_count == 2
    assert statistics.dropped["refused"] == 2
    assert statistics.cut_count == 0


def _rng() -> Any:
    return Random(1)
