"""Types as columns, over all definitions a type has had."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry.errors import PipelineError
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import Field, Kind, ScalarType, StructType, VectorType
from skerry.schema.union import unite_deep
from skerry.spark.lake.schema import (
    ENVELOPE,
    RAW,
    arrow_type,
    payload_schema,
    spark_schema,
    typed_schema,
)


def defined(*fields: str, name: str = "T", before: str = "") -> StructType:
    body = "".join(f"{field};" for field in fields)
    types = skerry.define_types(f"{before} struct {name} {{ {body} }}")
    struct: StructType = types[name].descriptor
    return struct


def columns(*structs: StructType) -> dict[str, str]:
    schema = payload_schema(typed_schema(structs).reader)
    return {field.name: str(field.type) for field in schema if field.name != "unknown"}


def test_every_kind_has_a_column() -> None:
    kinds = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 string bytes"
    others = "uuid timepoint steady_timepoint duration property_set any instance_ref float16"
    fields = [
        f"{tag}: {kind} f{tag}" for tag, kind in enumerate(f"{kinds} {others}".split(), start=1)
    ]
    assert list(columns(defined(*fields)).values()) == [
        *("bool", "int8", "int16", "int32", "int64", "int16", "int32", "int64"),
        *("decimal128(20, 0)", "float", "double", "string", "binary", "string"),
        *("timestamp[us, tz=UTC]", "double", "double", "int64"),
        "struct<type: string, payload: binary>",
        "struct<type: string, key: binary>",
        "float",
    ]


def test_vectors_structs_and_enums_have_columns() -> None:
    before = "enum E { 1: a } struct In { 1: int32 x; 2: vector<E> es; }"
    assert columns(defined("1: vector<In> ins", "2: E e", before=before)) == {
        "ins": "list<element: struct<x: int32, es: list<element: string>>>",
        "e": "string",
    }


def test_spark_has_the_same_columns() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    struct = defined("1: vector<uint64> a", "2: timepoint b", "3: any c")
    for schema in (RAW, ENVELOPE, typed_schema([struct]).columns):
        # What Spark compares the batches with that a source gives it.
        assert to_arrow_schema(spark_schema(schema), timezone="UTC") == schema


def test_a_new_field_is_a_new_column_and_a_removed_one_keeps_its_own() -> None:
    old = defined("1: [key] uint32 id", "2: string name")
    new = defined("1: [key] uint32 id", "3: bool is_open")
    assert list(columns(old, new)) == ["id", "name", "is_open"]


def test_a_renamed_field_keeps_its_column_and_the_column_its_first_name() -> None:
    old = defined("1: [key] uint32 id", "2: string name")
    renamed = defined("1: [key] uint32 id", "2: string title", "3: int8 name")
    assert columns(old, renamed) == {"id": "int64", "name": "string", "name_": "int8"}


@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        ("int8", "int32", "int32"),
        ("int64", "int16", "int64"),
        ("uint8", "uint16", "int32"),
        ("uint32", "uint64", "decimal128(20, 0)"),
        ("int8", "uint8", "int16"),
        ("uint32", "int8", "int64"),
        ("float32", "float64", "double"),
        ("vector<int8>", "vector<int16>", "list<element: int16>"),
    ],
)
def test_a_number_that_became_wider_makes_the_column_wider(
    first: str, second: str, column: str
) -> None:
    assert columns(defined(f"1: {first} x"), defined(f"1: {second} x")) == {"x": column}
    assert columns(defined(f"1: {second} x"), defined(f"1: {first} x")) == {"x": column}


KINDS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "string", "bytes", "uuid", "timepoint"),
    *("steady_timepoint", "duration", "property_set", "any", "instance_ref<R>"),
    *("E", "F", "S", "vector<int32>", "vector<int64>", "vector<S>", "vector<string>"),
]


def test_definitions_that_a_node_serves_as_one_type_share_a_table() -> None:
    parts = "enum E { 1: a } enum F { 2: b } struct S { 1: int32 x; }"
    parts += "struct R { 1: [key] int32 x; }"
    made = {kind: defined("1: [key] int32 id", f"2: {kind} v", before=parts) for kind in KINDS}
    apart = []
    for (first, old), (second, new) in product(made.items(), made.items()):
        if isinstance(unite_deep(old, new), StructType):
            try:
                typed_schema([old, new])
            except PipelineError:
                apart.append((first, second))
    assert apart == [("uuid", "bytes")], "a column of UUIDs does not hold any bytes"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("timepoint", "float64"),
        ("float64", "duration"),
        ("bytes", "uuid"),
        ("uint32", "property_set"),
    ],
)
def test_kinds_with_equal_bytes_are_read_by_the_first_one(first: str, then: str) -> None:
    made = [defined(f"1: {kind} v") for kind in (first, then)]
    assert typed_schema(made).reader.field("v").type.name == first


def test_elements_of_an_enum_add_up_by_tag_and_the_newest_name_counts() -> None:
    old = defined("1: E e", before="enum E { 1: a, 2: b }")
    new = defined("1: E e", before="enum E { 2: bee, 3: c }")
    reader: Any = typed_schema([old, new]).reader
    elements = {element.tag: element.name for element in reader.field("e").type.elements}
    assert elements == {1: "a", 2: "bee", 3: "c"}


def test_structs_inside_add_up_by_tag_too() -> None:
    old = defined("1: In i", before="struct In { 1: int8 x; }")
    new = defined("1: In i", before="struct In { 1: int16 ex; 2: string y; }")
    assert columns(old, new) == {"i": "struct<x: int16, y: string>"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("int32", "string"),
        ("int32", "float64"),
        ("uint64", "int64"),
        ("timepoint", "int64"),
        ("uuid", "bytes"),
        ("vector<int32>", "int32"),
        ("instance_ref", "instance_ref<T>"),
        ("any", "bytes"),
        ("E", "uint32"),
        ("In", "E"),
    ],
)
def test_incompatible_definitions_are_rejected_and_both_are_named(first: str, second: str) -> None:
    before = "enum E { 1: a } struct In { 1: int8 x; }"
    old = defined(f"2: {first} x", "1: [key] int8 k", before=before)
    new = defined(f"2: {second} ex", "1: [key] int8 k", before=before)
    with pytest.raises(PipelineError) as caught:
        typed_schema([old, new])
    message = str(caught.value)
    assert str(fingerprint(old)) in message
    assert str(fingerprint(new)) in message
    assert f"{first} x" in message
    assert f"{second} ex" in message
    assert str(fingerprint(new)) in (caught.value.hint or "")


def test_another_key_does_not_fit() -> None:
    old = defined("1: [key] uint32 id", "2: uint32 x")
    new = defined("1: [key] uint32 id", "2: [key] uint32 x")
    with pytest.raises(PipelineError, match=r"tags \[1\] are the key of one, \[1, 2\]"):
        typed_schema([old, new])


def test_the_same_definition_again_changes_nothing() -> None:
    struct = defined("1: int8 x")
    schema = typed_schema([struct])
    assert schema.extended([struct]) is schema


def test_names_that_spark_or_tables_cannot_have_are_changed() -> None:
    names = ["Time_NS", "lat", "Lat", "a b.c", "unknown", "unknown_"]
    fields = tuple(
        Field(tag=tag, name=name, type=ScalarType(Kind.BOOL))
        for tag, name in enumerate(names, start=1)
    )
    struct = StructType(name="T", fields=fields)
    assert list(columns(struct)) == ["Time_NS_", "lat", "Lat_", "a_b_c", "unknown_", "unknown__"]


def test_a_struct_without_fields_has_no_column() -> None:
    empty = StructType(name="Empty", fields=())
    around = StructType(name="Around", fields=(Field(tag=1, name="in", type=empty),))
    fields = (
        Field(tag=1, name="a", type=VectorType(around)),
        Field(tag=2, name="b", type=ScalarType(Kind.BOOL)),
    )
    assert list(columns(StructType(name="T", fields=fields))) == ["b"]


def test_the_column_type_of_a_field_alone() -> None:
    assert arrow_type(ScalarType(Kind.UINT8)) == pa.int16()
