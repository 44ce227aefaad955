from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.runtime.recordings.reader import open_recordings
from skerry.spark.merging.identity import BY_POSITION, CounterGroup
from skerry.spark.merging.runners import InProcess, SparkTasks
from skerry.spark.merging.survey import TableAssignment
from skerry.spark.source.planning import Wanted, pack, runs
from tests.spark.lakes import Emitter, record

Buoy: Any = skerry.define_types("struct Buoy { 1: [key] uint32 id; }").Buoy
NODE = CounterGroup(BY_POSITION, 7, 0)


@pytest.mark.slow
def test_both_ways_see_the_same_rows(spark: Any, tmp_path: Path) -> None:
    emitter = Emitter()
    updates = [emitter.update(Buoy(id=n)) for n in range(4)]
    record(tmp_path, updates[:2], Buoy)
    record(tmp_path, updates[2:], Buoy)
    (recording,) = open_recordings(tmp_path)
    found = [(recording, segment) for segment in recording.segments()]
    tasks = [runs for pair in found for runs in pack(runs_of(pair), 1 << 20)]
    assignment = TableAssignment(numbers={("Buoy", updates[0].fingerprint): 1})
    ways: list[InProcess | SparkTasks] = [InProcess(), SparkTasks(spark)]
    for way in ways:
        counted = way.survey(tasks, assignment).tables[1]
        assert (counted.rows, counted.groups[NODE].number_max) == (4, 4)
        assert counted.groups[NODE].is_ascending
        details = way.details(tasks, assignment, {1: frozenset([NODE])})
        assert sorted(details[1, NODE].numbers.tolist()) == [1, 2, 3, 4]


def test_a_damaged_segment_is_named(tmp_path: Path) -> None:
    record(tmp_path, [Emitter().update(Buoy(id=1))], Buoy)
    (recording,) = open_recordings(tmp_path)
    (segment,) = recording.segments()
    data = bytearray(segment.path.read_bytes())
    data[segment.batches[-1].offset + segment.batches[-1].size // 2] ^= 0xFF
    segment.path.write_bytes(data)
    tasks = pack(runs_of((recording, segment)), 1 << 20)
    assert InProcess().survey(tasks, TableAssignment(numbers={})).damaged == {segment.name}


def runs_of(pair: Any) -> Any:
    return runs([pair], Wanted())
