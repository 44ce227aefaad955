"""The hash of an object by which tables are partitioned: Spark's `xxhash64(space, key)`, in numpy.

Tasks assign rows without the JVM, and both engines must agree on the part of an object.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SEED: Final = np.uint64(42)
"""Spark's initial seed; the hash of a column is the seed of the next."""
_STRIPE: Final = 32


def object_hashes(space: pa.DictionaryArray, key: pa.BinaryArray) -> _Numbers:
    """The hash of each object, as signed 64-bit numbers."""
    names = space.dictionary.cast(pa.binary())
    seeds = _hashes(names, np.full(len(names), _SEED))
    return _hashes(key, seeds[space.indices.to_numpy(zero_copy_only=False)]).view(np.int64)


def part_of(hashes: _Numbers, count: int) -> _Numbers:
    """The part of each object among `count` parts; never negative, as Spark's pmod."""
    return np.mod(hashes, count).astype(np.int64)


def _hashes(values: pa.BinaryArray, seeds: _Numbers) -> _Numbers:
    count = len(values)
    _, offset_buffer, data_buffer = values.buffers()
    if not count:
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + count + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, "u1")
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    found = np.empty(count, np.uint64)
    # Keys of one type mostly have the same length; keys of equal length are hashed together.
    with np.errstate(over="ignore"):
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            indices = starts[rows][:, None] + np.arange(length)
            found[rows] = _of_length(data[indices], length, seeds[rows])
    return found


def _of_length(data: _Numbers, length: int, seeds: _Numbers) -> _Numbers:
    """The hashes of rows of bytes of equal length."""
    offset = 0
    if length >= _STRIPE:
        lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
        while offset + _STRIPE <= length:
            for index in range(4):
                word = _word(data, offset + 8 * index, 8)
                lanes[index] = _rotated(lanes[index] + word * _P2, 31) * _P1
            offset += _STRIPE
        turns = (1, 7, 12, 18)
        hashes = sum(
            (_rotated(lane, bits) for lane, bits in zip(lanes, turns, strict=True)),
            np.zeros(len(data), np.uint64),
        )
        for lane in lanes:
            hashes = (hashes ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    else:
        hashes = seeds + _P5
    hashes = hashes + np.uint64(length)
    while offset + 8 <= length:
        hashes ^= _rotated(_word(data, offset, 8) * _P2, 31) * _P1
        hashes = _rotated(hashes, 27) * _P1 + _P4
        offset += 8
    if offset + 4 <= length:
        hashes = _rotated(hashes ^ (_word(data, offset, 4) * _P1), 23) * _P2 + _P3
        offset += 4
    for index in range(offset, length):
        hashes = _rotated(hashes ^ (data[:, index].astype(np.uint64) * _P5), 11) * _P1
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _word(data: _Numbers, offset: int, width: int) -> _Numbers:
    """Bytes of each row as a little-endian integer."""
    cut = np.ascontiguousarray(data[:, offset : offset + width])
    return cut.view(f"<u{width}").ravel().astype(np.uint64)


def _rotated(numbers: _Numbers, bits: int) -> _Numbers:
    return (numbers << np.uint64(bits)) | (numbers >> np.uint64(64 - bits))
