"""The records in a sample: what one sequence number carries.

A sample has one or more records, so that small messages share a datagram. Each record has a data
type, flags and its bytes.
"""

from __future__ import annotations

import struct
from typing import Final

from skerry.errors import DecodeError

__all__ = ["RECORD_BYTES", "SAMPLE_BYTES", "Record", "read_records", "record_head", "whole_sample"]

SAMPLE_BYTES: Final = 4
"""Bytes of a sample before its records."""
RECORD_BYTES: Final = 16
"""Bytes of a record before its content."""
_LITTLE_CDR: Final = b"\x00\x01\x00"
_RECORD: Final = struct.Struct("<qII")

Record = tuple[int, int, bytes]
"""Data type, flags and content."""


def record_head(data_type: int, flags: int, size: int) -> bytes:
    """Return the bytes of a record before its content."""
    return _RECORD.pack(data_type, flags, size)


def whole_sample(records: bytes, *, is_padded: bool) -> bytes:
    """Return a sample of these records. It is padded unless it is sent in fragments."""
    pad = -len(records) % 4 if is_padded else 0
    return b"".join((_LITTLE_CDR, bytes((pad,)), records, bytes(pad)))


def read_records(sample: bytes) -> list[Record]:
    """Return the records of a sample. Raises DecodeError if it is malformed."""
    stop = len(sample) - sample[3] if len(sample) >= SAMPLE_BYTES else 0
    if sample[:3] != _LITTLE_CDR or stop < SAMPLE_BYTES:
        raise _fault("no encapsulation of little-endian CDR")
    records: list[Record] = []
    offset = SAMPLE_BYTES
    while offset < stop:
        start = offset + RECORD_BYTES
        if start > stop:
            raise _fault("a record without a whole header")
        data_type, flags, size = _RECORD.unpack_from(sample, offset)
        offset = start + size
        if offset > stop:
            raise _fault(f"a record of {size} bytes with {stop - start}")
        records.append((data_type, flags, sample[start:offset]))
    return records


def _fault(detail: str) -> DecodeError:
    return DecodeError(type_name="Sample", detail=detail)
