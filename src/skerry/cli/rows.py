"""Objects and events as commands show them: a line for people, or an object of JSON.

In JSON the fields go by name. What is added begins with `_`: `_operation`, `_type`, `_key`,
`_subject`, `_sender` (the number of the client that changed it last) and `_age_s`.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import Any

from skerry.client.core.events import BYTES_NAME, Event, ObjectInfo
from skerry.json_values import visible
from skerry.objects.base import Struct
from skerry.objects.json import to_json_values

__all__ = ["event_row", "event_text", "key_text", "object_row"]


def object_row(obj: Struct, info: ObjectInfo) -> dict[str, Any]:
    """A current object."""
    plain = to_json_values(obj)
    return {**plain, "_key": _key(obj, plain), **_facts(info)}


def event_row(event: Event[Any]) -> dict[str, Any]:
    """What happened to an object: the whole of it as it is then."""
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
    """The same for people."""
    if event.type_name == BYTES_NAME:
        return f"{event.subject} {_bytes_text(event.data)}"
    return visible(f"{event.operation} {event.object}")


def key_text(obj: Struct) -> str:
    """The key of an object in words."""
    names = [field.name for field in obj.descriptor.key_fields]
    plain = to_json_values(obj)
    return visible(", ".join(f"{name}={plain.get(name)}" for name in names))


def _key(obj: Struct, plain: Mapping[str, Any]) -> Any:
    """The value of the key field; of several a list, of none the empty one."""
    values = [plain.get(field.name) for field in obj.descriptor.key_fields]
    return values[0] if len(values) == 1 else values


def _facts(info: ObjectInfo) -> dict[str, Any]:
    return {"_sender": info.modified_from, "_age_s": round(max(time() - info.modified, 0.0), 3)}


def _bytes_text(data: bytes) -> str:
    """Text as it is, and what is none in hexadecimal digits."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return visible(text)
