"""The union for reading rows of several definitions."""

from __future__ import annotations

from skerry.objects.typeset import define_types
from skerry.recording.unions import united_types
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import EnumType, StructType


def struct(text: str, name: str = "Vessel") -> StructType:
    found = define_types(text)[name].descriptor
    assert isinstance(found, StructType)
    return found


def united(*types: StructType) -> list[StructType]:
    found = united_types({fingerprint(type_): type_ for type_ in types})
    return [found[fingerprint(type_)] for type_ in types]


def test_a_single_definition_is_its_own_union() -> None:
    type_ = struct("struct Vessel { 1: [key] uint32 mmsi; }")
    assert united(type_) == [type_]


def test_compatible_definitions_are_read_by_one_with_all_fields_and_elements() -> None:
    old = struct(
        "enum Kind { 1: tug } struct Vessel { 1: [key] uint32 id; 2: int16 v; 3: Kind k; }"
    )
    new = struct(
        "enum Kind { 1: tug, 2: sub } struct Inner { 1: string s; }"
        "struct Vessel { 1: [key] uint32 id; 2: int64 v; 3: Kind k; 4: vector<Inner> more; }"
    )
    first, second = united(old, new)
    assert first is second
    assert [(f.tag, f.type.name) for f in first.fields][1:] == [
        (2, "int64"),
        (3, "Kind"),
        (4, "vector<Inner>"),
    ]
    kind = first.field("k").type
    assert isinstance(kind, EnumType)
    assert [element.name for element in kind.elements] == ["tug", "sub"]


def test_incompatible_definitions_stay_separate_and_a_third_joins_the_compatible_one() -> None:
    number = struct("struct Vessel { 1: [key] uint32 id; 2: int32 v; }")
    text = struct("struct Vessel { 1: [key] uint32 id; 2: string v; }")
    more = struct("struct Vessel { 1: [key] uint32 id; 2: string v; 3: bool b; }")
    found = united(number, text, more)
    assert found[0] == number
    assert found[1] is found[2] == more


def test_nested_types_are_united_across_all_types() -> None:
    old = struct("enum Kind { 1: tug } struct Vessel { 1: [key] uint32 id; 2: Kind k; }")
    port = struct("enum Kind { 2: sub } struct Port { 1: [key] uint32 id; 2: Kind k; }", "Port")
    vessel, harbour = united(old, port)
    assert vessel.field("k").type is harbour.field("k").type


def test_structs_with_incompatible_nested_types_stay_separate() -> None:
    inner = "struct In {{ 1: {} x; }} struct Vessel {{ 1: [key] uint32 id; 2: In part; }}"
    number, text = struct(inner.format("int32")), struct(inner.format("string"))
    assert united(number, text) == [number, text]
