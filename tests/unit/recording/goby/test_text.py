"""Entries of a Goby log as JSON and text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2
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
        # Names that the entry itself has as JSON.
        (entry(7, encode_bson({"_data_": 5})), {"_data_": encode_bson({"_data_": 5}).hex()}),
        (entry(7, encode_bson({"_type_": 5})), {"_data_": encode_bson({"_type_": 5}).hex()}),
        (entry(7, encode_bson({"_text_": "a"})), {"_text_": "a"}),
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


def any_of(name: str, data: bytes, levels: int = 1) -> bytes:
    """A message in a google.protobuf.Any, which is in as many others as `levels` says."""
    for _ in range(levels):
        data = any_pb2.Any(type_url=f"type.googleapis.com/{name}", value=data).SerializeToString()
        name = "google.protobuf.Any"
    return data


def with_any() -> ProtobufTypes:
    types = fleet()
    file = descriptor_pb2.FileDescriptorProto()
    any_pb2.DESCRIPTOR.CopyToProto(file)
    types.add_file(file.SerializeToString())
    return types


def test_a_contained_message_is_shown_by_the_descriptors_of_the_log() -> None:
    item = entry(1, any_of("fleet.Report", REPORT), "google.protobuf.Any")
    values = entry_values(item, with_any(), is_raw=False)
    assert values["name"] == "a"
    assert entry_of_values(values, with_any()) == item
    assert 'name: "a"' in entry_line(item, with_any())


@pytest.mark.parametrize(
    "data",
    [
        any_of("nobody.Knows", b"\1"),
        any_of("fleet.Report", b"\xff"),
        any_of("fleet.Report", REPORT, levels=2000),
    ],
    ids=["unknown", "damaged", "too deep"],
)
def test_a_contained_message_that_cannot_be_shown_is_hexadecimal(data: bytes) -> None:
    item = entry(1, data, "google.protobuf.Any")
    values = entry_values(item, with_any(), is_raw=False)
    assert values["_data_"] == data.hex()
    assert entry_of_values(values, with_any()) == item
    assert entry_line(item, with_any()).startswith("PROTOBUF | g | google.protobuf.Any | ")


def test_faulty_values_are_refused() -> None:
    with pytest.raises(DecodeError, match="not an object"):
        entry_of_values([], fleet())
