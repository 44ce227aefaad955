"""A type as a space receives it."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from skerry.codec.hot_loops import StructLayout
from skerry.codec.operation import Operation
from skerry.codec.plans import StructPlan
from skerry.errors import DecodeError
from skerry.objects.base import codec_of

CREATE: Final = Operation.CREATE
UPDATE: Final = Operation.UPDATE
REMOVE: Final = Operation.REMOVE

BYTES_NAME: Final = "SkerryBytes"
"""The type of bytes that are published under a subject."""


class ReceivedType:
    """A type as a space receives it: its class, and the decoder of its payloads."""

    def __init__(self, cls: Any, plan: StructPlan, is_cached: bool) -> None:
        self.name: str = plan.name
        self.is_bytes: bool = plan.name == BYTES_NAME
        self.become(cls, plan, is_cached)

    def become(self, cls: Any, plan: StructPlan, is_cached: bool) -> None:
        """Use another class, since the node serves a further definition of the type."""
        codec = codec_of(cls)
        self.cls: Any = cls
        self.decode: Any = codec.decode
        self.layout: StructLayout = codec.layout
        self.plan: StructPlan = plan
        self.is_cached: bool = is_cached

    def bytes_of(self, payload: bytes) -> bytes:
        """The content of an encoded SkerryBytes; events call it by this method."""
        return bytes_of(payload)


def bytes_of(payload: bytes) -> bytes:
    """The content of an encoded SkerryBytes; DecodeError unless it is in the usual encoding."""
    size: i64 = len(payload)
    if size >= 3 and payload[0] == 0xA1 and payload[1] == 0x01:
        first: i64 = payload[2]
        start: i64 = 3
        length: i64 = first - 0x40
        if first == 0x58 and size >= 4:
            start = 4
            length = payload[3]
        elif first == 0x59 and size >= 5:
            start = 5
            length = (i64(payload[3]) << 8) | i64(payload[4])
        elif first == 0x5A and size >= 7:
            start = 7
            length = (
                (i64(payload[3]) << 24)
                | (i64(payload[4]) << 16)
                | (i64(payload[5]) << 8)
                | i64(payload[6])
            )
        elif first < 0x40 or first > 0x57:
            length = -1
        if start + length == size and length >= 0:
            return payload[start:]
    if size == 1 and payload[0] == 0xA0:
        return b""
    raise DecodeError(type_name=BYTES_NAME, detail="the bytes are not in the usual encoding")
