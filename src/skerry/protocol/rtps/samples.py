"""The records in a sample: what one sequence number carries. A hot module.

A sample has one or more records, so that small messages share a datagram. Each record has a data
type, flags and its bytes.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from skerry.errors import DecodeError
from skerry.protocol.rtps.submessages import LARGE_BYTES

__all__ = ["RECORD_BYTES", "SAMPLE_BYTES", "Record", "SampleWriter", "read_records", "read_types"]

SAMPLE_BYTES: Final = 4
"""Bytes of a sample before its records."""
RECORD_BYTES: Final = 16
"""Bytes of a record before its content."""
_LITTLE_CDR: Final = b"\x00\x01\x00"
_HEAD: Final = _LITTLE_CDR + b"\x00"
_PAD_AT: Final = 3

Record = tuple[int, int, bytes]
"""Data type, flags and content."""


class SampleWriter:
    """The bytes of one sample after the other."""

    def __init__(self) -> None:
        self._body = BytesWriter()
        self._body.write(_HEAD)
        self._front: list[bytes] = []
        """What is before the body, if the sample has large records: they are copied once."""

    def add(self, data_type: i64, flags: i64, data: bytes) -> None:
        """Append a record."""
        body = self._body
        write_i64_le(body, data_type)
        write_i32_le(body, i32(flags))
        write_i32_le(body, i32(len(data)))
        if len(data) < LARGE_BYTES:
            body.write(data)
        else:
            self._front += [body.getvalue(), data]
            body.truncate(0)

    def finish(self, *, is_padded: bool) -> bytes:
        """Return the open sample, and begin the next one. A sample is padded to a multiple of four
        bytes unless it is sent in fragments."""
        body = self._body
        if self._front:
            return self._finish_large(is_padded)
        if is_padded:
            pad: i64 = -len(body) & 3
            body[_PAD_AT] = u8(pad)
            for _ in range(pad):
                body.append(u8(0))
        sample = body.getvalue()
        body[_PAD_AT] = u8(0)
        body.truncate(SAMPLE_BYTES)
        return sample

    def _finish_large(self, is_padded: bool) -> bytes:
        body, parts = self._body, self._front
        parts.append(body.getvalue())
        if is_padded:
            pad: i64 = -sum([len(part) for part in parts]) & 3
            parts.append(bytes(pad))
            parts[0] = b"%b%c%b" % (_LITTLE_CDR, pad, parts[0][SAMPLE_BYTES:])
        self._front = []
        body.truncate(0)
        body.write(_HEAD)
        return b"".join(parts)


def read_records(sample: bytes) -> list[Record]:
    """Return the records of a sample. Raises DecodeError if it is malformed."""
    size: i64 = len(sample)
    if size < SAMPLE_BYTES or sample[:_PAD_AT] != _LITTLE_CDR:
        raise _fault("no encapsulation of little-endian CDR")
    pad: i64 = sample[_PAD_AT]
    stop: i64 = size - pad
    if stop < SAMPLE_BYTES:
        raise _fault("more padding than bytes")
    records: list[Record] = []
    offset: i64 = SAMPLE_BYTES
    while offset < stop:
        start: i64 = offset + RECORD_BYTES
        if start > stop:
            raise _fault("a record without a whole header")
        length: i64 = i64(read_i32_le(sample, offset + 12)) & 0xFFFFFFFF
        if length > stop - start:
            raise _fault(f"a record of {length} bytes with {stop - start}")
        data_type: int = read_i64_le(sample, offset)
        flags: int = i64(read_i32_le(sample, offset + 8)) & 0xFFFFFFFF
        offset = start + length
        records.append((data_type, flags, sample[start:offset]))
    return records


def read_types(sample: bytes) -> list[int]:
    """Return the data types of the records of a sample that a `SampleWriter` has made."""
    stop: i64 = len(sample) - sample[_PAD_AT]
    types: list[int] = []
    offset: i64 = SAMPLE_BYTES
    while offset < stop:
        types.append(read_i64_le(sample, offset))
        offset += RECORD_BYTES + (i64(read_i32_le(sample, offset + 12)) & 0xFFFFFFFF)
    return types


def _fault(detail: str) -> DecodeError:
    return DecodeError(type_name="Sample", detail=detail)
