"""The door to the decoder."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import skerry
from skerry.spark.lake.schema import payload_schema, typed_schema
from skerry.spark.source.decode import WHOLE, decode_payloads

TYPES = skerry.define_types("""
enum Kind { 1: cargo, 2: tanker }
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: Kind kind; }
""")
Vessel: Any = TYPES.Vessel
READER = typed_schema([Vessel.descriptor]).reader


def test_payloads_become_a_batch_with_a_column_for_each_field() -> None:
    rows = [Vessel(mmsi=7, kind=TYPES.Kind.tanker).encode(), Vessel(name="a").encode()]
    batch = decode_payloads(READER, pa.array(rows, pa.binary()))
    assert batch.schema == payload_schema(READER)
    assert batch.to_pylist() == [
        {"mmsi": 7, "name": None, "kind": "tanker", "unknown": None},
        {"mmsi": None, "name": "a", "kind": None, "unknown": None},
    ]


def test_only_the_named_columns_are_given_and_they_are_the_same() -> None:
    rows = [Vessel(mmsi=1, name="a", kind=TYPES.Kind.cargo).encode(), b"\xff", b"\xa1\x14\x00"]
    column = pa.array(rows, pa.binary())
    whole = decode_payloads(READER, column)
    some = decode_payloads(READER, column, ["unknown", "name"])
    assert some.schema.names == ["unknown", "name"]
    assert some.column("name").equals(whole.column("name"))
    assert some.column("unknown").to_pylist() == [None, [(WHOLE, b"\xff")], [(20, b"\x00")]]
    assert whole.column("unknown").equals(some.column("unknown"))
