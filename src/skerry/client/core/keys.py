"""Keys as programs write them: a value, a tuple of several, or an object that has the key."""

from __future__ import annotations

from typing import Any

from skerry.client.core.received_types import ReceivedType
from skerry.errors import EncodeError
from skerry.objects.base import Struct, build, codec_of, hashable


class Keys:
    """The keys of a type.

    A key is the value of the key field; for several key fields the tuple of their values, in the
    order in which the type declares them; for a singleton `()`.
    """

    def __init__(self, shape: ReceivedType) -> None:
        self._shape = shape
        self._fields = [field for field in shape.plan.fields if field.is_key]

    def object_of(self, key: Any) -> Any | None:
        """An object with this key, or the given object; None if `key` is not a key of the type."""
        if isinstance(key, Struct):
            return key if key.descriptor.name == self._shape.name else None
        values = (key,) if len(self._fields) == 1 else key
        if not isinstance(values, tuple) or len(values) != len(self._fields):
            return None
        given = dict(zip((field.name for field in self._fields), values, strict=True))
        return build(self._shape.cls, [given.get(f.name) for f in self._shape.plan.fields])

    def canonical(self, key: Any) -> bytes:
        """The canonical key; empty if `key` is not a key of the type."""
        obj = self.object_of(key)
        if obj is None:
            return b""
        try:
            return codec_of(type(obj)).encode_key(obj)
        except EncodeError:
            return b""

    def value_of(self, obj: Any) -> Any:
        values = tuple(hashable(getattr(obj, field.attribute)) for field in self._fields)
        return values[0] if len(values) == 1 else values
