"""The mapping between a portal and a space: rules in both directions, faults, and loops."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry import define_types
from skerry.codec.bson import decode_bson, encode_bson
from skerry.errors import SchemaCheckError
from skerry.protocol.portal.identifiers import Identifier, Scheme
from skerry.protocol.portal.mapping import portal_mapping
from skerry.protocol.portal.mapping.contents import bytes_of_payload, json_text, payload_of_bytes
from skerry.protocol.portal.mapping.portal_mapping import (
    MAPPED_NAME_COUNT_MAX,
    MAPPING_THREAD,
    TROUBLE_COUNT_MAX,
    NotMapped,
    PortalItem,
    PortalMapping,
    SpaceItem,
)
from skerry.protocol.portal.mapping.rules import CompiledRule, PortalRule
from tests.unit.protocol.portal.mapping.descriptors import fleet, message

TYPES = define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 speed; }")
VESSEL = {"Vessel": TYPES.Vessel.descriptor}


def mapping_of(*rules: PortalRule) -> PortalMapping:
    return PortalMapping(rules, fleet(), VESSEL)


def published(
    group: str, scheme: int, type_name: str, *, process: int = 7, thread: int = 0xA
) -> Identifier:
    return Identifier(
        group=group, scheme=scheme, type_name=type_name, process=process, thread=thread
    )


def report_bytes(name: str = "sub1") -> bytes:
    data: bytes = message("Report", f'name: "{name}" late: 3').SerializeToString()
    return data


# -- into the space


def test_a_message_becomes_an_object() -> None:
    mapping = mapping_of(PortalRule(scheme="PROTOBUF", group="nav_*", key=("name",)))
    item = mapping.into_space(published("nav_1", 1, "fleet.Report"), report_bytes())
    assert item is not None
    assert item.subject == ""
    assert item.obj.name == "sub1"
    assert type(item.obj).descriptor.name == "fleet_Report"
    assert mapping.into_space(published("other", 1, "fleet.Report"), report_bytes()) is None
    assert mapping.statistics().unmapped_count == 0
    assert mapping.statistics().into_space_count == 1


def test_json_becomes_an_object_of_a_known_type() -> None:
    rule = PortalRule(scheme="JSON", group="ais", object="Vessel", subject="/ais/{group}/now")
    item = mapping_of(rule).into_space(
        published("ais", 7, "nlohmann::json"), encode_bson({"mmsi": 5, "speed": 1.5})
    )
    assert item == SpaceItem(subject="/ais/ais/now", obj=TYPES.Vessel(mmsi=5, speed=1.5))


@pytest.mark.parametrize(
    ("scheme", "type_name", "payload", "data"),
    [
        (0, "CSTR", b"hello\0", b"hello"),
        (0, "CSTR", b"", b""),
        (2, "fleet.Report", b"\1\2\0", b"\1\2\0"),
        (7, "nlohmann::json", encode_bson({"k": [1, "ä"]}), '{"k": [1, "ä"]}'.encode()),
        (450, "own", b"\0", b"\0"),
    ],
)
def test_other_payloads_become_bytes(
    scheme: int, type_name: str, payload: bytes, data: bytes
) -> None:
    item = mapping_of(PortalRule(scheme="*")).into_space(
        published("grp;12", scheme, type_name), payload
    )
    assert item is not None
    assert item.obj is None
    assert item.data == data
    assert item.subject.startswith("/goby/grp%3B12/")


def test_opaque_payloads_are_not_changed() -> None:
    mapping = mapping_of(PortalRule(scheme="*", opaque=True, subject="/raw/{scheme}/{group}"))
    item = mapping.into_space(published("g", 1, "unknown.Message"), b"\xff")
    assert item == SpaceItem(subject="/raw/PROTOBUF/g", data=b"\xff")


def test_the_first_rule_counts() -> None:
    mapping = mapping_of(
        PortalRule(scheme="CSTR", group="a*", subject="/first"),
        PortalRule(scheme="CSTR", subject="/second"),
    )
    found = [mapping.into_space(published(group, 0, "CSTR"), b"x\0") for group in ("ab", "b", "ab")]
    assert [item.subject for item in found if item] == ["/first", "/second", "/first"]


def test_the_hold_is_never_mapped() -> None:
    mapping = mapping_of(PortalRule(scheme="*", opaque=True))
    group = "goby::zeromq::_internal_manager_request"
    assert mapping.into_space(published(group, 1, "x"), b"") is None


def test_what_cannot_be_mapped_is_counted_and_reported_once() -> None:
    mapping = mapping_of(
        PortalRule(scheme="PROTOBUF", group="keyed", type="fleet.Status", key=("id",)),
        PortalRule(scheme="PROTOBUF", key=()),
        PortalRule(scheme="JSON", object="Vessel"),
        PortalRule(scheme="*", subject="/" + "x" * 1015 + "/{group}"),
    )
    cases = [
        (published("g", 1, "not.Known"), b"", "no descriptor defines"),
        (published("g", 1, "fleet.Tree"), b"", "contains itself"),
        (published("g", 1, "fleet.Report"), b"\xff", "fleet.Report"),
        (published("g", 7, "t"), b"\0", "BSON"),
        (published("g", 7, "u"), encode_bson({"knots": 1}), "no field knots"),
        (published("g", 7, "v"), encode_bson({"name": "x"}), "mmsi: it is part of the key"),
        (published("long" * 9, 0, "CSTR"), b"x\0", "cannot be used as a subject"),
    ]
    for identifier, payload, _ in cases * 3:
        assert mapping.into_space(identifier, payload) is None
    events = mapping.take_events()
    assert len(events) == len(cases)
    for event, (_, _, fault) in zip(events, cases, strict=True):
        assert isinstance(event, NotMapped)
        assert fault in event.detail
    assert mapping.statistics().unmapped_count == 3 * len(cases)
    # None of them harms the others.
    assert mapping.into_space(published("g", 1, "fleet.Report"), report_bytes()) is not None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert min(MAPPED_NAME_COUNT_MAX, TROUBLE_COUNT_MAX) > 5
    monkeypatch.setattr(portal_mapping, "MAPPED_NAME_COUNT_MAX", 5)
    monkeypatch.setattr(portal_mapping, "TROUBLE_COUNT_MAX", 4)
    mapping = mapping_of(PortalRule(scheme="PROTOBUF"))
    for number in range(20):
        assert mapping.into_space(published(f"g{number}", 1, "no"), b"") is None
    assert len(mapping._routes) <= 5
    assert len(mapping.take_events()) == 4
    assert mapping.statistics().unmapped_count == 20


@given(st.sampled_from([0, 1, 2, 7, 99]), st.binary(max_size=40))
def test_any_payload_is_mapped_or_counted(scheme: int, payload: bytes) -> None:
    mapping = mapping_of(
        PortalRule(scheme="PROTOBUF"), PortalRule(scheme="JSON"), PortalRule(scheme="*")
    )
    item = mapping.into_space(published("g", scheme, "fleet.Report"), payload)
    assert (item is None) == (mapping.statistics().unmapped_count == 1)


# -- to the portal


def test_objects_become_messages() -> None:
    mapping = mapping_of(
        PortalRule(
            scheme="PROTOBUF",
            group="reports",
            type="fleet.Report",
            direction="both",
            object="Report",
            key=("name",),
        )
    )
    (source,) = mapping.sources
    assert source.struct is not None
    assert source.struct.name == "Report"
    item = mapping.into_space(published("reports", 1, "fleet.Report"), report_bytes())
    assert item is not None
    assert mapping.into_portal(source, "/Report/sub1", item.obj) == PortalItem(
        group="reports", scheme=1, type_name="fleet.Report", payload=report_bytes()
    )


def test_a_wild_card_selects_all_messages_that_can_be_mapped() -> None:
    mapping = mapping_of(
        PortalRule(scheme="PROTOBUF", group="all", type="fleet.*", direction="out")
    )
    assert [source.type_name for source in mapping.sources] == [
        "fleet.Position",
        "fleet.Report",
        "fleet.Status",
    ]
    assert len(mapping.take_events()) == 2  # Tree and Empty


def test_objects_become_json() -> None:
    mapping = mapping_of(
        PortalRule(
            scheme="JSON", group="ais", type="nlohmann::json", direction="out", object="Vessel"
        )
    )
    item = mapping.into_portal(mapping.sources[0], "/Vessel/5", TYPES.Vessel(mmsi=5, name="a"))
    assert item is not None
    assert (item.group, item.scheme, item.type_name) == ("ais", 7, "nlohmann::json")
    assert decode_bson(item.payload) == {"mmsi": 5, "name": "a"}


@pytest.mark.parametrize(
    ("scheme", "data", "payload"),
    [
        ("CSTR", b"hello", b"hello\0"),
        ("DCCL", b"\1", b"\1"),
        ("JSON", b'{"k": 5}', encode_bson({"k": 5})),
        ("450", b"", b""),
    ],
)
def test_bytes_become_payloads(scheme: str, data: bytes, payload: bytes) -> None:
    mapping = mapping_of(
        PortalRule(scheme=scheme, direction="both", subject="/to/{group}/{type}/now")
    )
    (source,) = mapping.sources
    assert source.pattern == "/to/*/*/now"
    type_name = "CSTR" if scheme == "CSTR" else "own::type"
    item = mapping.into_portal(source, f"/to/a%3Bb/{type_name.replace(':', '%3A')}/now", data)
    assert item is not None
    assert (item.group, item.type_name, item.payload) == ("a;b", type_name, payload)
    back = mapping.into_space(published(item.group, item.scheme, type_name), item.payload)
    assert back is not None
    assert back.data == data


def test_subjects_that_no_group_has_are_left_alone() -> None:
    mapping = mapping_of(
        PortalRule(scheme="CSTR", group="nav*", direction="both", subject="/to/{group}")
    )
    (source,) = mapping.sources
    for subject in ("/to/other", "/to/nav/more", "/elsewhere/nav"):
        assert mapping.into_portal(source, subject, b"x") is None
    assert mapping.statistics().unmapped_count == 0
    # A group with a slash would shift all parts of the identifier.
    assert mapping.into_portal(source, "/to/nav%2Fx", b"x") is None
    assert mapping.into_portal(source, "/to/nav%00x", b"x") is None
    assert mapping.statistics().unmapped_count == 2


def test_what_a_portal_cannot_have_is_counted() -> None:
    mapping = mapping_of(
        PortalRule(scheme="JSON", group="g", type="t", direction="out", subject="/json")
    )
    (source,) = mapping.sources
    for data in (b"no json", b"[1]", b'{"a": 1e999}' * 2, b"\xff"):
        assert mapping.into_portal(source, "/json", data) is None
    assert mapping.into_portal(source, "/json", b"{}", is_remove=True) is None
    found = mapping.statistics()
    assert (found.unmapped_count, found.removes_count, found.into_portal_count) == (4, 1, 0)
    assert len(mapping.take_events()) == 1


# -- loops


def test_publications_of_a_mapping_enter_no_space() -> None:
    mapping = mapping_of(PortalRule(scheme="*"))
    looped = published("g", 0, "CSTR", thread=MAPPING_THREAD)
    assert mapping.into_space(looped, b"x\0") is None
    assert mapping.statistics().returned_count == 1


def test_what_a_mapping_has_published_does_not_return() -> None:
    mapping = mapping_of(
        PortalRule(scheme="CSTR", group="a", subject="/x"),
        PortalRule(scheme="CSTR", group="b", subject="/x", direction="out"),
    )
    item = mapping.into_space(published("a", 0, "CSTR"), b"x\0")
    assert item is not None
    assert mapping.into_portal(mapping.sources[0], item.subject, item.data, is_own=True) is None
    assert mapping.statistics().returned_count == 1


@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=4), st.integers(0, 3))
def test_no_arrangement_of_mappings_makes_a_loop(portals: list[int], start: int) -> None:
    """Mappings of everything both ways, each between one of two portals and one of two spaces."""
    rule = PortalRule(scheme="CSTR", direction="both")
    mappings = [mapping_of(rule) for _ in portals]
    places = [(portal, number % 2) for number, portal in enumerate(portals)]
    waiting: list[tuple[str, int, Any]] = [("portal", start % 2, published("g", 0, "CSTR"))]
    count = 0
    while waiting:
        kind, place, what = waiting.pop()
        count += 1
        assert count < 100
        for mapping, (portal, space) in zip(mappings, places, strict=True):
            if kind == "portal" and portal == place:
                item = mapping.into_space(what, b"x\0")
                if item is not None:
                    waiting.append(("space", space, (item, mapping)))
            elif kind == "space" and space == place:
                update, origin = what
                (source,) = mapping.sources
                out = mapping.into_portal(
                    source, update.subject, update.data, is_own=origin is mapping
                )
                if out is not None:
                    thread = MAPPING_THREAD
                    waiting.append(("portal", portal, published("g", 0, "CSTR", thread=thread)))


# -- rules


@pytest.mark.parametrize(
    ("given_rule", "fault"),
    [
        ({"scheme": "XML"}, "neither one of"),
        ({"scheme": "CSTR", "group": "a/b"}, "slash"),
        ({"scheme": "CSTR", "type": ""}, "empty"),
        ({"scheme": "CSTR", "subject": "no"}, "begin with /"),
        ({"scheme": "CSTR", "subject": "/a/*"}, "wild card"),
        ({"scheme": "CSTR", "subject": "/x{group}"}, "braces"),
        ({"scheme": "CSTR", "object": "Vessel"}, "PROTOBUF or JSON"),
        ({"scheme": "PROTOBUF", "object": "Vessel"}, "one message"),
        ({"scheme": "JSON", "object": "Vessel", "key": ("mmsi",)}, "`key` and `cached`"),
        ({"scheme": "*", "direction": "out"}, "name a scheme"),
        ({"scheme": "CSTR", "direction": "out", "subject": "/x"}, "needs one group"),
        ({"scheme": "DCCL", "direction": "out", "group": "g", "subject": "/x"}, "needs one type"),
        ({"scheme": "JSON", "direction": "both", "group": "g", "object": "Vessel"}, "one type"),
    ],
)
def test_faulty_rules_are_refused(given_rule: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        PortalRule(**given_rule)


def test_rules_about_unknown_types_are_refused() -> None:
    with pytest.raises(SchemaCheckError, match=r"no descriptor defines the message x\.Y"):
        mapping_of(PortalRule(scheme="PROTOBUF", type="x.Y"))
    with pytest.raises(SchemaCheckError, match="there is no type Ship; there are: Vessel"):
        mapping_of(PortalRule(scheme="JSON", object="Ship"))


def test_a_portal_is_asked_for_no_more_than_the_rules_need() -> None:
    def levels(*rules: PortalRule) -> list[Any]:
        return mapping_of(*rules).levels

    one = PortalRule(scheme="CSTR", group="a")
    assert levels(one, PortalRule(scheme="JSON", group="a", type="t")) == [
        ("a", 0, None),
        ("a", 7, "t"),
    ]
    assert levels(one, PortalRule(scheme="*", group="a")) == [("a", None, None)]
    assert levels(one, PortalRule(scheme="*")) == [(None, None, None)]
    assert levels(PortalRule(scheme="CSTR", group="a", subject="/x", direction="out")) == []


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1))
def test_groups_survive_as_levels_of_a_subject(group: str) -> None:
    rule = CompiledRule(PortalRule(scheme="DCCL", direction="both"))
    subject = rule.subject_of(group, Scheme.DCCL, "a.B", is_bytes=True)
    assert subject.count("/") == 4
    assert rule.group_and_type_of(subject, "") == (group, "a.B")


# -- contents


def test_json_text_has_no_values_that_json_does_not_have() -> None:
    text = json_text({"a": float("nan"), "b": [float("-inf")], "c": b"\xff"})
    assert json.loads(text) == {"a": "nan", "b": ["-inf"], "c": "ff"}


@given(st.binary(max_size=20), st.sampled_from([0, 2, 6, 450]))
def test_bytes_survive_both_ways(data: bytes, scheme: int) -> None:
    payload = payload_of_bytes(scheme, data, is_opaque=False)
    assert bytes_of_payload(scheme, payload, is_opaque=False) == data
