"""A schema over all definitions of a type as JSON text, to be kept beside tables and to travel."""

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

__all__ = ["schema_from_text", "schema_to_text"]


def schema_to_text(schema: TypedSchema) -> str:
    """The schema as one line of JSON."""
    plain = {"fingerprints": list(schema.fingerprints), "type": _plain(schema.reader)}
    return json.dumps(plain, ensure_ascii=False)


def schema_from_text(text: str) -> TypedSchema:
    """The schema that `schema_to_text` wrote; PipelineError if it is something else."""
    try:
        plain = json.loads(text)
        reader = _type(plain["type"])
        fingerprints = tuple(int(number) for number in plain["fingerprints"])
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"this is no schema of a type: {text[:80]!r}") from error
    if not isinstance(reader, StructType):
        raise PipelineError(f"this is no schema of a struct: {text[:80]!r}")
    return TypedSchema(reader=reader, fingerprints=fingerprints)


def _plain(type_: FieldType) -> Any:
    if isinstance(type_, ScalarType):
        return type_.name
    if isinstance(type_, VectorType):
        return {"vector": _plain(type_.element)}
    if isinstance(type_, RefType):
        return {"ref": type_.target}
    if isinstance(type_, EnumType):
        return {"enum": type_.name, "elements": [[e.tag, e.name] for e in type_.elements]}
    return {
        "struct": type_.name,
        "fields": [[f.tag, f.name, f.is_key, _plain(f.type)] for f in type_.fields],
    }


def _type(plain: Any) -> FieldType:
    if isinstance(plain, str):
        return ScalarType(SCALAR_KINDS[plain])
    if "vector" in plain:
        return VectorType(_type(plain["vector"]))
    if "ref" in plain:
        return RefType(plain["ref"])
    if "enum" in plain:
        return EnumType(
            name=plain["enum"],
            elements=tuple(
                EnumElement(tag=tag, name=name, value=tag) for tag, name in plain["elements"]
            ),
        )
    return StructType(
        name=plain["struct"],
        fields=tuple(
            Field(tag=tag, name=name, type=_type(inner), is_key=is_key)
            for tag, name, is_key, inner in plain["fields"]
        ),
    )
