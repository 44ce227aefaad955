"""Objects and events as commands print them: a line of text, in a chosen format, or as JSON.

In JSON, the fields have their names. Additional values begin with `_`: `_operation`, `_type`,
`_key`, `_subject`, `_sender` (the id of the client that changed the object last), `_time` (of that
change, in seconds since the epoch) and `_age_s`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from string import Formatter
from time import time
from typing import Any, Final

from skerry.cli.parameters import WrongValue
from skerry.client.core.events import Event, ObjectInfo
from skerry.client.core.received_types import BYTES_NAME
from skerry.json_values import visible
from skerry.objects.base import Struct
from skerry.objects.json import to_json_values
from skerry.suggestions import nearest

_ADDED: Final = (
    "_operation",
    "_type",
    "_key",
    "_subject",
    "_sender",
    "_time",
    "_age_s",
    "_object",
    "_data",
)
"""Names that a format can use besides those of fields."""


def object_row(obj: Struct, info: ObjectInfo) -> dict[str, Any]:
    plain = to_json_values(obj)
    return {**plain, "_key": _key(obj, plain), **_facts(info)}


def event_row(event: Event[Any]) -> dict[str, Any]:
    """An event as JSON, with the whole object after it."""
    plain = to_json_values(event.object)
    return {
        **plain,
        "_operation": event.operation,
        "_type": event.type_name,
        "_key": _key(event.object, plain),
        "_subject": event.subject,
        **_facts(event.info),
    }


def event_text(event: Event[Any]) -> str:
    if event.type_name == BYTES_NAME:
        return f"{event.subject} {_bytes_text(event.data)}"
    return visible(f"{event.operation} {event.object}")


def time_text(seconds: float, now_s: float) -> str:
    """A local time for people: with its date unless it is of today."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC).astimezone()
        today = datetime.fromtimestamp(now_s, UTC).astimezone().date()
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"
    shown = moment.replace(tzinfo=None).isoformat(" ", timespec="milliseconds")
    return shown.partition(" ")[2] if moment.date() == today else shown


class RowFormat:
    """A line of text with values in braces, as in `{_time} {mmsi} {lat:.2f}`."""

    def __init__(self, text: str) -> None:
        """WrongValue if the text is no such line."""
        shown = text.replace("\\t", "\t").replace("\\n", "\n")
        try:
            self._parts = list(Formatter().parse(shown))
        except ValueError as error:
            raise _wrong_format(f"{text!r:.80}: {error}") from None
        self.names = [name for _, name, _, _ in self._parts if name is not None]
        for name, spec, conversion in ((n, s, c) for _, n, s, c in self._parts if n is not None):
            plain = name.replace(".", "")
            if conversion or "{" in (spec or "") or not plain.isidentifier():
                raise _wrong_format(f"{text!r:.80}: {{{name}}} is not the name of a value")

    def check(self, fields: Collection[str]) -> None:
        """WrongValue if a name is neither that of a field nor of an additional value."""
        known = [*fields, *_ADDED]
        for name in self.names:
            if name.partition(".")[0] not in known:
                guess = nearest(name, known)
                advice = f"did you mean {guess}?" if guess else f"there are {', '.join(known)}"
                raise _wrong_format(f"there is no value {name:.60}", advice)

    def line(self, row: Mapping[str, Any]) -> str:
        """The line for the values of a row. An unset value is empty."""
        words: list[str] = []
        for literal, name, spec, _ in self._parts:
            words.append(literal)
            if name is not None:
                words.append(self._word(row, name, spec or ""))
        return "".join(words)

    def _word(self, row: Mapping[str, Any], name: str, spec: str) -> str:
        value: Any = row
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            return ""
        if name == "_time" and not spec:
            return iso_time(value)
        if isinstance(value, bool | list | dict):
            value = json.dumps(value, ensure_ascii=False)
        try:
            return format(visible(value) if isinstance(value, str) else value, spec)
        except ValueError as error:
            raise _wrong_format(f"{{{name}:{spec}}} with {value!r:.40}: {error}") from None


def iso_time(seconds: float) -> str:
    """A time in UTC as ISO 8601."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} s"
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def format_row(event: Event[Any]) -> dict[str, Any]:
    """The values of an event that a format can use."""
    if event.type_name == BYTES_NAME:
        text = _bytes_text(event.data)
        return {**event_row(event), "_data": text, "_object": text}
    return {**event_row(event), "_object": str(event.object)}


def _wrong_format(message: str, hint: str | None = None) -> WrongValue:
    usual = "write names of fields in braces, as in '{_time} {mmsi} {lat:.2f}'"
    return WrongValue(message, option="--format", hint=hint or usual)


def key_text(obj: Struct) -> str:
    names = [field.name for field in obj.descriptor.key_fields]
    plain = to_json_values(obj)
    return visible(", ".join(f"{name}={plain.get(name)}" for name in names))


def _key(obj: Struct, plain: Mapping[str, Any]) -> Any:
    """The value of the only key field, or a list of the values of all key fields."""
    values = [plain.get(field.name) for field in obj.descriptor.key_fields]
    return values[0] if len(values) == 1 else values


def _facts(info: ObjectInfo) -> dict[str, Any]:
    return {
        "_sender": info.modified_from,
        "_time": round(info.modified, 6),
        "_age_s": round(max(time() - info.modified, 0.0), 3),
    }


def _bytes_text(data: bytes) -> str:
    """The decoded text, or hexadecimal digits if the bytes are not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return visible(text)
