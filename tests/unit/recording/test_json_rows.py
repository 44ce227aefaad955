"""Rows as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from skerry import cbor
from skerry.codec.envelope import GAP, REMOVE, Update
from skerry.objects.base import key_of
from skerry.objects.typeset import define_types
from skerry.recording.gaps import Gap, gap_update
from skerry.recording.json_rows import FACT_NAMES, json_row, time_text

UpdateOf = Callable[..., Update]
TYPES = define_types(
    "enum Color { 1: red }\n"
    "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: Color color; }\n"
    "struct Pair { 1: [key] string a; 2: [key] string b; }\n"
    "struct Clock { 1: uint32 count; }"
)


def test_fields_are_named_and_facts_begin_with_an_underscore(update_of: UpdateOf) -> None:
    vessel = TYPES.Vessel(mmsi=7, name="Ann", color=TYPES.Color.red)
    update = update_of(7, payload=vessel.encode(), present=0b11110, key=key_of(vessel))
    row = json_row(update, TYPES.Vessel.descriptor)
    assert row == {
        "mmsi": 7,
        "name": "Ann",
        "lat": None,
        "color": "red",
        "_operation": "update",
        "_type": "Vessel",
        "_key": 7,
        "_subject": "/Vessel/7",
        "_space": "local",
        "_time": "1970-01-01T00:00:00.000001007Z",
        "_time_ns": 1007,
        "_sent_ns": 907,
        "_sender": 3,
        "_node": -9,
        "_sequence": 7,
        "_position": 7,
        "_source": "access",
    }
    assert set(FACT_NAMES) <= row.keys()
    json.dumps(row, allow_nan=False)


def test_fields_that_the_type_does_not_have_are_shown_by_tag(update_of: UpdateOf) -> None:
    payload = cbor.dumps({1: 7, 2: "Ann", 9: "x"})
    row = json_row(update_of(7, payload=payload, present=0b1000000110), TYPES.Vessel.descriptor)
    assert row["name"] == "Ann"
    assert row["_unknown"] == {"9": "6178"}


def test_key_of_several_fields_is_a_list_and_of_none_the_empty_one(update_of: UpdateOf) -> None:
    pair = TYPES.Pair(a="x", b="y")
    row = json_row(update_of(payload=pair.encode(), present=6), TYPES.Pair.descriptor)
    assert row["_key"] == ["x", "y"]
    clock = TYPES.Clock(count=1)
    row = json_row(update_of(payload=clock.encode(), present=2), TYPES.Clock.descriptor)
    assert row["_key"] == []


def test_payload_of_an_unknown_type_is_shown_as_bytes(update_of: UpdateOf) -> None:
    row = json_row(update_of(payload=b"\xa0", key=b"\x80", sent_ns=-1), None)
    assert (row["_payload"], row["_key"], row["_sent_ns"]) == ("a0", "80", None)


def test_payload_that_does_not_decode_is_shown_as_bytes(update_of: UpdateOf) -> None:
    row = json_row(update_of(payload=b"\xff"), TYPES.Vessel.descriptor)
    assert row["_payload"] == "ff"
    assert "Vessel" in row["_fault"]


def test_removal_has_its_key(update_of: UpdateOf) -> None:
    vessel = TYPES.Vessel(mmsi=7)
    update = update_of(operation=REMOVE, payload=vessel.encode(), present=2)
    row = json_row(update, TYPES.Vessel.descriptor)
    assert (row["_operation"], row["_key"], row["mmsi"]) == ("remove", 7, 7)


def test_gap_has_its_facts(update_of: UpdateOf) -> None:
    gap = Gap(count=5, first=1, stop=6, reason="disk full", first_ns=8, last_ns=9)
    row = json_row(gap_update(gap, space="local"), None)
    assert row["_operation"] == "gap"
    assert [row[name] for name in ("_count", "_first", "_stop", "_first_ns", "_last_ns")] == [
        5,
        1,
        6,
        8,
        9,
    ]
    assert row["_reason"] == "disk full"
    odd = json_row(update_of(operation=GAP, payload=b"\xff"), None)
    assert odd["_payload"] == "ff"


def test_operation_of_a_later_version_is_shown_as_its_number(update_of: UpdateOf) -> None:
    assert json_row(update_of(operation=9), None)["_operation"] == 9


def test_instants_are_exact_to_the_nanosecond() -> None:
    assert time_text(1_763_215_387_000_000_001) == "2025-11-15T14:03:07.000000001Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999999999Z"
    assert time_text(2**63 - 1) == "2262-04-11T23:47:16.854775807Z"
