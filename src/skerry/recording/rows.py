"""Rows that wait for their batch: one buffer per column, filled row by row.

Every recorded update passes through this module, so it is a hot module and does not use Arrow. The
buffers have the layout of Arrow, and `recording.format` makes a batch of them without copying rows.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from skerry.codec.envelope import Update
from skerry.errors import LimitExceeded

RECORDING_ROWS_BYTES_MAX: Final = 512 * 1024 * 1024
"""Bytes of rows that wait to be written. Only a caller that appends and never flushes reaches it. A
batch of two gigabytes could not be written: its columns have offsets of 31 bits."""

NO_SENT_TIME: Final = -1
"""Represents null: the protocol of the update does not transmit the time of sending."""

ROW_BYTES: Final = 85
"""Bytes of a row without subject, key and payload: eight per time or number, four per name."""

_U32_SPAN: Final = 0x100000000
_U32_HALF: Final = 0x80000000


class Rows:
    """Rows that wait for their batch."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.byte_count: i64 = 0
        """Approximate size of their batch."""
        self.time_min_ns: i64 = 0
        self.time_max_ns: i64 = 0
        self.position_min: i64 = 0
        """Lowest position; 0 if no row has one."""
        self.position_max: i64 = 0
        self.times: BytesWriter = BytesWriter()
        self.sent_times: BytesWriter = BytesWriter()
        self.spaces: _Names = _Names()
        self.subjects: _Bytes = _Bytes()
        self.types: _Names = _Names()
        self.fingerprints: BytesWriter = BytesWriter()
        self.operations: BytesWriter = BytesWriter()
        self.presents: BytesWriter = BytesWriter()
        self.keys: _Bytes = _Bytes()
        self.senders: BytesWriter = BytesWriter()
        self.nodes: BytesWriter = BytesWriter()
        self.sequences: BytesWriter = BytesWriter()
        self.positions: BytesWriter = BytesWriter()
        self.sources: _Names = _Names()
        self.payloads: _Bytes = _Bytes()
        self.definitions: set[tuple[str, int]] = set()
        """Types of the rows, each with the fingerprint of its definition."""
        self._fingerprint_of: list[int] = []
        """The last fingerprint of each type, by the number of the type."""

    def append(
        self,
        type_name: str,
        subject: str,
        operation: i64,
        present: i64,
        key: bytes,
        payload: bytes,
        space: str,
        fingerprint: i64,
        sender: i64,
        node: i64,
        sequence: i64,
        position: i64,
        sent_ns: i64,
        time_ns: i64,
        source: str,
    ) -> None:
        """Append a row, its facts in the order of `Update`.

        ValueError for a number outside the range of its column, LimitExceeded if the batch would
        become too large. In both cases the rows are unchanged.
        """
        subject_bytes = _utf8(subject)
        size: i64 = ROW_BYTES + len(subject_bytes) + len(key) + len(payload)
        if self.byte_count + size > RECORDING_ROWS_BYTES_MAX:
            _reject(self.byte_count + size)
        try:
            write_i64_le(self.times, time_ns)
            write_i64_le(self.sent_times, sent_ns)
            write_i64_le(self.fingerprints, fingerprint)
            write_i64_le(self.senders, sender)
            write_i64_le(self.nodes, node)
            write_i64_le(self.sequences, sequence)
            write_i64_le(self.positions, position)
            write_i32_le(
                self.presents, i32(present if present < _U32_HALF else present - _U32_SPAN)
            )
            self.operations.append(u8(operation))
        except (ValueError, TypeError, OverflowError):
            self._cut_back()
            raise
        self.spaces.append(space)
        number = self.types.append(type_name)
        if number >= len(self._fingerprint_of) or self._fingerprint_of[number] != fingerprint:
            self._define(number, type_name, fingerprint)
        self.sources.append(source)
        self.subjects.append(subject_bytes)
        self.keys.append(key)
        self.payloads.append(payload)
        self._count(size, time_ns, position)

    def append_update(self, update: Update) -> None:
        self.append(
            update.type_name,
            update.subject,
            update.operation,
            update.present,
            update.key,
            update.payload,
            update.space,
            update.fingerprint,
            update.sender,
            update.node,
            update.sequence,
            update.position,
            update.sent_ns,
            update.time_ns,
            update.source,
        )

    def take(self) -> Columns:
        """The buffers of all rows; empties."""
        columns = Columns(self)
        self.clear()
        return columns

    def clear(self) -> None:
        for writer in (
            self.times,
            self.sent_times,
            self.fingerprints,
            self.operations,
            self.presents,
            self.senders,
            self.nodes,
            self.sequences,
            self.positions,
        ):
            writer.truncate(0)
        for names in (self.spaces, self.types, self.sources):
            names.clear()
        for column in (self.subjects, self.keys, self.payloads):
            column.clear()
        self.definitions = set()
        self._fingerprint_of = []
        self.count = 0
        self.byte_count = 0
        self.time_min_ns = 0
        self.time_max_ns = 0
        self.position_min = 0
        self.position_max = 0

    def _count(self, size: i64, time_ns: i64, position: i64) -> None:
        if self.count == 0 or time_ns < self.time_min_ns:
            self.time_min_ns = time_ns
        if self.count == 0 or time_ns > self.time_max_ns:
            self.time_max_ns = time_ns
        if position > 0:
            if self.position_min == 0 or position < self.position_min:
                self.position_min = position
            if position > self.position_max:
                self.position_max = position
        self.count += 1
        self.byte_count += size

    def _define(self, number: i64, type_name: str, fingerprint: int) -> None:
        if number < len(self._fingerprint_of):
            self._fingerprint_of[number] = fingerprint
        else:
            self._fingerprint_of.append(fingerprint)
        self.definitions.add((type_name, fingerprint))

    def _cut_back(self) -> None:
        """Remove the written part of a row that was rejected."""
        size: i64 = self.count * 8
        for writer in (
            self.times,
            self.sent_times,
            self.fingerprints,
            self.senders,
            self.nodes,
            self.sequences,
            self.positions,
        ):
            writer.truncate(min(size, len(writer)))
        self.presents.truncate(min(self.count * 4, len(self.presents)))
        self.operations.truncate(min(self.count, len(self.operations)))


