"""The default subject of an object: `/<Type>`, and one level for each key field in tag order."""

from __future__ import annotations

from urllib.parse import quote
from uuid import UUID

from skerry.codec.decoder import decode_value
from skerry.codec.encoder import encode_value
from skerry.codec.pieces import Pieces
from skerry.codec.plans import FieldPlan, StructPlan
from skerry.schema.model import Kind

__all__ = ["default_pattern", "default_subject"]

_DECIMAL = range(Kind.INT8, Kind.UINT64 + 1)


def default_subject(plan: StructPlan, pieces: Pieces) -> str:
    """Where an encoded object is published when its publisher names no other subject."""
    # A name from a stranger's descriptor may have any character, and so may be no level as it is.
    levels = ["/" + _text_level(plan.name)]
    levels += [_level(plan, field, pieces) for field in plan.keys]
    return "/".join(levels)


def default_pattern(plan: StructPlan) -> str:
    """The pattern of exactly the default subjects that objects of a type can have."""
    return "/" + _text_level(plan.name) + "/*" * len(plan.keys)


def _level(plan: StructPlan, field: FieldPlan, pieces: Pieces) -> str:
    raw = pieces.value(int(field.tag))
    if raw is None:
        # Only an object without its whole key gets here, and nobody may publish one.
        return "~f6"
    value, _ = decode_value(plan, field, raw, 0)
    kind = int(field.kind)
    if kind in _DECIMAL:
        return str(value)
    if kind == Kind.BOOL:
        return "true" if value else "false"
    if kind == Kind.ENUM:
        return _text_level(value.label)  # type: ignore[attr-defined]
    if isinstance(value, UUID):
        return str(value)
    if kind == Kind.STRING and isinstance(value, str):
        return _text_level(value)
    # The form on the wire may be another than the one that stands for the value.
    return "~" + encode_value(plan, field, value).hex()


def _text_level(value: str) -> str:
    """Percent-encoded, since some carriers are ASCII only and wild cards are never published."""
    data = value.encode("utf-8", "surrogateescape")
    if value == "...":
        return "".join(f"%{byte:02X}" for byte in data)
    # quote() leaves "~" alone, which here begins the hex form.
    return quote(data, safe="").replace("~", "%7E")
