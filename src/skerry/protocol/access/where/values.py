"""The values of a `where`: what a token means in a comparison with a field of some kind."""

from __future__ import annotations

import math
import re
import struct
from typing import Any, Final, NoReturn
from uuid import UUID

from skerry.errors import FilterError
from skerry.objects.classes import attribute_names
from skerry.objects.times import to_timepoint
from skerry.protocol.access.where.lexer import WhereToken, fault
from skerry.protocol.access.where.like_pattern import LikePattern
from skerry.schema.model import INTEGER_RANGES, EnumType, Field, Kind, StructType
from skerry.suggestions import nearest


def field_named(type_: StructType, name: str) -> Field | None:
    """Return the field with this name in the type, or else in Python; None if there is none."""
    if type_.has_field(name):
        return type_.field(name)
    for field_name, attribute in attribute_names(type_).items():
        if attribute == name:
            return type_.field(field_name)
    return None


class Meaning:
    def __init__(self, source: str, type_: StructType) -> None:
        self._source = source
        self._type = type_

    def field(self, token: WhereToken) -> Field:
        name = token.content if token.kind == "text" else token.text
        found = field_named(self._type, name)
        if found is not None:
            return found
        names = [field.name for field in self._type.fields]
        guess = nearest(name, names)
        hint = f"did you mean {guess}?" if guess else f"it has {_listed(names)}"
        self._refuse(token, f"{self._type.name} has no field {name[:_SHOWN_MAX]}", hint)

    def value(self, field: Field, token: WhereToken) -> Any:
        """Return the value of a token in a comparison with the field."""
        kind = field.type.kind
        if token.word == "null" and kind != Kind.ENUM:
            hint = f"write `{field.name} is null` or `{field.name} is not null`"
            self._refuse(token, "nothing equals null", hint)
        if isinstance(field.type, EnumType):
            return self._element(field, field.type, token)
        if token.kind == "word" and kind != Kind.BOOL:
            self._refuse_word(field, token)
        if kind == Kind.BOOL:
            return self._bool(field, token)
        if kind == Kind.STRING:
            return self._text(field, token)
        if kind == Kind.UUID:
            return self._uuid(field, token)
        if kind == Kind.TIMEPOINT and token.kind == "text":
            return self._timepoint(field, token)
        if kind == Kind.DURATION and token.kind == "text":
            return self._duration(field, token)
        if kind in INTEGER_RANGES:
            return self._integer(field, token)
        return self._float(field, token)

    def bound(self, field: Field, operator: str, token: WhereToken) -> tuple[str, Any]:
        """Return operator and value of an ordered comparison.

        For an integer field, `n < 2.5` becomes `n <= 2`.
        """
        if field.type.kind not in INTEGER_RANGES or token.kind != "number":
            return operator, self.value(field, token)
        number = self._number(field, token)
        if isinstance(number, int):
            return operator, self._in_range(field, token, number)
        below = self._in_range(field, token, math.floor(number))
        return ("<=" if operator in ("<", "<=") else ">"), below

    def pattern(self, field: Field, token: WhereToken) -> str:
        """Return the pattern of a `like`."""
        text = self._text(field, token)
        try:
            LikePattern(text)
        except FilterError as error:
            self._refuse(token, error.problems[0].message, "write a backslash as `\\\\`")
        return text

    # -- kinds of values

    def _element(self, field: Field, enum: EnumType, token: WhereToken) -> int:
        names = {element.name: element.tag for element in enum.elements}
        if token.kind == "number":
            hint = f"{enum.name} has {_listed(list(names))}"
            self._refuse(token, f"{field.name} is compared by the name of an element", hint)
        name = token.content if token.kind == "text" else token.text
        if name in names:
            return names[name]
        if token.word == "null":
            self._refuse(token, "nothing equals null", f"write `{field.name} is null`")
        guess = nearest(name, names)
        if guess is None and token.kind == "word":
            self._refuse_field(token)
        hint = f"did you mean {guess}?" if guess else f"it has {_listed(list(names))}"
        self._refuse(token, f"{enum.name} has no element {name[:_SHOWN_MAX]}", hint)

    def _bool(self, field: Field, token: WhereToken) -> bool:
        if token.word in ("true", "false"):
            return token.word == "true"
        if token.kind == "word":
            self._refuse_field(token)
        detail = f"{field.name} is a bool, {token.shown} is not"
        self._refuse(token, detail, "write `true` or `false`, without quotes")

    def _text(self, field: Field, token: WhereToken) -> str:
        if token.kind == "word":
            self._refuse_word(field, token)
        if token.kind != "text":
            self._refuse(token, f"{field.name} is text, {token.shown} is not", "put it in quotes")
        text = token.content
        try:
            # Text of the wire need not be UTF-8.
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            self._refuse(token, "half of a surrogate pair is not a character", None)
        return text

    def _uuid(self, field: Field, token: WhereToken) -> UUID:
        try:
            return UUID(token.content if token.kind == "text" else "")
        except ValueError:
            hint = "write it like '123e4567-e89b-12d3-a456-426614174000'"
            self._refuse(token, f"{field.name} is a uuid, {token.shown} is not", hint)

    def _timepoint(self, field: Field, token: WhereToken) -> float:
        try:
            return to_timepoint(token.content)
        except (ValueError, OverflowError):
            detail = f"{field.name} is a time, {token.shown} is not an ISO 8601 time with a zone"
            self._refuse(token, detail, "write it like '2026-11-15T14:03:07Z'")

    def _duration(self, field: Field, token: WhereToken) -> float:
        found = _DURATION.fullmatch(token.content)
        if found is None:
            detail = f"{field.name} is a duration, {token.shown} is not"
            self._refuse(token, detail, "write seconds, or with a unit: '1.5 h', '20ms'")
        return self._finite(field, token, float(found[1]) * _UNITS[found[2]])

    def _integer(self, field: Field, token: WhereToken) -> int:
        number = self._number(field, token)
        if isinstance(number, float):
            detail = f"{field.name} is a whole number and never equals {token.shown}"
            self._refuse(token, detail, None)
        return self._in_range(field, token, number)

    def _float(self, field: Field, token: WhereToken) -> float:
        try:
            number = float(self._number(field, token))
        except OverflowError:
            number = math.inf
        return _rounded(field.type.kind, self._finite(field, token, number))

    # -- numbers

    def _number(self, field: Field, token: WhereToken) -> int | float:
        """Return a number, as an int if it is a whole one."""
        if token.kind != "number":
            what = "a time" if field.type.kind == Kind.TIMEPOINT else "a number"
            self._refuse(token, f"{field.name} is {what}, {token.shown} is not", None)
        try:
            return int(token.text)
        except ValueError:
            if token.text.lstrip("+-").isdigit():
                self._refuse(token, "the number has too many digits", None)
        number = self._finite(field, token, float(token.text))
        return int(number) if number.is_integer() else number

    def _finite(self, field: Field, token: WhereToken, number: float) -> float:
        if not math.isfinite(number):
            detail = f"{token.shown} is out of the range of {field.type.name}"
            self._refuse(token, detail, None)
        return number

    def _in_range(self, field: Field, token: WhereToken, number: int) -> int:
        low, high = INTEGER_RANGES[field.type.kind]
        if not low <= number <= high:
            detail = f"{token.shown} is out of the range of {field.name}, {low} to {high}"
            self._refuse(token, detail, None)
        return number

    # -- tokens that are not values

    def _refuse_word(self, field: Field, token: WhereToken) -> NoReturn:
        self._refuse_field(token)
        self._refuse(token, f"{token.shown} is not a value for {field.name}", "put texts in quotes")

    def _refuse_field(self, token: WhereToken) -> None:
        if field_named(self._type, token.text) is None:
            return
        detail = f"{token.shown} is a field, and fields are compared with values only"
        self._refuse(token, detail, "put it in quotes if it is a text")

    def _refuse(self, token: WhereToken, message: str, hint: str | None) -> NoReturn:
        raise fault(self._source, token, message, hint)


_SHOWN_MAX: Final = 60
_NAMES_SHOWN: Final = 20

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_DURATION: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*(ns|us|ms|s|min|h|d)")


def _listed(names: list[str]) -> str:
    more = ", ..." if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _rounded(kind: Kind, number: float) -> float:
    """Round a number to the precision of the field; otherwise no field would equal 0.1."""
    code = {Kind.FLOAT32: ">f", Kind.FLOAT16: ">e"}.get(kind)
    if code is None:
        return number
    try:
        return float(struct.unpack(code, struct.pack(code, number))[0])
    except OverflowError:
        return number
