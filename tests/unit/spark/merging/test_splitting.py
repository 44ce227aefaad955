from __future__ import annotations

from typing import Any

import pyarrow as pa

import skerry
from skerry.spark.merging.runners import packed, split, unpacked
from skerry.spark.merging.survey import RAW, TableAssignment
from skerry.spark.merging.work import TableWork, Work
from tests.spark.lakes import Emitter
from tests.unit.spark.merging.test_survey import batch

TYPES: Any = skerry.define_types("struct A { 1: [key] uint32 id; } struct B { 1: [key] uint8 id; }")


def test_rows_of_an_object_are_in_one_slot_in_their_order() -> None:
    emitter = Emitter()
    updates = [emitter.update(TYPES.A(id=n % 50)) for n in range(200)]
    other = emitter.update(TYPES.B(id=1))
    assignment = TableAssignment(
        numbers={("A", updates[0].fingerprint): 1, ("B", other.fingerprint): 2}
    )
    tables = {
        1: TableWork(name="A", slot_count=4),
        2: TableWork(name="B", first_slot=4),
        RAW: TableWork(name="raw", first_slot=5),
    }
    work = Work(root="", folder="b", bucket_ns=1, assignment=assignment, tables=tables, tasks=())
    found: dict[int, list[tuple[bytes, int]]] = {}
    recorded = [batch(*updates, other)]
    for slot, data in packed(split(work, recorded)):
        for rows in unpacked(data):
            pairs = zip(rows["key"].to_pylist(), rows["position"].to_pylist(), strict=True)
            found.setdefault(slot, []).extend(pairs)
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert found.pop(4) == [(other.key, other.position)]
    keys = [{key for key, _ in rows} for rows in found.values()]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 50
    for rows in found.values():
        assert [position for _, position in rows] == sorted(position for _, position in rows)
    only = Work(
        root="", folder="b", bucket_ns=1, assignment=assignment, tables={2: tables[2]}, tasks=()
    )
    assert [slot for slot, _ in split(only, recorded)] == [4], "other tables are passed over"
    assert list(split(work, [pa.RecordBatch.from_pylist([], recorded[0].schema)])) == []
