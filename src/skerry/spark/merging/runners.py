"""Runs the steps of a batch: small batches in this process, others as Spark tasks.

Both runners call the same functions. Spark tasks exchange rows as Arrow streams, one value for
some thousand rows, so that the shuffle does not process single rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skerry.recording.index import NO_CRC
from skerry.runtime.recordings.files.segment_files import read_blocks
from skerry.runtime.recordings.reader import is_intact, read_block
from skerry.spark.merging.hashing import object_hashes, part_of
from skerry.spark.merging.identity import CounterGroup, Numbers, is_run_start
from skerry.spark.merging.slots import merge_slot
from skerry.spark.merging.survey import Detail, Survey, TableAssignment, details, survey
from skerry.spark.merging.work import SlotResult, Work
from skerry.spark.source.planning import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_Tasks = Sequence[tuple[Run, ...]]
_Wanted = Mapping[int, frozenset[CounterGroup]]
_Found = dict[tuple[int, CounterGroup], Detail]

_THREADS = 2
"""Numpy and Arrow release the interpreter lock for most of the work."""


# -- steps of both runners


def _read(runs: Iterable[Run], damaged: set[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The recorded batches; names of segments with a damaged one are added to `damaged`."""
    for run in runs:
        chosen = run.segment.batches[run.first : run.stop]
        for noted, block in read_blocks(run.segment, chosen):
            if damaged is not None and (noted.crc == NO_CRC or not is_intact(block, noted)):
                damaged.add(run.segment.name)
            yield read_block(block, noted, space=run.space)


def _survey_runs(runs: Iterable[Run], assignment: TableAssignment) -> Survey:
    damaged: set[str] = set()
    found = survey(_read(runs, damaged), assignment)
    found.damaged = damaged
    return found


def _merge_slots(work: Work, rows: Mapping[int, list[pa.RecordBatch]]) -> Iterator[SlotResult]:
    """Merge slots one after the other; the rows of each are freed once they are merged."""
    waiting = dict(rows)
    while waiting:
        slot, batches = waiting.popitem()
        yield merge_slot(work, slot, batches)


# -- in this process


class InProcess:
    """Runs all steps in this process; for batches that fit into memory several times."""

    def survey(self, tasks: _Tasks, assignment: TableAssignment) -> Survey:
        return Survey.of_all(_survey_runs(runs, assignment) for runs in tasks)

    def details(self, tasks: _Tasks, assignment: TableAssignment, wanted: _Wanted) -> _Found:
        return details((rows for runs in tasks for rows in _read(runs)), assignment, wanted)

    def merge(self, work: Work) -> list[SlotResult]:
        rows: dict[int, list[pa.RecordBatch]] = {slot: [] for slot in work.required()}
        batches = (batch for runs in work.tasks for batch in _read(runs))
        for slot, piece in split(work, batches):
            rows.setdefault(slot, []).append(piece)
        with ThreadPoolExecutor(_THREADS, "skerry-merge") as pool:
            jobs = [pool.submit(merge_slot, work, slot, found) for slot, found in rows.items()]
            return [job.result() for job in jobs]


# -- on Spark


class SparkTasks:
    """Runs the steps as Spark tasks: one job for the survey, one for the merge."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def survey(self, tasks: _Tasks, assignment: TableAssignment) -> Survey:
        return Survey.of_all(self._mapped(tasks, partial(_survey_runs, assignment=assignment)))

    def details(self, tasks: _Tasks, assignment: TableAssignment, wanted: _Wanted) -> _Found:
        whole: _Found = {}
        function = partial(_details_task, assignment=assignment, wanted=wanted)
        for each in self._mapped(tasks, function):
            for key, detail in each.items():
                whole[key] = whole[key].joined(detail) if key in whole else detail
        return whole

    def merge(self, work: Work) -> list[SlotResult]:
        context = self._spark.sparkContext
        shared = context.broadcast(work)
        try:
            count = len(work.tasks)
            rows = self._spark.range(0, count, 1, count).mapInArrow(
                partial(_read_task, shared=shared), "partition int, slot int, data binary"
            )
            partition_count = 1 + max(work.partitions.values(), default=0)
            divided = rows.repartitionById(partition_count, "partition")
            found = divided.mapInArrow(partial(_write_task, shared=shared), "result binary")
            return [pickle.loads(row.result) for row in found.collect()]  # noqa: S301 - our own
        finally:
            shared.unpersist()

    def _mapped(self, tasks: _Tasks, function: Callable[[tuple[Run, ...]], Any]) -> list[Any]:
        context = self._spark.sparkContext
        return context.parallelize(tasks, max(1, len(tasks))).map(function).collect()


def _details_task(runs: tuple[Run, ...], assignment: TableAssignment, wanted: _Wanted) -> _Found:
    return details(_read(runs), assignment, wanted)


def _read_task(batches: Iterable[pa.RecordBatch], shared: Any) -> Iterator[pa.RecordBatch]:
    work: Work = shared.value
    for batch in batches:
        for number in batch.column(0).to_pylist():
            if number == 0:
                for slot in work.required():
                    yield _value(work, slot, b"")
            for slot, data in packed(split(work, _read(work.tasks[number]))):
                yield _value(work, slot, data)


def _value(work: Work, slot: int, data: pa.Buffer | bytes) -> pa.RecordBatch:
    ends = pa.array([0, len(data)], pa.int32()).buffers()[1]
    columns = [
        pa.array([work.partitions[slot]], pa.int32()),
        pa.array([slot], pa.int32()),
        pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(data)]),
    ]
    return pa.RecordBatch.from_arrays(columns, ["partition", "slot", "data"])


def _write_task(batches: Iterable[pa.RecordBatch], shared: Any) -> Iterator[pa.RecordBatch]:
    work: Work = shared.value
    rows: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for slot, data in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
            found = rows.setdefault(slot, [])
            if len(data.as_buffer()):
                found += unpacked(data.as_buffer())
    for result in _merge_slots(work, rows):
        yield pa.RecordBatch.from_arrays(
            [pa.array([pickle.dumps(result)], pa.binary())], ["result"]
        )


# -- dividing rows into slots


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
        starts = np.flatnonzero(is_run_start(placed))
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
