from __future__ import annotations

from skerry.spark.merging.survey import TableAssignment
from skerry.spark.merging.work import SlotResult, TableWork, Work, slot_count_for


def work(*tables: TableWork) -> Work:
    return Work(
        root="lake",
        folder="b",
        bucket_ns=1,
        assignment=TableAssignment(numbers={}),
        tables=dict(enumerate(tables)),
        tasks=(),
    )


def test_slots_are_as_many_as_bytes_need() -> None:
    assert [slot_count_for(size, 10) for size in (0, 10, 11, 40, 41)] == [1, 1, 2, 4, 8]


def test_each_slot_belongs_to_one_table() -> None:
    made = work(TableWork(name="a", slot_count=2), TableWork(name="b", first_slot=2))
    assert [made.table_of(slot) for slot in range(3)] == [0, 0, 1]
    assert SlotResult(table=1).rows == 0


def test_slots_whose_parts_are_divided_again_have_work_without_rows() -> None:
    grown = TableWork(name="a", is_cached=True, slot_count=2, part_count=4, part_count_before=2)
    same = TableWork(name="b", is_cached=True, first_slot=2, part_count=4, part_count_before=4)
    assert work(grown, same).required() == [0, 1]
