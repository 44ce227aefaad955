"""What a reader with one type gets from values of another type."""

from __future__ import annotations

import pytest

from skerry.schema.check import define
from skerry.schema.model import FieldType, StructType
from skerry.schema.reading import Effect, reads

FINE, LOSES, BREAKS = Effect.FINE, Effect.LOSES, Effect.BREAKS

TYPES = """
enum Low { 1: a, 2: b }
enum More { 1: a, 2: b, 3: c }
enum Other { 1: x, 2: b }
enum High { 1: a, 300: z }
struct Small { 1: int32 n; }
struct Wide { 1: int64 n; }
struct Two { 1: int32 n; 2: string s; }
struct Named { 1: int32 m; }
"""


def type_of(text: str) -> FieldType:
    found = define(f"{TYPES}struct Holder {{ 1: {text} a; }}").types[-1]
    assert isinstance(found, StructType)
    return found.fields[0].type


@pytest.mark.parametrize(
    ("narrow", "wide", "narrow_reads_wide"),
    [
        ("int8", "int16", BREAKS),
        ("int32", "int64", BREAKS),
        ("uint8", "uint64", BREAKS),
        ("uint8", "int16", BREAKS),
        ("uint32", "int64", BREAKS),
        ("float16", "float32", BREAKS),
        ("float32", "float64", BREAKS),
        ("uuid", "bytes", BREAKS),
        ("Low", "More", BREAKS),
        ("vector<int8>", "vector<int16>", BREAKS),
        ("vector<Low>", "vector<More>", BREAKS),
    ],
)
def test_a_wide_reader_accepts_narrow_data_and_not_the_reverse(
    narrow: str, wide: str, narrow_reads_wide: Effect
) -> None:
    assert reads(type_of(wide), type_of(narrow))[0] == FINE
    assert reads(type_of(narrow), type_of(wide))[0] == narrow_reads_wide


@pytest.mark.parametrize(
    ("reader", "writer", "effect"),
    [
        ("int32", "uint32", BREAKS),
        ("uint32", "int32", BREAKS),
        ("uint64", "int8", BREAKS),
        ("float64", "int32", BREAKS),
        ("int32", "float64", BREAKS),
        ("bool", "uint8", BREAKS),
        ("string", "bytes", BREAKS),
        ("bytes", "string", BREAKS),
        ("bytes", "vector<uint8>", BREAKS),
        ("vector<uint8>", "bytes", BREAKS),
        ("vector<string>", "string", BREAKS),
        ("timepoint", "float32", LOSES),
        ("timepoint", "float64", LOSES),
        ("float64", "timepoint", LOSES),
        ("float32", "timepoint", BREAKS),
        ("duration", "timepoint", LOSES),
        ("duration", "int64", BREAKS),
        ("uint32", "property_set", LOSES),
        ("property_set", "uint32", LOSES),
        ("uint16", "property_set", BREAKS),
        ("int64", "property_set", LOSES),
        ("uint8", "Low", LOSES),
        ("int8", "Low", LOSES),
        ("uint8", "High", BREAKS),
        ("uint16", "High", LOSES),
        ("int8", "High", BREAKS),
        ("string", "Low", BREAKS),
        ("Low", "uint8", BREAKS),
        ("Low", "string", BREAKS),
        ("Low", "Small", BREAKS),
        ("Low", "Other", LOSES),
        ("Small", "Wide", BREAKS),
        ("Wide", "Small", FINE),
        ("Small", "Two", LOSES),
        ("Two", "Small", LOSES),
        ("Small", "Named", LOSES),
        ("Small", "Low", BREAKS),
        ("any", "instance_ref", BREAKS),
        ("any", "any", FINE),
        ("instance_ref", "instance_ref", FINE),
        ("instance_ref", "instance_ref<Small>", BREAKS),
        ("instance_ref<Small>", "instance_ref", BREAKS),
        ("instance_ref<Small>", "instance_ref<Wide>", LOSES),
        ("instance_ref<Small>", "instance_ref<Small>", FINE),
    ],
)
def test_reader_and_writer(reader: str, writer: str, effect: Effect) -> None:
    found, why = reads(type_of(reader), type_of(writer))
    assert found == effect
    assert why


def test_pairs_of_structs_are_compared_once() -> None:
    def ladder(prefix: str) -> StructType:
        rungs = f"struct {prefix}0 {{ 1: bool b; }}\n"
        for level in range(1, 16):
            fields = " ".join(f"{tag}: {prefix}{level - 1} f{tag};" for tag in range(1, 32))
            rungs += f"struct {prefix}{level} {{ {fields} }}\n"
        found = define(rungs).types[-1]
        assert isinstance(found, StructType)
        return found

    assert reads(ladder("A"), ladder("B"))[0] == FINE
