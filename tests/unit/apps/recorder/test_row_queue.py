"""The queue between sources and the writing thread: in order, bounded, losses counted."""

from __future__ import annotations

import threading
from typing import Any

import skerry
from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.envelope import CREATE, GAP
from skerry.limits import RECORDER_QUEUE_BYTES_MAX
from skerry.recording.format import to_record_batch
from skerry.recording.gaps import Gap, gap_of

TYPE = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; }").Vessel.descriptor


def append(
    queue: RowQueue, position: int, *, node: int = 7, payload: bytes = b"\xa1\x01\x01"
) -> None:
    queue.rows.append(
        "Vessel",
        f"/Vessel/{position}",
        CREATE,
        2,
        b"\x81\x01",
        payload,
        "local",
        5,
        2,
        node,
        position,
        position,
        -1,
        1000 + position,
        "access",
    )


def made(**options: Any) -> RowQueue:
    return RowQueue(space="local", row_count_max=10, **options)


def taken(queue: RowQueue) -> list[dict[str, Any]]:
    """All rows that wait, as they would be written."""
    rows: list[dict[str, Any]] = []
    while (item := queue.take(0.0)) is not None:
        if item.columns is not None:
            rows += to_record_batch(item.columns).to_pylist()
        queue.written()
    return rows


def test_rows_come_out_in_their_order() -> None:
    queue = made()
    for position in (1, 2):
        append(queue, position)
    queue.hand_over()
    append(queue, 3)
    queue.hand_over()
    assert [row["position"] for row in taken(queue)] == [1, 2, 3]
    assert queue.waiting_bytes == 0
    assert queue.row_count == 3


def test_handing_over_nothing_gives_nothing() -> None:
    queue = made()
    queue.hand_over()
    assert queue.take(0.0) is None


def test_types_come_before_the_rows_that_need_them() -> None:
    queue = made()
    queue.describe(TYPE)
    append(queue, 1)
    queue.hand_over()
    item = queue.take(0.0)
    assert item is not None
    assert item.types == (TYPE,)
    assert item.columns is not None


def test_a_type_described_often_is_queued_once() -> None:
    queue = made()
    for _ in range(3):
        queue.describe(TYPE)
    queue.hand_over()
    item = queue.take(0.0)
    assert item is not None
    assert item.types == (TYPE,)


def test_a_batch_counts_as_waiting_until_it_is_written() -> None:
    queue = made()
    append(queue, 1)
    queue.hand_over()
    assert queue.take(0.0) is not None
    assert queue.waiting_bytes > 0
    queue.written()
    assert queue.waiting_bytes == 0


def test_above_the_bound_rows_are_dropped_and_a_gap_states_which() -> None:
    queue = made(waiting_bytes_max=250)
    append(queue, 1)
    queue.hand_over()
    for position in (2, 3, 4):
        append(queue, position)
    queue.hand_over()
    append(queue, 5, node=8)
    append(queue, 6)
    queue.hand_over()
    assert queue.lost_count == 5
    assert [row["position"] for row in taken(queue)] == [1]
    append(queue, 7)
    queue.hand_over()
    rows = taken(queue)
    assert [row["operation"] for row in rows] == [GAP, GAP, CREATE]
    gaps = {row["node"]: gap_of(row["payload"]) for row in rows[:2]}
    why: Any = {"reason": "the recorder did not keep up", "is_dropped": True}
    assert gaps[7] == Gap(count=4, first=2, stop=7, first_ns=1002, last_ns=1006, **why)
    assert gaps[8] == Gap(count=1, first=5, stop=6, first_ns=1005, last_ns=1005, **why)
    assert queue.gap_count == 2


def test_a_gap_names_the_write_error() -> None:
    queue = made(waiting_bytes_max=1)
    append(queue, 1)
    queue.hand_over()
    queue.drop_reason = "the recorder could not write: No space left on device"
    append(queue, 2)
    queue.hand_over()
    queue.drop_reason = ""
    taken(queue)
    queue.hand_over()
    (gap,) = taken(queue)
    assert gap_of(gap["payload"]).reason.endswith("No space left on device")


def test_while_many_batches_wait_rows_are_gathered_into_full_ones() -> None:
    queue = made()
    for position in range(1, 40):
        append(queue, position)
        queue.hand_over()
    counts = []
    while (item := queue.take(0.0)) is not None:
        assert item.columns is not None
        counts.append(item.columns.count)
        queue.written()
    assert counts == [1] * 8 + [10, 10, 10]
    queue.close()
    assert [row["position"] for row in taken(queue)] == [39]


def test_gaps_count_as_waiting_like_other_rows() -> None:
    queue = made(waiting_bytes_max=1)
    append(queue, 1)
    queue.hand_over()
    append(queue, 2)
    queue.close()
    queue.written()
    assert queue.waiting_bytes > 0
    queue.written()
    assert queue.waiting_bytes == 0


def test_types_and_other_gaps_are_kept_when_rows_are_dropped() -> None:
    queue = made(waiting_bytes_max=1)
    append(queue, 1)
    queue.hand_over()
    queue.describe(TYPE)
    lost = Gap(count=3, first=10, stop=13, reason="lost", first_ns=5, last_ns=6)
    queue.append_gap(lost, node=9, sender=4)
    queue.hand_over()
    assert queue.lost_count == 0
    taken(queue)
    append(queue, 2)
    queue.hand_over()
    first = queue.take(0.0)
    assert first is not None
    assert first.columns is not None
    (row,) = to_record_batch(first.columns).to_pylist()
    assert (row["node"], row["sender"], gap_of(row["payload"])) == (9, 4, lost)
    queue.written()
    second = queue.take(0.0)
    assert second is not None
    assert second.types == (TYPE,)


def test_a_batch_above_the_bound_is_let_through_when_nothing_waits() -> None:
    queue = made(waiting_bytes_max=1)
    append(queue, 1, payload=bytes(1000))
    queue.hand_over()
    assert queue.lost_count == 0
    assert len(taken(queue)) == 1


def test_the_usual_bound_is_that_of_the_recorder() -> None:
    queue = made()
    queue.waiting_bytes = RECORDER_QUEUE_BYTES_MAX
    append(queue, 1)
    queue.hand_over()
    assert queue.lost_count == 1


def test_close_wakes_a_waiting_take() -> None:
    queue = made()
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(queue.take(60.0)))
    waiter.start()
    assert not queue.is_over
    queue.close()
    waiter.join(10)
    assert found == [None]
    assert queue.is_over


def test_rows_dropped_last_are_a_gap_at_the_end() -> None:
    queue = made(waiting_bytes_max=1)
    append(queue, 1)
    queue.hand_over()
    append(queue, 2)
    queue.close()
    assert not queue.is_over
    first, second = taken(queue)
    assert (first["operation"], second["operation"]) == (CREATE, GAP)
    assert queue.is_over
