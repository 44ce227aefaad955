"""The identity of updates, as columns of numbers.

Two rows are the same update if node and position are equal; in multicast, which many nodes receive,
if sender and sequence are equal; without positions, if node, sender and sequence are equal. Rows
without any number are the same update if their content is equal. All rows that are numbered by one
counter are a *group*; within a group the number identifies the update.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from skerry.codec.envelope import DISTRIBUTOR

Numbers: TypeAlias = Any

BY_POSITION, BY_MULTICAST, BY_SENDER, BY_CONTENT = 1, 2, 3, 4
_ZERO: Final = np.int64(0)


class CounterGroup(NamedTuple):
    kind: int
    node: int
    sender: int


class RowIdentity(NamedTuple):
    """The identity of each row: its group, and its number in the group."""

    kind: Numbers
    node: Numbers
    sender: Numbers
    number: Numbers


def identity_of(rows: pa.RecordBatch | pa.Table) -> RowIdentity:
    """The identities of recorded rows or of rows of `updates` and `raw`."""
    node, sender, sequence, position = (
        numbers_of(rows.column(name)) for name in ("node", "sender", "sequence", "position")
    )
    is_multicast = _is_named(rows.column("source"), DISTRIBUTOR) & (sequence > 0)
    has_position = (position > 0) & (node != 0) & ~is_multicast
    if has_position.all():
        kind = np.full(len(node), BY_POSITION, np.int8)
        return RowIdentity(kind, node, np.zeros(len(node), np.int64), position)
    kind = np.where(sequence > 0, BY_SENDER, BY_CONTENT).astype(np.int8)
    kind[is_multicast] = BY_MULTICAST
    kind[has_position] = BY_POSITION
    number = np.where(kind == BY_CONTENT, numbers_of(rows.column("time_ns")), sequence)
    return RowIdentity(
        kind,
        np.where(is_multicast, _ZERO, node),
        np.where(has_position, _ZERO, sender),
        np.where(has_position, position, number),
    )


def is_run_start(*keys: Numbers) -> Numbers:
    """Which rows, sorted by these keys, differ from the previous row; the first one does."""
    is_new = np.zeros(len(keys[0]), bool)
    is_new[:1] = True
    for key in keys:
        is_new[1:] |= key[1:] != key[:-1]
    return is_new


def numbers_of(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """A column without nulls as a numpy array."""
    if isinstance(column, pa.ChunkedArray):
        return column.to_numpy()
    return column.to_numpy(zero_copy_only=False)


def _is_named(column: pa.Array | pa.ChunkedArray, name: str) -> Numbers:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.DictionaryArray):
        column = column.dictionary_encode()
    names = np.array([text == name for text in column.dictionary.to_pylist()], bool)
    if not names.any():
        return np.zeros(len(column), bool)
    return names[column.indices.to_numpy(zero_copy_only=False)]
