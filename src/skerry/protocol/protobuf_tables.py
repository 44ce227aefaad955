"""Message classes of Protocol Buffers from tables of their fields.

The tables stand for generated files, so neither a compiler nor its output belongs to the project.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELDS: Final = descriptor_pb2.FieldDescriptorProto
_KINDS: Final = {
    "bool": _FIELDS.TYPE_BOOL,
    "bytes": _FIELDS.TYPE_BYTES,
    "double": _FIELDS.TYPE_DOUBLE,
    "fixed64": _FIELDS.TYPE_FIXED64,
    "int32": _FIELDS.TYPE_INT32,
    "int64": _FIELDS.TYPE_INT64,
    "sfixed64": _FIELDS.TYPE_SFIXED64,
    "string": _FIELDS.TYPE_STRING,
    "uint32": _FIELDS.TYPE_UINT32,
    "uint64": _FIELDS.TYPE_UINT64,
}

MessageTables = Mapping[str, tuple[str, ...]]
"""The fields of each message: `NUMBER TYPE NAME`, with a star behind the type if repeated."""
EnumTables = Mapping[str, Mapping[str, int]]


def message_classes(
    package: str, messages: MessageTables, enums: EnumTables | None = None, *, syntax: str
) -> dict[str, Any]:
    """Return the class of each message. A type that is no scalar is another message or an enum.

    All fields are optional or repeated, so a partial message is valid.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax=syntax
    )
    enums = enums or {}
    for name, values in enums.items():
        made_enum = file.enum_type.add(name=name)
        for value_name, number in values.items():
            made_enum.value.add(name=value_name, number=number)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for line in fields:
            field_number, kind, field_name = line.split()
            made = message.field.add(
                name=field_name,
                number=int(field_number),
                label=_FIELDS.LABEL_REPEATED if kind.endswith("*") else _FIELDS.LABEL_OPTIONAL,
            )
            kind = kind.rstrip("*")
            if kind in _KINDS:
                made.type = _KINDS[kind]
            else:
                made.type = _FIELDS.TYPE_ENUM if kind in enums else _FIELDS.TYPE_MESSAGE
                made.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }
