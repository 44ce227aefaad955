"""Objects and events as commands print them: a line of text or a JSON object.

In JSON, the fields have their names. Additional values begin with `_`: `_operation`, `_type`,
`_key`, `_subject`, `_sender` (the id of the client that changed the object last) and `_age_s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import Any

from skerry.client.core.events import Event, ObjectInfo
from skerry.client.core.received_types import BYTES_NAME
from skerry.json_values import visible
from skerry.objects.base import Struct
from skerry.objects.json import to_json_values


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


def key_text(obj: Struct) -> str:
    names = [field.name for field in obj.descriptor.key_fields]
    plain = to_json_values(obj)
    return visible(", ".join(f"{name}={plain.get(name)}" for name in names))


def _key(obj: Struct, plain: Mapping[str, Any]) -> Any:
    """The value of the only key field, or a list of the values of all key fields."""
    values = [plain.get(field.name) for field in obj.descriptor.key_fields]
    return values[0] if len(values) == 1 else values


def _facts(info: ObjectInfo) -> dict[str, Any]:
    return {"_sender": info.modified_from, "_age_s": round(max(time() - info.modified, 0.0), 3)}


def _bytes_text(data: bytes) -> str:
    """The decoded text, or hexadecimal digits if the bytes are not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return visible(text)
