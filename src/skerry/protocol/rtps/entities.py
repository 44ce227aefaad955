"""Channels, guid prefixes, and the ids of writers and readers.

A node has a control channel, on which the system is formed, and a data channel. On each channel it
writes several streams, each with its own sequence numbers. A stream is identified by its writer id:
a class byte, 16 bits, and the kind of the entity. The 16 bits are the type tag of the receivers if
the stream is for all nodes of a type, or the index that the sender gave to its only receiver.
"""

from __future__ import annotations

import enum
import functools
from typing import Final

from skerry.ids import hash64

__all__ = [
    "DISCOVERY_READER",
    "DISCOVERY_WRITER",
    "INDEX_COUNT",
    "MAPPING_VERSION",
    "PARTICIPANT",
    "PREFIX_BYTES",
    "VENDOR",
    "Channel",
    "StreamClass",
    "guid_prefix",
    "node_of",
    "reader_of",
    "stream_of",
    "type_tag",
    "writer_id",
]

VENDOR: Final = b"\x00\x00"
"""No vendor. Analysers apply private rules to the messages of vendors that they know."""
MAPPING_VERSION: Final = 1
PREFIX_BYTES: Final = 12

DISCOVERY_WRITER: Final = 0x000100C2
DISCOVERY_READER: Final = 0x000100C7
"""The participant writer and reader of RTPS, since analysers show the names in their messages."""
PARTICIPANT: Final = 0x000001C1
"""The entity id of a node as a whole."""

INDEX_COUNT: Final = 1 << 16
"""Different indexes in writer ids. They wrap: an index is newer than those up to half of them
before it."""

_USER_WRITER: Final = 0x03
_USER_READER: Final = 0x04


class Channel(enum.IntEnum):
    """The two channels of a node. Each has its own sockets, so that neither delays the other."""

    CONTROL = 0
    DATA = 1


class StreamClass(enum.IntEnum):
    """The class byte of a stream: who receives it, and whether it is acknowledged."""

    RELIABLE_SHARED = 0x10
    """Acknowledged, for all included nodes of one type."""
    BEST_EFFORT_SHARED = 0x11
    """Not acknowledged, for all included nodes of one type."""
    RELIABLE_SINGLE = 0x20
    """Acknowledged, for one node."""
    BEST_EFFORT_SINGLE = 0x21
    """Not acknowledged, for one node."""

    @property
    def is_reliable(self) -> bool:
        """Whether its samples are acknowledged."""
        return not self & 1

    @property
    def is_shared(self) -> bool:
        """Whether all included nodes of a type receive it."""
        return self < StreamClass.RELIABLE_SINGLE


_STREAM_CLASSES: Final = {int(one): one for one in StreamClass}


def guid_prefix(node: int, channel: Channel) -> bytes:
    """Return the 12 bytes that identify a node on one channel."""
    head = VENDOR + bytes((MAPPING_VERSION, channel))
    return head + node.to_bytes(8, "big", signed=True)


def node_of(prefix: bytes) -> int:
    """Return the node id in a guid prefix."""
    return int.from_bytes(prefix[4:12], "big", signed=True)


@functools.cache
def type_tag(node_type: str) -> int:
    """Return the 16 bits that identify a node type in writer ids."""
    return (hash64(node_type) >> 48) & 0xFFFF


def writer_id(stream: StreamClass, bits: int) -> int:
    """Return the id of the writer of a stream; `bits` is a type tag or a peer index."""
    return stream << 24 | bits << 8 | _USER_WRITER


def reader_of(writer: int) -> int:
    """Return the id of the readers of a stream."""
    return writer & ~0xFF | _USER_READER


def stream_of(writer: int) -> tuple[StreamClass, int] | None:
    """Return class and 16 bits of a writer id; None if it is not the id of a stream."""
    found = _STREAM_CLASSES.get(writer >> 24)
    return None if found is None or writer & 0xFF != _USER_WRITER else (found, writer >> 8 & 0xFFFF)
