"""Unpacking of updates from a datagram: the innermost loop of a receiver. A hot module."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from skerry.protocol.distributor.subjects import Subjects

_BODY: Final = 28


def unpack(
    data: bytes,
    text_length_bytes: i64,
    memo: dict[bytes, str],
    subject_table: Subjects,
    updates: list[tuple[str, bytes]],
) -> bool:
    """Append the updates that have subscribers; False if the datagram does not consist of updates.

    Updates before the fault stay appended; the caller discards them.
    """
    size: i64 = len(data)
    if size < _BODY:
        return False
    # Only the low half of a length can be other than zero: a datagram has less than 65536 bytes.
    skipped: i64 = text_length_bytes - 2
    count_high: i64 = data[24]
    count_next: i64 = data[25]
    count_low: i64 = data[26]
    count_last: i64 = data[27]
    left: i64 = ((count_high * 256 + count_next) * 256 + count_low) * 256 + count_last
    pos: i64 = _BODY
    subject: str | None = None
    known_start: i64 = 0
    known_stop: i64 = -1
    while left > 0:
        left -= 1
        start: i64 = pos + 3 + skipped
        if pos < size and data[pos] == 0:
            # A Java program may publish without a subject. Such an update has no subscriber, and
            # the other updates are valid.
            start = pos + 1
        elif start > size or (skipped and (data[pos + 1] != 0 or data[pos + 2] != 0)):
            return False
        stop: i64 = start
        if start > pos + 1:
            high: i64 = data[start - 2]
            low: i64 = data[start - 1]
            stop = start + high * 256 + low
        if stop >= size:
            return False
        # Consecutive updates often have the same subject; comparing is faster than a lookup.
        length: i64 = stop - start
        at: i64 = length if length == known_stop - known_start else -1
        while at > 0 and data[start + at - 1] == data[known_start + at - 1]:
            at -= 1
        if at != 0:
            raw = data[start:stop]
            subject = memo.get(raw)
            if subject is None:
                subject = subject_table.resolve(raw)
            # An empty one is resolved again each time, so that it is counted.
            known_start = start if subject else 0
            known_stop = stop if subject else -1
        if data[stop] == 0:
            # The wire distinguishes absent from empty data; here they are equal.
            pos = stop + 1
            if subject:
                updates.append((subject, b""))
            continue
        start = stop + 5
        if start > size or data[stop + 1] != 0 or data[stop + 2] != 0:
            return False
        high = data[stop + 3]
        low = data[stop + 4]
        pos = start + high * 256 + low
        if pos > size:
            return False
        if subject:
            updates.append((subject, data[start:pos]))
    return pos == size


def scan(
    data: bytes,
    first: i64,
    stop: i64,
    text_length_bytes: i64,
    memo: dict[bytes, str],
    subjects: list[str],
) -> bool:
    """Append the subjects of the updates in the datagram between `first` and `stop` of some bytes:
    one for each, or a single one that all of them have.

    Return False, with useless subjects, if the datagram is not of the usual form: it has no updates
    or other content, a subject that is not cached or has no subscriber, or no data. `unpack` then
    determines which.
    """
    if stop - first < _BODY or stop > len(data):
        return False
    skipped: i64 = text_length_bytes - 2
    count_low: i64 = data[first + 26]
    count_last: i64 = data[first + 27]
    left: i64 = count_low * 256 + count_last
    if data[first + 24] != 0 or data[first + 25] != 0 or left == 0:
        return False
    count: i64 = left
    is_same = True
    pos: i64 = first + _BODY
    subject: str | None = None
    known_start: i64 = 0
    known_length: i64 = -1
    while left > 0:
        left -= 1
        start: i64 = pos + 3 + skipped
        if start > stop or data[pos] == 0:
            return False
        if skipped and (data[pos + 1] != 0 or data[pos + 2] != 0):
            return False
        high: i64 = data[start - 2]
        low: i64 = data[start - 1]
        length: i64 = high * 256 + low
        end: i64 = start + length
        pos = end + 5
        if pos > stop or data[end] == 0 or data[end + 1] != 0 or data[end + 2] != 0:
            return False
        at: i64 = length if length == known_length else -1
        while at > 0 and data[start + at - 1] == data[known_start + at - 1]:
            at -= 1
        if at != 0:
            subject = memo.get(data[start:end])
            known_start = start
            known_length = length
            if not subject:
                return False
            if not subjects:
                subjects.append(subject)
            elif is_same:
                is_same = False
                # The updates before this one had the first subject, which is listed once.
                subjects.extend([subjects[0]] * (count - left - 2))
        if subject is not None and not is_same:
            subjects.append(subject)
        high = data[end + 3]
        low = data[end + 4]
        pos += high * 256 + low
        if pos > stop:
            return False
    return pos == stop
