"""A `TypedSchema` as JSON text, for plans and for options of the data source."""

from __future__ import annotations

import json
from typing import Any

from skerry.errors import PipelineError
from skerry.schema.model import (
    SCALAR_KINDS,
    EnumElement,
    EnumType,
    Field,
    FieldType,
    RefType,
    ScalarType,
    StructType,
    VectorType,
)
from skerry.spark.lake.schema import TypedSchema


def schema_to_text(schema: TypedSchema) -> str:
    """The schema as one line of JSON."""
    values = {"fingerprints": list(schema.fingerprints), "type": _json(schema.reader)}
    return json.dumps(values, ensure_ascii=False)


def schema_from_text(text: str) -> TypedSchema:
    """The schema that `schema_to_text` wrote; PipelineError for any other text."""
    try:
        values = json.loads(text)
        reader = _type(values["type"])
        fingerprints = tuple(int(number) for number in values["fingerprints"])
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"not the schema of a type: {text[:80]!r}") from error
    if not isinstance(reader, StructType):
        raise PipelineError(f"not the schema of a struct: {text[:80]!r}")
    return TypedSchema(reader=reader, fingerprints=fingerprints)


def _json(type_: FieldType) -> Any:
    if isinstance(type_, ScalarType):
        return type_.name
    if isinstance(type_, VectorType):
        return {"vector": _json(type_.element)}
    if isinstance(type_, RefType):
        return {"ref": type_.target}
    if isinstance(type_, EnumType):
        return {"enum": type_.name, "elements": [[e.tag, e.name] for e in type_.elements]}
    return {
        "struct": type_.name,
        "fields": [[f.tag, f.name, f.is_key, _json(f.type)] for f in type_.fields],
    }


def _type(value: Any) -> FieldType:
    if isinstance(value, str):
        return ScalarType(SCALAR_KINDS[value])
    if "vector" in value:
        return VectorType(_type(value["vector"]))
    if "ref" in value:
        return RefType(value["ref"])
    if "enum" in value:
        return EnumType(
            name=value["enum"],
            elements=tuple(
                EnumElement(tag=tag, name=name, value=tag) for tag, name in value["elements"]
            ),
        )
    return StructType(
        name=value["struct"],
        fields=tuple(
            Field(tag=tag, name=name, type=_type(inner), is_key=is_key)
            for tag, name, is_key, inner in value["fields"]
        ),
    )
