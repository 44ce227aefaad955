"""Where the work of a batch is done: by this process if it is little, else by tasks of Spark.

Both ways run the same functions. Rows travel between the tasks of Spark as whole Arrow streams, one
value for some thousand rows: the shuffle moves them without a look inside.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from skerry.recording.index import NO_CRC
from skerry.runtime.recordings.files.blocks import read_blocks
from skerry.runtime.recordings.reader import is_intact, read_block
from skerry.spark.merging.identity import CounterGroup
from skerry.spark.merging.slots import merge_slot
from skerry.spark.merging.splitting import packed, split, unpacked
from skerry.spark.merging.survey import Detail, Placing, Survey, details, survey
from skerry.spark.merging.work import SlotResult, Work
from skerry.spark.source.planning import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Here", "OnSpark", "Runner"]

_Tasks = Sequence[tuple[Run, ...]]
_Wanted = Mapping[int, frozenset[CounterGroup]]
_Found = dict[tuple[int, CounterGroup], Detail]

_THREADS = 2
"""Numpy and Arrow do most of the work without the lock of the interpreter."""


class Runner(Protocol):
    """Does the steps of a batch."""

    def survey(self, tasks: _Tasks, placing: Placing) -> Survey:
        """Look at the rows."""

    def details(self, tasks: _Tasks, placing: Placing, wanted: _Wanted) -> _Found:
        """The rows of some groups."""

    def merge(self, work: Work) -> list[SlotResult]:
        """Write the files of a batch."""


# -- what a task does


def _read(runs: Iterable[Run], damaged: set[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The recorded batches; segments with a damaged one are noted in `damaged`."""
    for run in runs:
        chosen = run.segment.batches[run.first : run.stop]
        for noted, block in read_blocks(run.segment, chosen):
            if damaged is not None and (noted.crc == NO_CRC or not is_intact(block, noted)):
                damaged.add(run.segment.name)
            yield read_block(block, noted, space=run.space)


def _survey_runs(runs: Iterable[Run], placing: Placing) -> Survey:
    """Look at the rows of runs."""
    damaged: set[str] = set()
    found = survey(_read(runs, damaged), placing)
    found.damaged = damaged
    return found


def _merge_slots(work: Work, rows: Mapping[int, list[pa.RecordBatch]]) -> Iterator[SlotResult]:
    """Merge slots one after the other; rows are let go as soon as they are merged."""
    waiting = dict(rows)
    while waiting:
        slot, batches = waiting.popitem()
        yield merge_slot(work, slot, batches)


# -- here


class Here:
    """Does all of it in this process; for batches that fit into memory several times."""

    def survey(self, tasks: _Tasks, placing: Placing) -> Survey:
        return Survey.of_all(_survey_runs(runs, placing) for runs in tasks)

    def details(self, tasks: _Tasks, placing: Placing, wanted: _Wanted) -> _Found:
        return details((rows for runs in tasks for rows in _read(runs)), placing, wanted)

    def merge(self, work: Work) -> list[SlotResult]:
        rows: dict[int, list[pa.RecordBatch]] = {slot: [] for slot in work.required()}
        batches = (batch for runs in work.tasks for batch in _read(runs))
        for slot, piece in split(work, batches):
            rows.setdefault(slot, []).append(piece)
        with ThreadPoolExecutor(_THREADS, "skerry-merge") as pool:
            jobs = [pool.submit(merge_slot, work, slot, found) for slot, found in rows.items()]
            return [job.result() for job in jobs]


# -- by Spark


class OnSpark:
    """Does it by tasks of Spark: one job for the survey, one for the rest."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def survey(self, tasks: _Tasks, placing: Placing) -> Survey:
        found = self._mapped(tasks, partial(_survey_task, placing=placing))
        return Survey.of_all(found)

    def details(self, tasks: _Tasks, placing: Placing, wanted: _Wanted) -> _Found:
        whole: _Found = {}
        function = partial(_details_task, placing=placing, wanted=wanted)
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
                partial(_read_task, shared=shared), "place int, slot int, data binary"
            )
            places = 1 + max(work.partitions.values(), default=0)
            placed = rows.repartitionById(places, "place")
            found = placed.mapInArrow(partial(_write_task, shared=shared), "result binary")
            return [pickle.loads(row.result) for row in found.collect()]  # noqa: S301 - our own
        finally:
            shared.unpersist()

    def _mapped(self, tasks: _Tasks, function: Callable[[tuple[Run, ...]], Any]) -> list[Any]:
        """What a function makes of each task."""
        context = self._spark.sparkContext
        return context.parallelize(tasks, max(1, len(tasks))).map(function).collect()


def _survey_task(runs: tuple[Run, ...], placing: Placing) -> Survey:
    return _survey_runs(runs, placing)


def _details_task(runs: tuple[Run, ...], placing: Placing, wanted: _Wanted) -> _Found:
    return details(_read(runs), placing, wanted)


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
    return pa.RecordBatch.from_arrays(columns, ["place", "slot", "data"])


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
