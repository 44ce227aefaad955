"""Gaps and removals after a lost connection, and learned types."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.apps.recorder.gap_tracker import GapTracker, payload_of_key
from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.envelope import GAP, REMOVE, UPDATE
from skerry.codec.pieces import canonical_key, split
from skerry.limits import TYPE_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.descriptors import describe
from skerry.protocol.access.header import Header
from skerry.recording.format import to_record_batch
from skerry.recording.gaps import Gap, gap_of
from skerry.runtime.clock import wall_ns
from skerry.runtime.recordings.resume_point import ResumePoint

TYPES = skerry.define_types(
    """
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; }
    struct Leg { 3: [key] string a; 1: [key] uint32 b; 2: string text; }
    struct Mode { 1: string name; }
    """
)
LOST = "the connection to the node was lost"


class Stage:
    def __init__(self, *, is_whole: bool = True) -> None:
        self.queue = RowQueue(space="local", row_count_max=1000)
        self.witness = GapTracker(self.queue, space="local", is_whole=is_whole)
        self.describe(TYPES.Vessel)

    def describe(self, cls: Any, position: int = -1) -> None:
        obj = describe(cls.descriptor)
        header = Header("StructDescriptorData")
        header.position = position
        self.witness.learn_type(header, obj.encode())

    def emit(
        self, mmsi: int, *, position: int, node: int = 7, left: int = -1, subject: str = ""
    ) -> None:
        header = Header("Vessel")
        header.attributes = 2
        header.sent_time = header.server_sent_time = 100.0 + position
        header.sender, header.sequence = 5, position
        header.position, header.node, header.from_cache = position, node, left
        header.subject = subject
        assert self.witness.intake.take_one(header, TYPES.Vessel(mmsi=mmsi).encode())

    def rows(self) -> list[dict[str, Any]]:
        return list(to_record_batch(self.queue.rows.take()).to_pylist())

    def gaps(self) -> list[tuple[int, Gap]]:
        return [(r["node"], gap_of(r["payload"])) for r in self.rows() if r["operation"] == GAP]


def s(seconds: int) -> int:
    return seconds * 1_000_000_000


def test_descriptions_of_the_node_are_learned_and_those_of_clients_are_not() -> None:
    stage = Stage()
    other = skerry.define_types("struct Vessel { 1: [key] string name; }").Vessel
    stage.describe(other, position=5)
    assert stage.witness.intake.types["Vessel"].plan.fields[0].name == "mmsi"
    stage.describe(other)
    assert stage.witness.intake.types["Vessel"].plan.fields[0].name == "name"
    stage.witness.learn_type(Header("StructDescriptorData"), b"\xff")
    stage.witness.learn_type(Header("DotsEcho"), b"\xa0")


def test_missed_updates_are_counted_by_position() -> None:
    stage = Stage()
    stage.emit(1, position=10)
    stage.witness.connection_lost()
    stage.emit(1, position=10, left=0)
    stage.emit(1, position=15)
    gap = Gap(count=4, first=11, stop=15, reason=LOST, first_ns=s(110), last_ns=s(115))
    assert stage.gaps() == [(7, gap)]


def test_of_a_part_all_that_may_be_missing_is_counted() -> None:
    stage = Stage(is_whole=False)
    stage.emit(1, position=10)
    stage.witness.connection_lost()
    stage.emit(1, position=12)
    ((_, gap),) = stage.gaps()
    assert (gap.count, gap.reason) == (1, f"{LOST}; the count is of all updates")


def test_no_missed_updates_give_no_gap() -> None:
    stage = Stage()
    stage.emit(1, position=10)
    stage.witness.connection_lost()
    stage.emit(1, position=11)
    assert stage.gaps() == []


@pytest.mark.parametrize(("node", "position"), [(8, 3), (8, 30), (7, 3)])
def test_a_gap_to_another_node_has_unknown_size(node: int, position: int) -> None:
    stage = Stage()
    stage.emit(1, position=10)
    stage.witness.connection_lost()
    stage.emit(1, position=position, node=node)
    ((where, gap),) = stage.gaps()
    assert (where, gap.count, gap.first, gap.stop) == (7, 0, 11, 0)
    assert gap.reason == f"{LOST}: the node was restarted"


def test_lost_twice_counts_from_the_first_time() -> None:
    stage = Stage()
    stage.emit(1, position=10)
    stage.witness.connection_lost()
    stage.emit(2, position=12, left=0)
    stage.witness.connection_lost()
    stage.emit(1, position=20)
    ((_, gap),) = stage.gaps()
    assert (gap.first, gap.stop) == (11, 20)


def test_objects_missing_in_the_new_snapshot_are_removed() -> None:
    stage = Stage()
    stage.emit(1, position=1)
    stage.emit(2, position=2)
    stage.emit(3, position=3, subject="/odd/3")
    stage.witness.connection_lost()
    states = [stage.witness.has_previous]
    stage.emit(2, position=2, left=0)
    stage.rows()
    stage.witness.finish_snapshot()
    states.append(stage.witness.has_previous)
    assert states == [True, False]
    rows = stage.rows()
    assert [(r["operation"], r["subject"]) for r in rows] == [
        (REMOVE, "/Vessel/1"),
        (REMOVE, "/Vessel/3"),
    ]
    first = rows[0]
    assert first["payload"] == TYPES.Vessel(mmsi=1).encode()
    assert (first["present"], first["key"], first["sequence"]) == (2, b"\x81\x01", 0)
    assert (first["node"], first["position"], first["time_ns"]) == (7, 0, s(103))


def test_an_end_without_the_node_is_one_gap() -> None:
    stage = Stage()
    stage.witness.end()
    assert stage.queue.rows.count == 0
    stage.emit(1, position=4)
    stage.witness.connection_lost()
    stage.witness.end()
    stage.witness.end()
    ((_, gap),) = stage.gaps()
    assert gap.reason == f"{LOST}, until the recording ended"


@pytest.mark.parametrize(
    "obj", [TYPES.Vessel(mmsi=7), TYPES.Leg(a="x", b=300), TYPES.Mode()], ids=["1", "2", "none"]
)
def test_the_object_of_a_key_has_that_key_and_nothing_else(obj: Any) -> None:
    plan = codec_of(type(obj)).plan
    key = canonical_key(plan, split(plan, obj.encode(), 0))
    assert payload_of_key(plan, key) == obj.encode()


AWAY = "the recorder was not running"


def test_updates_without_a_recorder_are_a_gap_with_their_count() -> None:
    stage = Stage()
    stage.witness.resume_after(ResumePoint(node=7, position=10, time_ns=s(110)))
    stage.emit(1, position=12, left=0)
    stage.emit(2, position=15)
    expected = Gap(count=4, first=11, stop=15, reason=AWAY, first_ns=s(110), last_ns=s(115))
    assert stage.gaps() == [(7, expected)]


def test_a_recorder_that_missed_nothing_writes_no_gap() -> None:
    stage = Stage()
    stage.witness.resume_after(ResumePoint(node=7, position=10, time_ns=s(110)))
    stage.emit(2, position=11)
    assert stage.gaps() == []


def test_a_recording_of_another_node_continues_with_a_gap_of_unknown_size() -> None:
    stage = Stage()
    stage.witness.resume_after(ResumePoint(node=7, position=10, time_ns=s(110)))
    stage.emit(2, position=15, node=8)
    ((node, gap),) = stage.gaps()
    assert (node, gap.count, gap.first, gap.stop) == (7, 0, 11, 0)
    assert gap.reason == f"{AWAY}: the node was restarted"
    assert (gap.first_ns, gap.last_ns) == (s(110), s(115))


def test_a_recording_without_positions_continues_with_a_gap_in_time() -> None:
    stage = Stage()
    stage.witness.resume_after(ResumePoint(node=0, position=0, time_ns=s(90)))
    stage.emit(2, position=15)
    assert stage.gaps() == [(0, Gap(count=0, reason=AWAY, first_ns=s(90), last_ns=s(115)))]


def test_a_host_that_does_not_count_leaves_a_gap_of_unknown_size() -> None:
    stage = Stage()
    stage.emit(1, position=-1)
    stage.witness.connection_lost()
    stage.emit(1, position=-1)
    ((node, gap),) = stage.gaps()
    assert (node, gap.count, gap.first, gap.stop, gap.reason) == (7, 0, 0, 0, LOST)


def test_a_connection_lost_after_resuming_has_its_own_reason() -> None:
    stage = Stage()
    stage.witness.resume_after(ResumePoint(node=7, position=10, time_ns=s(110)))
    stage.emit(1, position=11)
    stage.witness.connection_lost()
    stage.emit(1, position=20)
    assert [gap.reason for _, gap in stage.gaps()] == [LOST]
    stage.witness.resume_after(ResumePoint(node=7, position=20, time_ns=s(120)))
    stage.witness.end()
    assert [gap.reason for _, gap in stage.gaps()] == [f"{AWAY}, until the recording ended"]


def test_an_object_without_a_readable_key_is_not_removed_some_day() -> None:
    stage = Stage()
    header = Header("Vessel")
    header.attributes, header.position, header.node = 2, 1, 7
    assert stage.witness.intake.take_one(header, b"\xa1\x01\x63abc")
    stage.witness.connection_lost()
    stage.witness.finish_snapshot()
    assert [row["operation"] for row in stage.rows()] == [UPDATE]


def test_types_past_the_bound_are_not_learned() -> None:
    stage = Stage()
    types = stage.witness._types
    for number in range(TYPE_COUNT_MAX - len(types._named)):
        types._named[f"T{number}"] = TYPES.Mode.descriptor
    stage.describe(TYPES.Leg)
    assert "Leg" not in types.known
    del types._named["T0"]
    stage.describe(TYPES.Leg)
    assert "Leg" in types.known


def test_a_node_lost_before_its_first_update_leaves_a_gap_at_the_current_time() -> None:
    stage = Stage()
    before_ns = wall_ns()
    stage.witness.connection_lost()
    stage.witness.end()
    ((_, gap),) = stage.gaps()
    assert before_ns <= gap.first_ns <= wall_ns()
