"""The columnar decoder returns the same values as the decoder of single payloads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.schema.model import StructType
from skerry.spark.lake.schema import UNKNOWN, payload_schema, typed_schema
from skerry.spark.source.columnar_decoder import decode_payloads
from skerry.spark.source.payload_decoder import WHOLE_TAG, decode_payload
from tests import strategies

TYPES = skerry.define_types("""
enum Kind { 1: cargo, 2: tanker, 3000: tug }
struct Mark { 1: int16 x; 2: vector<string> notes; }
struct Vessel {
    1: [key] uint32 mmsi;
    2: string name;
    3: float64 lat;
    4: timepoint seen;
    5: Kind kind;
    6: vector<float64> depths;
    7: vector<Mark> marks;
    8: uuid label;
    9: any load;
    10: instance_ref<Vessel> tow;
    24: bool is_open;
    31: uint64 large;
}
""")
Vessel: Any = TYPES.Vessel
READER = typed_schema([Vessel.descriptor]).reader


@st.composite
def cases(draw: st.DrawFn) -> tuple[StructType, list[bytes]]:
    """A struct and payloads of it, some of them damaged."""
    found = [t for t in draw(strategies.type_sets(count_max=4)) if isinstance(t, StructType)]
    struct = found[-1] if found else draw(strategies.struct_types())
    objects = draw(st.lists(strategies.objects_of(struct), max_size=5))
    return struct, [draw(damaged(obj.encode())) for obj in objects]


@st.composite
def damaged(draw: st.DrawFn, payload: bytes) -> bytes:
    """A payload with one thing done to it, or with nothing done to it."""
    data = bytearray(payload)
    place = draw(st.integers(0, max(len(data) - 1, 0)))
    how = draw(st.sampled_from(["leave", "leave", "change", "cut", "add", "insert", "delete"]))
    if how == "change" and data:
        data[place] = draw(st.integers(0, 255))
    elif how == "cut":
        del data[place:]
    elif how == "add":
        data += draw(st.binary(min_size=1, max_size=3))
    elif how == "insert":
        data[place:place] = draw(st.binary(min_size=1, max_size=4))
    elif how == "delete" and data:
        del data[place]
    return bytes(data)


def expected(reader: StructType, payloads: Sequence[bytes]) -> list[pa.Array]:
    schema = payload_schema(reader)
    rows = [decode_payload(reader, payload) for payload in payloads]
    arrays = [
        pa.array([values[index] for values, _ in rows], schema.field(index).type)
        for index in range(len(reader.fields))
    ]
    items = [list(unknown.items()) or None for _, unknown in rows]
    return [*arrays, pa.array(items, schema.field(UNKNOWN).type)]


def check(reader: StructType, payloads: Sequence[bytes]) -> None:
    schema = payload_schema(reader)
    # Not at the start of its buffers, as a part of a batch is not.
    column = pa.array([b"before", *payloads, b"behind"], pa.binary()).slice(1, len(payloads))
    found = decode_payloads(reader, column)
    assert found.schema == schema
    for name, got, want in zip(
        schema.names, found.columns, expected(reader, payloads), strict=True
    ):
        got.validate(full=True)
        assert got.type == want.type, name
        assert comparable(got) == comparable(want), name


def comparable(array: pa.Array) -> Any:
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return plain(array.to_pylist())


def plain(value: Any) -> Any:
    """A value that is equal to itself, and -0.0 to no other zero."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


@pytest.mark.slow
@settings(max_examples=60)
@given(case=cases())
def test_random_payloads_of_random_types_decode_alike(case: tuple[StructType, list[bytes]]) -> None:
    struct, payloads = case
    check(typed_schema([struct]).reader, payloads)


@pytest.mark.slow
@settings(max_examples=100)
@given(payloads=st.lists(st.binary(max_size=40), max_size=6))
def test_random_bytes_decode_alike(payloads: list[bytes]) -> None:
    check(READER, payloads)


@pytest.mark.slow
@settings(max_examples=50)
@given(data=st.data())
def test_rows_of_one_type_with_any_fields_in_any_order(data: st.DataObject) -> None:
    objects = data.draw(st.lists(strategies.objects_of(Vessel.descriptor), max_size=4))
    turned = typed_schema([StructType(name="Vessel", fields=Vessel.descriptor.fields[::-1])])
    payloads = [obj.encode() for obj in objects]
    check(READER, payloads)
    # The reader may have the fields in another order than the writer.
    check(turned.reader, payloads)


def test_a_malformed_row_does_not_affect_other_rows() -> None:
    good = Vessel(mmsi=1, name="a", depths=[1.0, 2.0], marks=[TYPES.Mark(x=1, notes=["n"])])
    # Malformed only at its end, when all columns have a value of it.
    bad = good.encode()[:-1] + b"\xff"
    more = Vessel(mmsi=2, kind=TYPES.Kind.tug, depths=[], large=2**63)
    check(READER, [good.encode(), bad, more.encode(), bad[:9], b"", good.encode()])


def test_vectors_of_many_elements_decode_alike() -> None:
    rows = [
        Vessel(mmsi=1, depths=[float(i) for i in range(500)]),
        Vessel(mmsi=2, depths=[1.0]),
        Vessel(mmsi=3, marks=[TYPES.Mark(x=i) for i in range(200)]),
        Vessel(mmsi=4),
    ]
    check(READER, [row.encode() for row in rows])
    # One of the numbers is not as wide as the others.
    check(READER, [rows[1].encode(), b"\xa1\x06\x82\xf9\x3c\x00\xfb" + bytes(8)])


def test_an_empty_column_decodes_to_no_rows() -> None:
    for column in (pa.array([], pa.binary()), pa.array([b"x"], pa.binary()).slice(1)):
        found = decode_payloads(READER, column)
        assert found.schema == payload_schema(READER)
        assert found.num_rows == 0


def test_offsets_outside_of_the_data_are_rejected() -> None:
    offsets = pa.array([0, 1, 99, 2], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"\xa0\xa0")])
    with pytest.raises(ValueError, match="offsets"):
        decode_payloads(READER, column, ["mmsi"])


def test_payloads_become_a_batch_with_a_column_for_each_field() -> None:
    rows = [Vessel(mmsi=7, kind=TYPES.Kind.tanker).encode(), Vessel(name="a").encode()]
    batch = decode_payloads(READER, pa.array(rows, pa.binary())).select(["mmsi", "name", "kind"])
    assert batch.to_pylist() == [
        {"mmsi": 7, "name": None, "kind": "tanker"},
        {"mmsi": None, "name": "a", "kind": None},
    ]


def test_selected_columns_equal_those_of_the_whole_batch() -> None:
    rows = [Vessel(mmsi=1, name="a", kind=TYPES.Kind.cargo).encode(), b"\xff", b"\xa1\x14\x00"]
    column = pa.array(rows, pa.binary())
    whole = decode_payloads(READER, column)
    some = decode_payloads(READER, column, ["unknown", "name"])
    assert some.schema.names == ["unknown", "name"]
    assert some.column("name").equals(whole.column("name"))
    assert some.column("unknown").to_pylist() == [None, [(WHOLE_TAG, b"\xff")], [(20, b"\x00")]]
    assert whole.column("unknown").equals(some.column("unknown"))
