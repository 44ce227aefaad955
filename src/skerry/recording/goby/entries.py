"""The entries of a Goby log, and their encoding.

A log is a version word and entries. An entry has a magic word, its size, a scheme, the numbers of
its group and its type, a time, data, and a CRC-32 of all of that. The names of groups and types are
entries, too, with schemes of their own. All integers are big-endian.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final

from skerry.errors import LimitExceeded

GOBY_LOG_VERSION: Final = 3
"""The version that is written. Versions 1 to 3 are read."""

MAGIC: Final = b"GBY3"
GROUP_INDEX: Final = 0xFFFF
"""The scheme of an entry that gives a group its number."""
TYPE_INDEX: Final = 0xFFFE
"""The scheme of an entry that gives a type its number."""

DESCRIPTOR_GROUP: Final = "goby::log::ProtobufFileDescriptor"
DESCRIPTOR_TYPE: Final = "google.protobuf.FileDescriptorProto"
"""Under which the descriptors of protobuf files are logged."""
INTERNAL_PREFIX: Final = "goby::zeromq::_internal"
"""How the groups begin in which clients and the manager talk about the hold."""

GOBY_ENTRY_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of the data of an entry, as of any payload. A larger size is that of a damaged entry."""
GOBY_INDEX_MAX: Final = 0xFFFF
"""The highest number of a group or type in one file, which has 16 bits."""

WORD: Final = struct.Struct(">I")
HEAD_BYTES: Final = len(MAGIC) + WORD.size
"""Bytes of the magic word and the size."""
NUMBERS: Final = struct.Struct(">HHH")
NUMBERS_AND_TIME: Final = struct.Struct(">HHHQ")
"""What follows the size, since version 3 with a time."""
SCHEME_WORD: Final = struct.Struct(">H")


@dataclass(frozen=True, slots=True, kw_only=True)
class GobyLogEntry:
    """One logged publication."""

    scheme: int
    group: str
    type_name: str
    time_us: int
    """Microseconds since the epoch; 0 in a log without times (version 1 or 2)."""
    data: bytes

    @property
    def is_descriptor(self) -> bool:
        """Whether the entry describes protobuf types; it was not published."""
        return self.group == DESCRIPTOR_GROUP and self.type_name == DESCRIPTOR_TYPE

    @property
    def is_internal(self) -> bool:
        """Whether clients and the manager of a portal talked about the hold."""
        return self.group.startswith(INTERNAL_PREFIX)


def encode_entry(scheme: int, group: int, type_: int, time_us: int, data: bytes) -> bytes:
    """The bytes of an entry of the current version, from the magic word to the CRC."""
    if len(data) > GOBY_ENTRY_BYTES_MAX:
        raise LimitExceeded(
            what="bytes of an entry of a Goby log", value=len(data), limit=GOBY_ENTRY_BYTES_MAX
        )
    size = NUMBERS_AND_TIME.size + len(data) + WORD.size
    head = MAGIC + WORD.pack(size) + NUMBERS_AND_TIME.pack(scheme, group, type_, time_us)
    crc = zlib.crc32(data, zlib.crc32(head))
    return b"".join((head, data, WORD.pack(crc)))
