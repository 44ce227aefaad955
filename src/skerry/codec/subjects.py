"""The default subject of an object: `/<Type>`, and one level for each key field in tag order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote_to_bytes
from uuid import UUID

from skerry.codec.decoder import decode_value
from skerry.codec.encoder import encode_value, head
from skerry.codec.pieces import Pieces
from skerry.codec.plans import FieldPlan, StructPlan
from skerry.errors import EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX, SUBJECT_CHAR_COUNT_MAX
from skerry.schema.model import Kind

NO_KEY: Final = b"\xff"
"""Bytes that no canonical key begins with."""

_LEVEL_BYTES_MAX: Final = SUBJECT_CHAR_COUNT_MAX + 1

_DECIMAL = range(Kind.INT8, Kind.UINT64 + 1)


def default_subject(plan: StructPlan, pieces: Pieces) -> str:
    """The subject of an encoded object if its publisher names no other."""
    # A name in the descriptor of a peer may have characters that are not allowed in a level.
    levels = ["/" + text_level(plan.name)]
    levels += [_level(plan, field, pieces) for field in plan.keys]
    return "/".join(levels)


def short_subject(plan: StructPlan, pieces: Pieces) -> str:
    """The default subject with long levels shortened, for comparison with patterns only.

    A shortened level is still longer than any level of a pattern, so the same patterns select it.
    Writing the whole of a key of megabytes would take a second.
    """
    levels = ["/" + text_level(plan.name)]
    levels += [_level(plan, field, pieces, _LEVEL_BYTES_MAX) for field in plan.keys]
    return "/".join(levels)


def default_pattern(plan: StructPlan) -> str:
    """The pattern of exactly the default subjects that objects of a type can have."""
    return "/" + text_level(plan.name) + "/*" * len(plan.keys)


def key_parts(plan: StructPlan, levels: Sequence[str | None]) -> list[bytes]:
    """Parts that the canonical keys of all objects with these subject levels have in common.

    A level of None matches any. Each such key begins with the first part and contains the others.
    Other keys may do so, too. This finds a few objects among many by their subjects, without making
    the subjects of all. The result has NO_KEY if such an object cannot exist.
    """
    parts = [head(0x80, len(plan.keys))]
    is_start = True
    for field, level in zip(plan.keys, levels, strict=False):
        if level is None:
            is_start = False
            continue
        try:
            value = _value_of_level(plan, field, level)
        except (EncodeError, ValueError):
            return [NO_KEY]
        if is_start:
            parts[0] += value
        else:
            parts.append(value)
    return parts


def text_level(value: str) -> str:
    """A text as one level of a subject.

    It is percent-encoded, since some wires are ASCII only and wild cards cannot be published.
    """
    data = value.encode("utf-8", "surrogateescape")
    if value == "...":
        return "".join(f"%{byte:02X}" for byte in data)
    # quote() does not encode "~", which begins the hexadecimal form here.
    return quote(data, safe="").replace("~", "%7E")


def _level(
    plan: StructPlan, field: FieldPlan, pieces: Pieces, bytes_max: int = PAYLOAD_BYTES_MAX
) -> str:
    raw = pieces.value(int(field.tag))
    if raw is None:
        # Only for an object with an incomplete key, which cannot be published.
        return "~f6"
    if len(raw) > bytes_max:
        # Any text of that length is suitable if it is not a wild card.
        return "~" + raw[:bytes_max].hex()
    value, _ = decode_value(plan, field, raw, 0)
    return _level_of(plan, field, value)


def _level_of(plan: StructPlan, field: FieldPlan, value: object) -> str:
    kind = int(field.kind)
    if kind in _DECIMAL:
        return str(value)
    if kind == Kind.BOOL:
        return "true" if value else "false"
    if kind == Kind.ENUM:
        return text_level(value.label)  # type: ignore[attr-defined]
    if isinstance(value, UUID):
        return str(value)
    if kind == Kind.STRING and isinstance(value, str):
        return text_level(value)
    # The received form may differ from the canonical form.
    return "~" + encode_value(plan, field, value).hex()


def _value_of_level(plan: StructPlan, field: FieldPlan, level: str) -> bytes:
    """The inverse: the encoded value of a level. Raises ValueError if no value has this level."""
    kind = int(field.kind)
    value: object
    if kind in _DECIMAL:
        value = int(level)
    elif kind == Kind.BOOL:
        value = level == "true"
    elif kind == Kind.ENUM:
        value = {text_level(m.label): m for m in field.value.members.values()}.get(level)
    elif kind == Kind.UUID:
        value = UUID(level)
    elif kind == Kind.STRING:
        value = unquote_to_bytes(level).decode("utf-8", "surrogateescape")
    else:
        return bytes.fromhex(level.removeprefix("~"))
    # Some texts can be parsed but are not levels: +7, 07, a uuid without dashes.
    if value is None or _level_of(plan, field, value) != level:
        raise ValueError(level)
    return encode_value(plan, field, value)
