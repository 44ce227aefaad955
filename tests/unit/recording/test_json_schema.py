"""JSON schemas of types, for viewers."""

from __future__ import annotations

import json
from typing import Any

from skerry.objects.typeset import define_types
from skerry.recording.json_rows import FACT_NAMES, json_schema

TYPES = define_types(
    "enum Color { 1: red, 2: green }\n"
    "struct Inner { 1: uint8 n; }\n"
    "struct All { 1: bool b; 2: int64 i; 3: float32 f; 4: string s; 5: bytes d; 6: uuid u;\n"
    " 7: timepoint t; 8: duration du; 9: property_set p; 10: any a; 11: instance_ref r;\n"
    " 12: Color c; 13: Inner n; 14: vector<Inner> v; 15: float16 h; 16: steady_timepoint st; }"
)


def test_every_kind_of_field_has_a_schema() -> None:
    schema: dict[str, Any] = json_schema(TYPES.All.descriptor)
    assert schema["title"] == "All"
    assert schema["type"] == "object"
    kinds = {name: found["type"] for name, found in schema["properties"].items() if name[0] != "_"}
    assert kinds == {
        "b": "boolean",
        "i": "integer",
        "f": "number",
        "s": "string",
        "d": "string",
        "u": "string",
        "t": "number",
        "du": "number",
        "p": "integer",
        "a": "object",
        "r": "object",
        "c": "string",
        "n": "object",
        "v": "array",
        "h": "number",
        "st": "number",
    }
    assert schema["properties"]["c"]["enum"] == ["red", "green"]
    assert schema["properties"]["v"]["items"]["properties"]["n"]["maximum"] == 255
    json.dumps(schema)


def test_schema_has_the_facts_of_a_row() -> None:
    properties = json_schema(TYPES.Inner.descriptor)["properties"]
    assert set(FACT_NAMES) - set(properties) == {"_key"}
    assert properties["_time_ns"] == {"type": "integer"}
    assert properties["_subject"] == {"type": "string"}
