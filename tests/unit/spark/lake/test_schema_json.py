"""Schemas as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from skerry.errors import PipelineError
from skerry.schema.model import NamedType, StructType
from skerry.spark.lake.schema import payload_schema, schema_from_text, schema_to_text, typed_schema
from tests import strategies


@settings(max_examples=40)
@given(strategies.type_sets(count_max=3))
def test_a_schema_is_restored_from_its_text(types: tuple[NamedType, ...]) -> None:
    for struct in types:
        if isinstance(struct, StructType):
            schema = typed_schema([struct])
            again = schema_from_text(schema_to_text(schema))
            assert again.fingerprints == schema.fingerprints
            assert payload_schema(again.reader) == payload_schema(schema.reader)
            assert schema_to_text(again) == schema_to_text(schema)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"type": "bool", "fingerprints": []}', '{"type": 5, "fingerprints": []}'],
)
def test_invalid_text_is_rejected_as_a_schema(text: str) -> None:
    with pytest.raises(PipelineError, match="not the schema"):
        schema_from_text(text)
