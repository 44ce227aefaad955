"""Divides recorded rows into slots, and packs the rows of a slot for the shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from skerry.spark.merging.hashing import object_hashes, part_of
from skerry.spark.merging.identity import Numbers
from skerry.spark.merging.work import Work

_PACK_BYTES = 2 * 1024 * 1024
"""Size at which the rows of a slot are sent: as one value, the shuffle does not process rows."""
_NO_SLOT = -1


def split(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each slot, batch by batch, in recorded order."""
    for rows in batches:
        if not rows.num_rows:
            continue
        slots = _slots(work, rows)
        first = int(slots[0])
        if (slots == first).all():
            if first != _NO_SLOT:
                yield first, rows
            continue
        order = np.argsort(slots, kind="stable")
        placed = slots[order]
        starts = np.flatnonzero(np.append(True, placed[1:] != placed[:-1]))
        stops = np.append(starts[1:], len(placed))
        sorted_rows = rows.take(pa.array(order))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            if placed[start] != _NO_SLOT:
                yield int(placed[start]), sorted_rows.slice(start, stop - start)


def _slots(work: Work, rows: pa.RecordBatch) -> Numbers:
    tables = work.assignment.of(rows)
    slots = np.full(rows.num_rows, _NO_SLOT, np.int64)
    for number in np.unique(tables).tolist():
        table = work.tables.get(number)
        if table is None:
            continue
        indices = np.flatnonzero(tables == number)
        if table.slot_count == 1:
            slots[indices] = table.first_slot
            continue
        chosen = rows if len(indices) == rows.num_rows else rows.take(pa.array(indices))
        hashes = object_hashes(chosen.column("space"), chosen.column("key"))
        slots[indices] = table.first_slot + part_of(hashes, table.slot_count)
    return slots


def packed(pieces: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[tuple[int, pa.Buffer]]:
    """The rows of each slot as Arrow streams of about equal size."""
    waiting: dict[int, list[pa.RecordBatch]] = {}
    sizes: dict[int, int] = {}
    for slot, rows in pieces:
        waiting.setdefault(slot, []).append(rows)
        sizes[slot] = sizes.get(slot, 0) + rows.nbytes
        if sizes[slot] >= _PACK_BYTES:
            yield slot, _stream(waiting.pop(slot))
            del sizes[slot]
    for slot, batches in waiting.items():
        yield slot, _stream(batches)


def _stream(batches: list[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for rows in batches:
            writer.write_batch(rows)
    return sink.getvalue()


def unpacked(data: pa.Buffer) -> list[pa.RecordBatch]:
    """The rows of an Arrow stream."""
    with pa.ipc.open_stream(data) as reader:
        return list(reader)
