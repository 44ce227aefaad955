"""Selects rows by time, type and subject."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.codec.envelope import GAP
from skerry.protocol.patterns import PatternTree
from skerry.recording.index import NO_CRC, RecordedBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """Selects rows. Gaps in the time range are always selected, because they concern all rows."""

    from_ns: int | None = None
    to_ns: int | None = None
    """The end of the time range, exclusive."""
    types: frozenset[str] | None = None
    subjects: tuple[str, ...] | None = None
    _tree: PatternTree | None = field(default=None, repr=False, compare=False)

    def may_have(self, batch: RecordedBatch) -> bool:
        """Whether a batch may contain a selected row; a damaged batch may."""
        if batch.crc == NO_CRC:
            return True
        if self.from_ns is not None and batch.time_max_ns < self.from_ns:
            return False
        if self.to_ns is not None and batch.time_min_ns >= self.to_ns:
            return False
        types = self.types
        return types is None or "" in batch.types or not types.isdisjoint(batch.types)

    def rows_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        times = rows.column("time_ns")
        is_selected = pa.scalar(True)
        if self.types is not None:
            names = rows.column("type").cast(pa.string())
            is_type = pc.is_in(names, pa.array(sorted(self.types), pa.string()))
            is_selected = pc.and_(is_selected, is_type)
        if self._tree is not None:
            is_selected = pc.and_(is_selected, self._is_under(rows.column("subject")))
        is_gap = pc.equal(rows.column("operation"), GAP)
        is_selected = pc.or_(is_selected, is_gap)
        # A gap without a time may be anywhere.
        is_undated = pc.and_(is_gap, pc.equal(times, 0))
        if self.from_ns is not None:
            is_late = pc.or_(pc.greater_equal(times, self.from_ns), is_undated)
            is_selected = pc.and_(is_selected, is_late)
        if self.to_ns is not None:
            is_selected = pc.and_(is_selected, pc.less(times, self.to_ns))
        return rows.filter(is_selected)

    def _is_under(self, subjects: pa.Array) -> pa.Array:
        assert self._tree is not None
        found = pc.unique(subjects).to_pylist()
        chosen = [subject for subject in found if self._tree.matches_any(subject)]
        return pc.is_in(subjects, pa.array(chosen, pa.string()))


ALL_ROWS: Final = RowSelection()


def selection_of(
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    types: Iterable[str] | None = None,
    subjects: Iterable[str] | None = None,
) -> RowSelection:
    """A selection; LocalProtocolError for an invalid pattern."""
    patterns = None if subjects is None else tuple(subjects)
    tree = None
    if patterns is not None:
        tree = PatternTree()
        for pattern in patterns:
            tree.add(pattern, pattern)
    return RowSelection(
        from_ns=_within(from_ns),
        to_ns=_within(to_ns),
        types=None if types is None else frozenset(types),
        subjects=patterns,
        _tree=tree,
    )


def _within(time_ns: int | None) -> int | None:
    """The time, limited to the range of a column."""
    return None if time_ns is None else max(-(2**63), min(time_ns, 2**63 - 1))
