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
    from skerry.codec.operation import Operation
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
    from skerry.objects.tables import to_arrow, to_dict, to_pandas, to_polars
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
    "Operation",
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
    "to_arrow",
    "to_datetime",
    "to_dict",
    "to_dots",
    "to_pandas",
    "to_polars",
    "to_timepoint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unpack",
]

# Each name is imported on first use, so that `skerry --help` and small programs start quickly. A
# test compares these tables, the imports above and __all__.
_NAMES: Final = {
    "client.api.picture": "Picture PictureNode",
    "client.api.service_handles": "Ownership Service",
    "client.api.sync": "Container Space Subscription connect",
    "client.core.claims": "ClaimState",
    "client.core.events": "Event ObjectInfo",
    "client.core.states": "Refusal SpaceState StateChanged",
    "codec.envelope": "Update",
    "codec.operation": "Operation",
    "codec.values": "AnyObject PropertySet Ref",
    "errors": (
        "AccessError CodecError ConfigError ConnectFailed ConnectRefused DecodeError "
        "DeliveryError Disconnected EncodeError FilterError LimitExceeded LocalProtocolError "
        "NotRegistered ProtocolError Refused RemoteProtocolError RequestError RequestTimedOut "
        "SchemaCheckError SchemaError SchemaMismatchError SchemaSyntaxError SkerryError "
        "SlowConsumer WouldBlock"
    ),
    "objects.annotations": (
        "any_object duration float16 float32 float64 instance_ref int16 int32 int64 int8 "
        "property_set steady_timepoint timepoint uint16 uint32 uint64 uint8"
    ),
    "objects.base": "Struct key_of merge pack ref_to unpack",
    "objects.declare": "field key removed struct",
    "objects.enums": "element",
    "objects.tables": "to_arrow to_dict to_pandas to_polars",
    "objects.times": "to_datetime to_timepoint",
    "objects.typeset": "TypeSet define_types to_dots",
    "runtime.type_files": "load_types",
}
_HOMES: Final = {
    "Enum": ("skerry.objects.enums", "EnumBase"),
    **{
        name: (f"skerry.{module}", name)
        for module, names in _NAMES.items()
        for name in names.split()
    },
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
