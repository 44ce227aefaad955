"""Entries of a Goby log as JSON and text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.codec.bson import encode_bson
from skerry.errors import DecodeError
from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes
from skerry.recording.goby.entries import GobyLogEntry
from skerry.recording.goby.text import entry_line, entry_of_values, entry_values
from tests.unit.protocol.portal.mapping.descriptors import fleet, message

REPORT = message("Report", 'name: "a" late: 3').SerializeToString()


def entry(scheme: int, data: bytes, type_name: str = "t") -> GobyLogEntry:
    return GobyLogEntry(scheme=scheme, group="g", type_name=type_name, time_us=5, data=data)


def test_an_entry_becomes_a_line() -> None:
    line = entry_line(entry(1, REPORT, "fleet.Report"), fleet())
    assert line == (
        'PROTOBUF | g | fleet.Report | 1970-01-01T00:00:00.000005000Z | name: "a" late: 3'
    )
    assert entry_line(entry(0, b"\xff\0"), fleet()).endswith(r"| \xff")


@pytest.mark.parametrize(
    ("given_entry", "content"),
    [
        (entry(0, b"hi\0"), {"_text_": "hi"}),
        (entry(0, b"hi"), {"_data_": "6869"}),
        (entry(1, REPORT, "fleet.Report"), {"name": "a", "late": 3}),
        (entry(1, b"\1", "unknown"), {"_data_": "01"}),
        (entry(7, encode_bson({"k": 5})), {"k": 5}),
        (entry(450, b"\1"), {"_data_": "01"}),
    ],
)
def test_an_entry_becomes_json_and_back(given_entry: GobyLogEntry, content: Any) -> None:
    values = entry_values(given_entry, fleet(), is_raw=False)
    assert content.items() <= values.items()
    assert entry_of_values(json.loads(json.dumps(values)), fleet()) == given_entry


@given(st.sampled_from([0, 1, 2, 7, 99]), st.binary(max_size=30))
def test_raw_values_have_any_payload(scheme: int, data: bytes) -> None:
    item = entry(scheme, data, "fleet.Report")
    types = ProtobufTypes()
    assert entry_of_values(entry_values(item, types, is_raw=True), types) == item
    entry_line(item, types)
    json.dumps(entry_values(item, types, is_raw=False), allow_nan=False)


def test_faulty_values_are_refused() -> None:
    with pytest.raises(DecodeError, match="not an object"):
        entry_of_values([], fleet())
