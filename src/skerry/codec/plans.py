"""Plans: tables that describe a type to the encoder and the decoder.

This module and `encoder`, `decoder` and `pieces` are compiled, so they use machine integers and
simple constructs. A plan is made once per type (see `compile`) and not modified afterwards.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NoReturn

from mypy_extensions import i64

from skerry.errors import DecodeError, EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX

TAG_COUNT: Final = 32

_SMALL_MAX: Final = (1 << 62) - 1
"""The largest number that compiled code compares without creating a Python number."""


class ValuePlan:
    def __init__(self, kind: int, name: str) -> None:
        self.kind: i64 = kind
        self.name: str = name
        """The type's name in the type language, for messages."""
        self.low: int = 0
        self.high: int = 0
        self.info_max: i64 = 27
        """Integers: the widest head that the declared width allows."""
        self.members: dict[int, Any] = {}
        """Enums: the member for each tag."""
        self.small_tags: i64 = 0
        """Enums: property set of the tags below 24."""
        self.member_class: Any = None
        self.struct: StructPlan | None = None
        self.element: ValuePlan | None = None
        self.target: str | None = None
        """References: the type that they refer to, if it is fixed."""


class FieldPlan:
    """The plan of a field: its attribute in Python, and its encoding."""

    def __init__(self, tag: int, name: str, attribute: str, is_key: bool, value: ValuePlan) -> None:
        self.tag: i64 = tag
        self.bit: i64 = 1 << tag
        """Its bit in a property set. It is not computed on use, because compiled code would shift a
        number of 32 bits, and tag 31 would make it negative."""
        self.head: bytes = bytes((tag,)) if tag < 24 else bytes((24, tag))
        self.index: i64 = 0
        """Its index in declaration order, set by the struct."""
        self.name: str = name
        # Interned, because otherwise each assignment would search the table of interned names.
        self.attribute: str = sys.intern(attribute)
        self.is_key: bool = is_key
        self.kind: i64 = value.kind
        self.value: ValuePlan = value
        self.small_max: int = min(value.high, _SMALL_MAX)
        """Unsigned numbers up to this are in range and encoded on the fast path."""


class StructPlan:
    """The plan of a struct: its fields in declaration order, which is wire order."""

    def __init__(self, name: str, cls: Any, fields: list[FieldPlan], values_of: Any) -> None:
        self.name: str = name
        self.fingerprint: int = 0
        """Fingerprint of the type. Objects of classes with equal fingerprints are encoded alike."""
        self.cls: Any = cls
        self.new: Any = object.__new__
        self.fields: list[FieldPlan] = fields
        self.values_of: Any = values_of
        """Returns the tuple of all field values of an object, in declaration order."""
        self.layout: Any = None
        """The layout of this plan, made by `codec.hot_loops`. All structs with a field of this type
        share it, so types that contain each other many times do not multiply it."""
        self.by_tag: list[FieldPlan | None] = [None] * TAG_COUNT
        self.keys: list[FieldPlan] = []
        self.mask: i64 = 0
        self.key_mask: i64 = 0
        for index, field in enumerate(fields):
            field.index = index
            self.by_tag[field.tag] = field
            self.mask |= field.bit
            if field.is_key:
                self.key_mask |= field.bit
                self.keys.append(field)
        self.keys.sort(key=lambda field: int(field.tag))


def refuse_value(plan: StructPlan, field: FieldPlan, detail: str) -> NoReturn:
    """Raise the error for a Python value that does not fit its field."""
    raise EncodeError(type_name=plan.name, field=field.name, detail=detail)


def refuse_size(plan: StructPlan, size: int) -> NoReturn:
    """Raise the error for an encoded object that exceeds the limit."""
    detail = f"{size} bytes encoded, the limit is {PAYLOAD_BYTES_MAX}"
    raise EncodeError(type_name=plan.name, field="", detail=detail)


def shown(value: object) -> str:
    """A value for a message, shortened. It also works for values that Python does not print."""
    try:
        return f"{value!r:.60}"
    except ValueError:
        # Python refuses to format a number of thousands of digits.
        return "a number with too many digits"


def refuse_bytes(plan: StructPlan, field: FieldPlan | None, detail: str, pos: i64) -> NoReturn:
    """Raise the error for bytes that are not an object of the type."""
    name = "" if field is None else field.name
    raise DecodeError(type_name=plan.name, field=name, detail=detail, offset=int(pos))
