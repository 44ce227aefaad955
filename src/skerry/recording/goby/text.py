"""Entries of a Goby log as JSON objects and as lines of text, and back.

A JSON object has the fields of the message (PROTOBUF, if its descriptor is known) or of the
document (JSON), and the facts of the entry under names with underscores. CSTR is `_text_`. Any
other payload is `_data_`, in hexadecimal; so is one that has a field with one of these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import json_format, text_format
from google.protobuf.message import Error as ProtobufError

from skerry.codec.bson import decode_bson, encode_bson
from skerry.errors import CodecError, DecodeError
from skerry.protocol.portal.identifiers import Scheme, parse_scheme, scheme_text
from skerry.protocol.portal.mapping.contents import json_text, plain_values
from skerry.protocol.portal.mapping.protobuf_types import (
    ProtobufTypes,
    parse_message,
    serialize_message,
)
from skerry.recording.goby.entries import GobyLogEntry
from skerry.recording.json_rows import time_text

ENTRY_FACT_NAMES: Final = ("_scheme_", "_utime_", "_strtime_", "_group_", "_type_")
"""The facts that every entry has as JSON."""

_TEXT: Final = "_text_"
_DATA: Final = "_data_"
_RESERVED: Final = frozenset({*ENTRY_FACT_NAMES, _DATA})
_UNSHOWN: Final = (CodecError, ValueError, TypeError, RecursionError, ProtobufError)
"""What the conversion of a message raises that is not what its type says. Of the last three are
those for the messages that `google.protobuf.Any` contains: unknown, nested too deeply, damaged."""


def entry_values(entry: GobyLogEntry, protobuf: ProtobufTypes, *, is_raw: bool) -> dict[str, Any]:
    """An entry as JSON values. With `is_raw`, the payload is hexadecimal in any case."""
    facts = {
        "_scheme_": scheme_text(entry.scheme),
        "_utime_": entry.time_us,
        "_strtime_": time_text(entry.time_us * 1000),
        "_group_": entry.group,
        "_type_": entry.type_name,
    }
    return {**_content(entry, protobuf, is_raw=is_raw), **facts}


def entry_of_values(values: object, protobuf: ProtobufTypes) -> GobyLogEntry:
    """The entry of JSON values. Raises CodecError."""
    if not isinstance(values, Mapping):
        raise _faulty("it is not an object with names")
    try:
        scheme = parse_scheme(str(values["_scheme_"]))
        time_us, group, type_name = (values[name] for name in ("_utime_", "_group_", "_type_"))
    except (KeyError, ValueError) as error:
        raise _faulty(f"{error}") from None
    if type(time_us) is not int or not isinstance(group, str) or not isinstance(type_name, str):
        raise _faulty("_utime_ is an integer, and _group_ and _type_ are texts")
    content = {name: item for name, item in values.items() if name not in ENTRY_FACT_NAMES}
    return GobyLogEntry(
        scheme=scheme,
        group=group,
        type_name=type_name,
        time_us=time_us,
        data=_payload(scheme, type_name, content, protobuf),
    )


def entry_line(entry: GobyLogEntry, protobuf: ProtobufTypes) -> str:
    """An entry as a line: scheme, group, type, time and content, separated by bars."""
    parts = (
        scheme_text(entry.scheme),
        entry.group,
        entry.type_name,
        time_text(entry.time_us * 1000),
        _content_text(entry, protobuf),
    )
    return " | ".join(parts)


def _content(entry: GobyLogEntry, protobuf: ProtobufTypes, *, is_raw: bool) -> dict[str, Any]:
    if not is_raw:
        try:
            if entry.scheme == Scheme.JSON:
                values: dict[str, Any] = plain_values(decode_bson(entry.data))
                return values if _RESERVED.isdisjoint(values) else {_DATA: entry.data.hex()}
            if entry.scheme == Scheme.CSTR and entry.data.endswith(b"\0"):
                return {_TEXT: entry.data[:-1].decode()}
            cls = protobuf.find(entry.type_name) if entry.scheme == Scheme.PROTOBUF else None
            if cls is not None:
                message = parse_message(cls, entry.data)
                found: dict[str, Any] = json_format.MessageToDict(
                    message,
                    preserving_proto_field_name=True,
                    descriptor_pool=message.DESCRIPTOR.file.pool,
                )
                return found if _RESERVED.isdisjoint(found) else {_DATA: entry.data.hex()}
        except (json_format.Error, *_UNSHOWN):
            # What was logged is not always what its type says, and is shown as it is.
            return {_DATA: entry.data.hex()}
    return {_DATA: entry.data.hex()}


def _payload(
    scheme: int, type_name: str, content: dict[str, Any], protobuf: ProtobufTypes
) -> bytes:
    if _DATA in content:
        try:
            return bytes.fromhex(content[_DATA])
        except (TypeError, ValueError):
            raise _faulty("_data_ is not in hexadecimal") from None
    if _TEXT in content and scheme == Scheme.CSTR:
        return str(content[_TEXT]).encode() + b"\0"
    if scheme == Scheme.JSON:
        return encode_bson(content)
    cls = protobuf.find(type_name) if scheme == Scheme.PROTOBUF else None
    if cls is None:
        raise _faulty(f"the payload of {scheme_text(scheme)} {type_name:.120} is not in _data_")
    try:
        pool = cls.DESCRIPTOR.file.pool
        return serialize_message(json_format.ParseDict(content, cls(), descriptor_pool=pool))
    except json_format.Error as error:
        raise _faulty(str(error)) from None


def _content_text(entry: GobyLogEntry, protobuf: ProtobufTypes) -> str:
    try:
        if entry.scheme == Scheme.JSON:
            return json_text(decode_bson(entry.data))
        if entry.scheme == Scheme.CSTR:
            return entry.data.removesuffix(b"\0").decode("utf-8", "backslashreplace")
        cls = protobuf.find(entry.type_name) if entry.scheme == Scheme.PROTOBUF else None
        if cls is not None:
            message = parse_message(cls, entry.data)
            pool = message.DESCRIPTOR.file.pool
            return text_format.MessageToString(
                message, as_one_line=True, as_utf8=True, descriptor_pool=pool
            )
    except _UNSHOWN:
        return entry.data.hex()
    return entry.data.hex()


def _faulty(detail: str) -> DecodeError:
    return DecodeError(type_name="entry of a Goby log", detail=detail)