class Columns:
    """The buffers of a batch in the layout of Arrow, numbers in little-endian order."""

    def __init__(self, rows: Rows) -> None:
        self.count: int = rows.count
        self.time_ns: bytes = rows.times.getvalue()
        self.sent_ns: bytes = rows.sent_times.getvalue()
        self.space: bytes = rows.spaces.numbers.getvalue()
        self.spaces: list[str] = rows.spaces.values
        self.subject_offsets: bytes = rows.subjects.offsets.getvalue()
        self.subject: bytes = rows.subjects.data.getvalue()
        self.type: bytes = rows.types.numbers.getvalue()
        self.types: list[str] = rows.types.values
        self.fingerprint: bytes = rows.fingerprints.getvalue()
        self.operation: bytes = rows.operations.getvalue()
        self.present: bytes = rows.presents.getvalue()
        self.key_offsets: bytes = rows.keys.offsets.getvalue()
        self.key: bytes = rows.keys.data.getvalue()
        self.sender: bytes = rows.senders.getvalue()
        self.node: bytes = rows.nodes.getvalue()
        self.sequence: bytes = rows.sequences.getvalue()
        self.position: bytes = rows.positions.getvalue()
        self.source: bytes = rows.sources.numbers.getvalue()
        self.sources: list[str] = rows.sources.values
        self.payload_offsets: bytes = rows.payloads.offsets.getvalue()
        self.payload: bytes = rows.payloads.data.getvalue()
        self.time_min_ns: int = rows.time_min_ns
        self.time_max_ns: int = rows.time_max_ns
        self.position_min: int = rows.position_min
        self.position_max: int = rows.position_max
        self.definitions: set[tuple[str, int]] = rows.definitions


class _Names:
    """A dictionary-encoded column: the numbers of the values, and the distinct values."""

    def __init__(self) -> None:
        self.numbers: BytesWriter = BytesWriter()
        self.values: list[str] = []
        self._number_of: dict[str, int] = {}
        self._last: str = ""
        self._last_number: i64 = -1

    def append(self, value: str) -> i64:
        """Append a value; its number."""
        # Most rows have the same string object as the previous row.
        if self._last_number < 0 or value is not self._last:
            self._last_number = self._find(value)
            self._last = value
        write_i32_le(self.numbers, i32(self._last_number))
        return self._last_number

    def _find(self, value: str) -> i64:
        number = self._number_of.get(value)
        if number is None:
            number = len(self.values)
            self._number_of[value] = number
            self.values.append(_utf8(value).decode())
        return number

    def clear(self) -> None:
        self.numbers.truncate(0)
        self.values = []
        self._number_of = {}
        self._last_number = -1


class _Bytes:
    """A column of byte strings: their concatenation, and where each one ends."""

    def __init__(self) -> None:
        self.offsets: BytesWriter = BytesWriter()
        self.data: BytesWriter = BytesWriter()
        write_i32_le(self.offsets, 0)

    def append(self, value: bytes) -> None:
        data = self.data
        data.write(value)
        write_i32_le(self.offsets, i32(len(data)))

    def clear(self) -> None:
        self.offsets.truncate(4)
        self.data = BytesWriter() if len(self.data) > _KEPT_BYTES else _emptied(self.data)


_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Size up to which a buffer is reused for the next batch; a larger one was an exception."""


def _emptied(writer: BytesWriter) -> BytesWriter:
    writer.truncate(0)
    return writer


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # The text was received with bytes that are not UTF-8. Arrow requires UTF-8, so they become
        # escapes.
        return text.encode("utf-8", "backslashreplace")


def _reject(size: int) -> None:
    raise LimitExceeded(
        what="size of the rows waiting to be written, in bytes",
        value=size,
        limit=RECORDING_ROWS_BYTES_MAX,
    )
