from __future__ import annotations

from typing import Any

import pyarrow as pa

import skerry
from skerry.codec.envelope import DISTRIBUTOR, UPDATE, Update
from skerry.recording.format import to_record_batch
from skerry.recording.rows import Rows
from skerry.spark.lake.plans import Clock
from skerry.spark.merging.duplicates import (
    PIPELINE_CLOCK_COUNT_MAX,
    KnownCounters,
    advanced_clocks,
    advanced_marks,
    groups_to_check,
)
from skerry.spark.merging.identity import (
    BY_CONTENT,
    BY_MULTICAST,
    BY_POSITION,
    BY_SENDER,
    CounterGroup,
)
from skerry.spark.merging.survey import RAW, Survey, TableAssignment, survey
from tests.spark.lakes import START_NS, Emitter, found

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; }").Buoy
NODE = CounterGroup(BY_POSITION, 7, 0)


def batch(*updates: Update) -> pa.RecordBatch:
    rows = Rows()
    for update in updates:
        rows.append_update(update)
    return to_record_batch(rows.take())


def assignment(update: Update) -> TableAssignment:
    return TableAssignment(numbers={("Buoy", update.fingerprint): 1})


def test_counters_are_those_of_nodes_senders_and_groups() -> None:
    emitter = Emitter()
    placed = emitter.emit(Buoy(id=1), UPDATE)
    cast = emitter.emit(Buoy(id=1), UPDATE, source=DISTRIBUTOR, sender=9, position=0)
    counted = emitter.emit(Buoy(id=1), UPDATE, position=0)
    bare = emitter.emit(Buoy(id=1), UPDATE, position=0, sequence=0)
    other = placed.replace(fingerprint=5, position=4)
    seen = survey([batch(placed, cast, counted, bare, other)], assignment(placed))
    assert {group.kind for group in seen.tables[1].groups} == {
        BY_POSITION,
        BY_MULTICAST,
        BY_SENDER,
        BY_CONTENT,
    }
    assert seen.tables[1].rows == 4
    assert list(seen.tables[RAW].groups) == [NODE], "its definition is not known"


def test_a_counter_is_straight_as_long_as_numbers_and_times_ascend() -> None:
    emitter = Emitter()
    first, second, third = (emitter.update(Buoy(id=1)) for _ in range(3))
    place = assignment(first)

    def is_ascending(*batches: pa.RecordBatch) -> bool:
        return survey(batches, place).tables[1].groups[NODE].is_ascending

    assert is_ascending(batch(first, second), batch(third))
    assert not is_ascending(batch(first, third), batch(second))
    assert not is_ascending(batch(first, first))
    assert not is_ascending(batch(first, second.replace(time_ns=START_NS)))
    parts = [survey([batch(*some)], place) for some in ([third], [first, second])]
    assert Survey.of_all(parts).tables[1].groups[NODE].is_ascending, "tasks end in any order"


def test_only_counters_that_may_be_known_or_went_back_are_looked_at() -> None:
    emitter = Emitter()
    first, second = (emitter.update(Buoy(id=1)) for _ in range(2))
    counted = survey([batch(second)], assignment(first)).tables[1]

    def is_unclear(position: int, order_ns: int) -> bool:
        clocks = {7: Clock(position=position, order_ns=order_ns)}
        return groups_to_check(
            counted, KnownCounters(clocks=clocks, marks={}), lambda _low, _high: True
        ) == [NODE]

    assert not is_unclear(1, first.time_ns)
    assert is_unclear(2, first.time_ns), "the table may have it"
    assert is_unclear(1, second.time_ns + 1), "the clock went back"
    assert (
        groups_to_check(counted, KnownCounters(clocks={}, marks={}), lambda _low, _high: True) == []
    )
    before = KnownCounters(clocks={}, marks=None)
    assert groups_to_check(counted, before, lambda low, high: low <= second.time_ns <= high) == [
        NODE
    ]
    assert groups_to_check(counted, before, lambda _low, _high: False) == []


def test_snapshot_rows_do_not_advance_a_clock() -> None:
    emitter = Emitter()
    first, second = (emitter.update(Buoy(id=1)) for _ in range(2))
    counted = survey([batch(first, found(second))], assignment(first)).tables[1]
    assert advanced_clocks({}, counted) == {7: Clock(position=2, order_ns=first.time_ns)}


def test_clocks_and_marks_are_bounded() -> None:
    emitter = Emitter()
    updates = [
        emitter.emit(Buoy(id=1), UPDATE, position=position, node=node, sender=node)
        for node in (1, 2, 3)
        for position in (0, node)
    ]
    counted = survey([batch(*updates)], assignment(updates[0])).tables[1]
    assert sorted(advanced_clocks({}, counted, count_max=2)) == [2, 3]
    known = {node: Clock(position=1, order_ns=node) for node in range(PIPELINE_CLOCK_COUNT_MAX)}
    assert len(advanced_clocks(known, counted)) == PIPELINE_CLOCK_COUNT_MAX
    marks = advanced_marks({}, counted, kinds=[BY_SENDER], count_max=2)
    assert marks is not None
    assert len(marks) == 2
    assert advanced_marks(None, counted, kinds=[BY_SENDER]) is None
