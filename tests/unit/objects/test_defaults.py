"""Defaults of fields: text of the type language and JSON of objects."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.objects.defaults import default_text, plain_default
from skerry.schema.model import FieldType, Kind, ScalarType, VectorType

PART = skerry.define_types("struct Part { 1: bytes raw; 2: timepoint seen; 3: string name; }").Part

CASES: list[tuple[FieldType, str, Any]] = [
    (ScalarType(Kind.UINT8), "7", 7),
    (ScalarType(Kind.STRING), '"ä\\n"', "ä\n"),
    (ScalarType(Kind.BYTES), '"00ff"', "AP8="),
    (ScalarType(Kind.TIMEPOINT), "1.5", 1.5),
    (VectorType(ScalarType(Kind.BYTES)), '["00", "ff"]', ["AA==", "/w=="]),
    (PART.descriptor, '{"raw": "00ff", "name": "00ff"}', {"raw": "AP8=", "name": "00ff"}),
]


@pytest.mark.parametrize(("type_", "text", "plain"), CASES)
def test_text_and_plain_value_are_turned_into_each_other(
    type_: FieldType, text: str, plain: Any
) -> None:
    assert plain_default(type_, text) == plain
    assert default_text(type_, plain) == text


@pytest.mark.parametrize(
    "type_", [ScalarType(Kind.TIMEPOINT), VectorType(ScalarType(Kind.TIMEPOINT))]
)
def test_timepoint_may_be_written_as_text(type_: FieldType) -> None:
    text = '"1970-01-01T01:00:01.5+01:00"'
    if isinstance(type_, VectorType):
        assert plain_default(type_, f"[{text}]") == [1.5]
    else:
        assert plain_default(type_, text) == 1.5


def test_new_objects_have_what_the_type_file_says() -> None:
    types = skerry.define_types(
        "struct A { 1: [default='\"0a0b\"'] bytes raw;"
        " 2: [default='\"1970-01-01T00:00:02Z\"'] timepoint seen; }"
    )
    assert (types.A().raw, types.A().seen) == (b"\x0a\x0b", 2.0)


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting value"):
        plain_default(ScalarType(Kind.UINT8), "seven")
