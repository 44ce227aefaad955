"""Skerry: programs share typed objects in a space, and query its past.

    types = skerry.load_types("fleet.dots")
    vessel = types.Vessel(mmsi=244660000, lat=52.1)
    data = vessel.encode()

or, with the type declared in Python:

    @skerry.struct
    class Vessel(skerry.Struct):
        mmsi: skerry.uint32 | None = skerry.key(1)
        lat: float | None = skerry.field(2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    __version__: str

    from skerry.client.api.picture import Picture, PictureNode
    from skerry.client.api.service_handles import Ownership, Service
    from skerry.client.api.sync import Container, Space, Subscription, connect
    from skerry.client.core.claims import ClaimState
    from skerry.client.core.events import Event, ObjectInfo
    from skerry.client.core.states import Refusal, SpaceState, StateChanged
    from skerry.codec.envelope import Update
    from skerry.codec.values import AnyObject, PropertySet, Ref
    from skerry.errors import (
        AccessError,
        CodecError,
        ConfigError,
        ConnectFailed,
        ConnectRefused,
        DecodeError,
        DeliveryError,
        Disconnected,
        EncodeError,
        FilterError,
        LimitExceeded,
        LocalProtocolError,
        NotRegistered,
        ProtocolError,
        Refused,
        RemoteProtocolError,
        RequestError,
        RequestTimedOut,
        SchemaCheckError,
        SchemaError,
        SchemaMismatchError,
        SchemaSyntaxError,
        SkerryError,
        SlowConsumer,
        WouldBlock,
    )
    from skerry.objects.annotations import (
        any_object,
        duration,
        float16,
        float32,
        float64,
        instance_ref,
        int8,
        int16,
        int32,
        int64,
        property_set,
        steady_timepoint,
        timepoint,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from skerry.objects.base import Struct, key_of, merge, pack, ref_to, unpack
    from skerry.objects.declare import field, key, removed, struct
    from skerry.objects.enums import EnumBase as Enum
    from skerry.objects.enums import element
    from skerry.objects.times import to_datetime, to_timepoint
    from skerry.objects.typeset import TypeSet, define_types, to_dots
    from skerry.runtime.type_files import load_types

__all__ = [
    "AccessError",
    "AnyObject",
    "ClaimState",
    "CodecError",
    "ConfigError",
    "ConnectFailed",
    "ConnectRefused",
    "Container",
    "DecodeError",
    "DeliveryError",
    "Disconnected",
    "EncodeError",
    "Enum",
    "Event",
    "FilterError",
    "LimitExceeded",
    "LocalProtocolError",
    "NotRegistered",
    "ObjectInfo",
    "Ownership",
    "Picture",
    "PictureNode",
    "PropertySet",
    "ProtocolError",
    "Ref",
    "Refusal",
    "Refused",
    "RemoteProtocolError",
    "RequestError",
    "RequestTimedOut",
    "SchemaCheckError",
    "SchemaError",
    "SchemaMismatchError",
    "SchemaSyntaxError",
    "Service",
    "SkerryError",
    "SlowConsumer",
    "Space",
    "SpaceState",
    "StateChanged",
    "Struct",
    "Subscription",
    "TypeSet",
    "Update",
    "WouldBlock",
    "__version__",
    "any_object",
    "connect",
    "define_types",
    "duration",
    "element",
    "field",
    "float16",
    "float32",
    "float64",
    "instance_ref",
    "int8",
    "int16",
    "int32",
    "int64",
    "key",
    "key_of",
    "load_types",
    "merge",
    "pack",
    "property_set",
    "ref_to",
    "removed",
    "steady_timepoint",
    "struct",
    "timepoint",
    "to_datetime",
    "to_dots",
    "to_timepoint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unpack",
]

# Each name is imported on first use, so that `skerry --help` and small programs start quickly. A
# test compares this table, the imports above and __all__.
_HOMES: Final = {
    "AccessError": ("skerry.errors", "AccessError"),
    "AnyObject": ("skerry.codec.values", "AnyObject"),
    "ClaimState": ("skerry.client.core.claims", "ClaimState"),
    "CodecError": ("skerry.errors", "CodecError"),
    "ConfigError": ("skerry.errors", "ConfigError"),
    "ConnectFailed": ("skerry.errors", "ConnectFailed"),
    "ConnectRefused": ("skerry.errors", "ConnectRefused"),
    "Container": ("skerry.client.api.sync", "Container"),
    "DecodeError": ("skerry.errors", "DecodeError"),
    "DeliveryError": ("skerry.errors", "DeliveryError"),
    "Disconnected": ("skerry.errors", "Disconnected"),
    "EncodeError": ("skerry.errors", "EncodeError"),
    "Enum": ("skerry.objects.enums", "EnumBase"),
    "Event": ("skerry.client.core.events", "Event"),
    "FilterError": ("skerry.errors", "FilterError"),
    "LimitExceeded": ("skerry.errors", "LimitExceeded"),
    "LocalProtocolError": ("skerry.errors", "LocalProtocolError"),
    "NotRegistered": ("skerry.errors", "NotRegistered"),
    "ObjectInfo": ("skerry.client.core.events", "ObjectInfo"),
    "Ownership": ("skerry.client.api.service_handles", "Ownership"),
    "Picture": ("skerry.client.api.picture", "Picture"),
    "PictureNode": ("skerry.client.api.picture", "PictureNode"),
    "PropertySet": ("skerry.codec.values", "PropertySet"),
    "ProtocolError": ("skerry.errors", "ProtocolError"),
    "Ref": ("skerry.codec.values", "Ref"),
    "Refusal": ("skerry.client.core.states", "Refusal"),
    "Refused": ("skerry.errors", "Refused"),
    "RemoteProtocolError": ("skerry.errors", "RemoteProtocolError"),
    "RequestError": ("skerry.errors", "RequestError"),
    "RequestTimedOut": ("skerry.errors", "RequestTimedOut"),
    "SchemaCheckError": ("skerry.errors", "SchemaCheckError"),
    "SchemaError": ("skerry.errors", "SchemaError"),
    "SchemaMismatchError": ("skerry.errors", "SchemaMismatchError"),
    "SchemaSyntaxError": ("skerry.errors", "SchemaSyntaxError"),
    "Service": ("skerry.client.api.service_handles", "Service"),
    "SkerryError": ("skerry.errors", "SkerryError"),
    "SlowConsumer": ("skerry.errors", "SlowConsumer"),
    "Space": ("skerry.client.api.sync", "Space"),
    "SpaceState": ("skerry.client.core.states", "SpaceState"),
    "StateChanged": ("skerry.client.core.states", "StateChanged"),
    "Struct": ("skerry.objects.base", "Struct"),
    "Subscription": ("skerry.client.api.sync", "Subscription"),
    "TypeSet": ("skerry.objects.typeset", "TypeSet"),
    "Update": ("skerry.codec.envelope", "Update"),
    "WouldBlock": ("skerry.errors", "WouldBlock"),
    "any_object": ("skerry.objects.annotations", "any_object"),
    "connect": ("skerry.client.api.sync", "connect"),
    "define_types": ("skerry.objects.typeset", "define_types"),
    "duration": ("skerry.objects.annotations", "duration"),
    "element": ("skerry.objects.enums", "element"),
    "field": ("skerry.objects.declare", "field"),
    "float16": ("skerry.objects.annotations", "float16"),
    "float32": ("skerry.objects.annotations", "float32"),
    "float64": ("skerry.objects.annotations", "float64"),
    "instance_ref": ("skerry.objects.annotations", "instance_ref"),
    "int16": ("skerry.objects.annotations", "int16"),
    "int32": ("skerry.objects.annotations", "int32"),
    "int64": ("skerry.objects.annotations", "int64"),
    "int8": ("skerry.objects.annotations", "int8"),
    "key": ("skerry.objects.declare", "key"),
    "key_of": ("skerry.objects.base", "key_of"),
    "load_types": ("skerry.runtime.type_files", "load_types"),
    "merge": ("skerry.objects.base", "merge"),
    "pack": ("skerry.objects.base", "pack"),
    "property_set": ("skerry.objects.annotations", "property_set"),
    "ref_to": ("skerry.objects.base", "ref_to"),
    "removed": ("skerry.objects.declare", "removed"),
    "steady_timepoint": ("skerry.objects.annotations", "steady_timepoint"),
    "struct": ("skerry.objects.declare", "struct"),
    "timepoint": ("skerry.objects.annotations", "timepoint"),
    "to_datetime": ("skerry.objects.times", "to_datetime"),
    "to_dots": ("skerry.objects.typeset", "to_dots"),
    "to_timepoint": ("skerry.objects.times", "to_timepoint"),
    "uint16": ("skerry.objects.annotations", "uint16"),
    "uint32": ("skerry.objects.annotations", "uint32"),
    "uint64": ("skerry.objects.annotations", "uint64"),
    "uint8": ("skerry.objects.annotations", "uint8"),
    "unpack": ("skerry.objects.base", "unpack"),
}


if not TYPE_CHECKING:  # A type checker would accept any misspelled name otherwise.

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("skerry.build_info").version()
        if name not in _HOMES:
            raise AttributeError(f"module 'skerry' has no attribute {name!r}")
        module, attribute = _HOMES[name]
        value = getattr(import_module(module), attribute)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
