"""Many payloads at once: every engine gives what the rules give."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.schema.model import StructType
from skerry.spark.lake.schema import UNKNOWN, payload_schema, typed_schema
from skerry.spark.source.decode import columnar
from skerry.spark.source.decode.exact import read_payload
from skerry.testing import strategies


def plain_twin() -> ModuleType:
    """The engine in numpy, which in the compiled build lies beside the other and is not used."""
    path = Path(columnar.__file__).parent / "columnar.py"
    spec = importlib.util.spec_from_file_location("plain_columnar", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ENGINES = [columnar] if columnar.__file__.endswith("columnar.py") else [columnar, plain_twin()]
engines = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)

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
    rows = [read_payload(reader, payload) for payload in payloads]
    arrays = [
        pa.array([values[index] for values, _ in rows], schema.field(index).type)
        for index in range(len(reader.fields))
    ]
    items = [list(unknown.items()) or None for _, unknown in rows]
    return [*arrays, pa.array(items, schema.field(UNKNOWN).type)]


def check(engine: Any, reader: StructType, payloads: Sequence[bytes]) -> None:
    schema = payload_schema(reader)
    # Not at the start of its buffers, as a part of a batch is not.
    column = pa.array([b"before", *payloads, b"behind"], pa.binary()).slice(1, len(payloads))
    found = engine.decode(reader, column, schema.names)
    for name, got, want in zip(schema.names, found, expected(reader, payloads), strict=True):
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


@engines
@pytest.mark.slow
@settings(max_examples=60)
@given(case=cases())
def test_random_payloads_of_random_types(engine: Any, case: tuple[StructType, list[bytes]]) -> None:
    struct, payloads = case
    check(engine, typed_schema([struct]).reader, payloads)


@engines
@pytest.mark.slow
@settings(max_examples=100)
@given(payloads=st.lists(st.binary(max_size=40), max_size=6))
def test_random_bytes(engine: Any, payloads: list[bytes]) -> None:
    check(engine, READER, payloads)


@engines
@pytest.mark.slow
@settings(max_examples=50)
@given(data=st.data())
def test_rows_of_one_type_with_any_fields_in_any_order(engine: Any, data: st.DataObject) -> None:
    objects = data.draw(st.lists(strategies.objects_of(Vessel.descriptor), max_size=4))
    turned = typed_schema([StructType(name="Vessel", fields=Vessel.descriptor.fields[::-1])])
    payloads = [obj.encode() for obj in objects]
    check(engine, READER, payloads)
    # The definitions met so far may have the fields in another order than a writer.
    check(engine, turned.reader, payloads)


@engines
def test_a_bad_row_does_no_harm_to_its_neighbours(engine: Any) -> None:
    good = Vessel(mmsi=1, name="a", depths=[1.0, 2.0], marks=[TYPES.Mark(x=1, notes=["n"])])
    # Wrong only at its very end, when all columns have something of it.
    bad = good.encode()[:-1] + b"\xff"
    more = Vessel(mmsi=2, kind=TYPES.Kind.tug, depths=[], large=2**63)
    check(engine, READER, [good.encode(), bad, more.encode(), bad[:9], b"", good.encode()])


@engines
def test_vectors_of_many_elements(engine: Any) -> None:
    rows = [
        Vessel(mmsi=1, depths=[float(i) for i in range(500)]),
        Vessel(mmsi=2, depths=[1.0]),
        Vessel(mmsi=3, marks=[TYPES.Mark(x=i) for i in range(200)]),
        Vessel(mmsi=4),
    ]
    check(engine, READER, [row.encode() for row in rows])
    # One of the numbers is not as wide as the others.
    check(engine, READER, [rows[1].encode(), b"\xa1\x06\x82\xf9\x3c\x00\xfb" + bytes(8)])


@engines
def test_no_rows_at_all(engine: Any) -> None:
    for column in (pa.array([], pa.binary()), pa.array([b"x"], pa.binary()).slice(1)):
        found = engine.decode(READER, column, payload_schema(READER).names)
        assert [len(array) for array in found] == [0] * (len(READER.fields) + 1)


@engines
def test_offsets_that_lead_elsewhere_are_refused(engine: Any) -> None:
    offsets = pa.array([0, 1, 99, 2], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 3, [None, offsets, pa.py_buffer(b"\xa0\xa0")])
    with pytest.raises(ValueError, match="lead elsewhere"):
        engine.decode(READER, column, ["mmsi"])
