"""Rows of updates from a node: operations, subjects, times and numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import skerry
from skerry.apps.recorder.node_rows import RECORDER_OBJECT_COUNT_MAX, NodeRows, RecordedType
from skerry.apps.recorder.recorded_types import RecordedTypes
from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.envelope import ACCESS, CREATE, INTERNAL, REMOVE, SNAPSHOT, UPDATE
from skerry.codec.frame import FrameCutter
from skerry.limits import RECORDER_SUBJECT_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import frame_of
from skerry.recording.format import to_record_batch
from skerry.schema.fingerprint import fingerprint

TYPES = skerry.define_types(
    """
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; }
    struct Hail [cached=false] { 1: [key] uint32 to; 2: string text; }
    struct Mode { 1: string name; }
    """
)
NODE = -77
WALL_S = 1_700_000_000.5


class Stage:
    """An intake with its queue and its rows."""

    def __init__(self, **options: Any) -> None:
        self.queue = RowQueue(space="harbour", row_count_max=1000)
        self.intake = NodeRows(self.queue, space="harbour", **options)
        self.intake.types = RecordedTypes().known
        for cls in (TYPES.Vessel, TYPES.Hail, TYPES.Mode):
            self.intake.types[cls.descriptor.name] = RecordedType(
                codec_of(cls).plan,
                fingerprint=fingerprint(cls.descriptor),
                is_cached=cls.descriptor.flags.cached,
                source=ACCESS,
                is_service=False,
            )
        self.served: list[str] = []
        self.intake.on_service = lambda header, _payload: self.served.append(header.type_name)
        self.resumed: list[tuple[int, int, int]] = []
        self.intake.on_resumed = lambda *facts: self.resumed.append(facts)
        self._position = 0

    def frame(self, obj: Any, **facts: Any) -> bytes:
        """The frame of an object as a node sends it, live unless `from_cache` is given."""
        self._position += 1
        header = Header(obj.descriptor.name)
        header.sent_time = facts.get("sent_time", WALL_S)
        header.server_sent_time = facts.get("server_sent_time", WALL_S + 1)
        header.attributes = int(obj.attributes)
        header.sender = facts.get("sender", 5)
        header.remove_obj = int(facts.get("is_remove", False))
        header.from_cache = facts.get("from_cache", -1)
        header.subject = facts.get("subject", "")
        header.node = facts.get("node", NODE)
        header.position = facts.get("position", self._position)
        header.sequence = facts.get("sequence", 100 + self._position)
        return frame_of(header, obj.encode())

    def take(self, *frames: bytes) -> bool:
        cutter = FrameCutter()
        cutter.load(b"".join(frames))
        return self.intake.take_frames(cutter)

    def rows(self) -> list[dict[str, Any]]:
        columns = self.queue.rows.take()
        return list(to_record_batch(columns).to_pylist())

    def row(self, obj: Any, **facts: Any) -> dict[str, Any]:
        assert self.take(self.frame(obj, **facts))
        (row,) = self.rows()
        return row


@pytest.fixture
def stage() -> Stage:
    return Stage()


def vessel(mmsi: int = 7, name: str = "Maren") -> Any:
    return TYPES.Vessel(mmsi=mmsi, name=name)


def test_a_row_has_all_facts_of_an_update(stage: Stage) -> None:
    row = stage.row(vessel())
    assert row == {
        "time_ns": 1_700_000_001_500_000_000,
        "sent_ns": 1_700_000_000_500_000_000,
        "space": "harbour",
        "subject": "/Vessel/7",
        "type": "Vessel",
        "fingerprint": fingerprint(TYPES.Vessel.descriptor),
        "operation": CREATE,
        "present": 0b110,
        "key": b"\x81\x07",
        "sender": 5,
        "node": NODE,
        "sequence": 101,
        "position": 1,
        "source": ACCESS,
        "payload": vessel().encode(),
    }


def test_create_update_and_remove_are_distinguished(stage: Stage) -> None:
    assert stage.row(vessel())["operation"] == CREATE
    assert stage.row(vessel())["operation"] == UPDATE
    assert stage.row(vessel(8))["operation"] == CREATE
    gone = stage.row(TYPES.Vessel(mmsi=7), is_remove=True)
    assert (gone["operation"], gone["subject"], gone["key"]) == (REMOVE, "/Vessel/7", b"\x81\x07")
    assert stage.row(vessel())["operation"] == CREATE
    assert stage.intake.object_count == 2


def test_a_cached_object_is_a_snapshot_row_with_the_time_of_its_change(stage: Stage) -> None:
    row = stage.row(vessel(), from_cache=0, sequence=-1, position=40)
    assert (row["operation"], row["sequence"], row["position"]) == (SNAPSHOT, 0, 40)
    assert row["time_ns"] == row["sent_ns"] == 1_700_000_000_500_000_000
    assert stage.row(vessel())["operation"] == UPDATE


def test_messages_are_always_new_and_their_subjects_are_remembered_up_to_a_bound() -> None:
    stage = Stage(subject_count_max=2)
    for number in (1, 2, 3, 1):
        row = stage.row(TYPES.Hail(to=number, text="ahoy"))
        assert (row["operation"], row["subject"]) == (CREATE, f"/Hail/{number}")
        assert len(stage.intake.types["Hail"].subjects) <= 2
    assert RECORDER_SUBJECT_COUNT_MAX >= 2


def test_a_type_without_key_has_the_subject_of_its_name(stage: Stage) -> None:
    row = stage.row(TYPES.Mode(name="night"))
    assert (row["subject"], row["key"], row["operation"]) == ("/Mode", b"\x80", CREATE)
    assert stage.row(TYPES.Mode(name="day"))["operation"] == UPDATE


def test_a_chosen_subject_is_kept_and_the_default_one_restored(stage: Stage) -> None:
    assert stage.row(vessel(), subject="/nav/7")["subject"] == "/nav/7"
    row = stage.row(vessel())
    assert (row["subject"], row["operation"]) == ("/Vessel/7", UPDATE)


def test_updates_of_the_node_have_their_position_as_sequence(stage: Stage) -> None:
    row = stage.row(TYPES.Vessel(mmsi=7), is_remove=True, sender=1, sequence=-1, position=9)
    assert (row["sender"], row["sequence"], row["position"]) == (1, 9, 9)


def test_a_host_that_does_not_count_is_counted_for(stage: Stage) -> None:
    for number in (1, 2):
        row = stage.row(vessel(number), node=0, position=-1, sequence=-1)
        assert (row["node"], row["position"], row["sequence"]) == (0, number, 0)


def test_internal_types_are_rows_of_their_own_source(stage: Stage) -> None:
    row = stage.row(internal_class("DotsClient")(id=3, name="x"), sender=1)
    assert (row["type"], row["source"], row["subject"]) == ("DotsClient", INTERNAL, "/DotsClient/3")
    row = stage.row(internal_class("SkerryBytes")(data=b"x"), subject="/prices/A")
    assert (row["source"], row["subject"]) == (ACCESS, "/prices/A")


def test_protocol_messages_are_left_to_the_space(stage: Stage) -> None:
    messages = internal_class("DotsCacheInfo")(typeName="/...", endTransmission=True)
    frame = stage.frame(messages, position=-1, sequence=-1)
    assert not stage.take(frame, stage.frame(vessel()))
    assert stage.served == ["DotsCacheInfo"]
    assert stage.queue.rows.count == 0


def test_a_description_that_a_client_published_is_a_row_and_the_space_sees_it_too(
    stage: Stage,
) -> None:
    described = internal_class("EnumDescriptorData")(name="Kind")
    assert not stage.take(stage.frame(described))
    (row,) = stage.rows()
    assert (row["type"], row["operation"]) == ("EnumDescriptorData", CREATE)


def test_an_unknown_type_is_left_to_the_space(stage: Stage) -> None:
    stranger = skerry.define_types("struct Stranger { 1: [key] uint32 id; }").Stranger(id=1)
    assert not stage.take(stage.frame(stranger))


def test_bytes_that_are_not_of_the_type_are_kept_without_a_key(stage: Stage) -> None:
    header = Header("Vessel")
    header.attributes = 2
    assert stage.intake.take_one(header, b"\xa1\x01\x63abc")
    (row,) = stage.rows()
    assert (row["key"], row["fingerprint"], row["subject"]) == (b"", 0, "/Vessel")
    assert row["operation"] == UPDATE, "it is not known to be new"
    assert stage.intake.unreadable_count == 1
    assert stage.intake.types["Vessel"].subjects == {}, "nor that it has to be removed some day"
    header.from_cache = 0
    assert stage.intake.take_one(header, b"\xa1\x01\x63abc")
    assert stage.rows()[0]["operation"] == SNAPSHOT


@pytest.mark.parametrize("sent_s", [math.nan, math.inf, 1e300])
def test_invalid_times_of_a_host_are_tolerated(stage: Stage, sent_s: float) -> None:
    row = stage.row(vessel(), sent_time=sent_s, server_sent_time=sent_s)
    assert (row["sent_ns"], row["time_ns"]) == (None, 0)


def test_after_a_lost_connection_a_host_without_positions_gives_position_0(
    stage: Stage,
) -> None:
    stage.row(vessel(), position=-1)
    stage.intake.connection_lost()
    stage.row(vessel(), position=-1)
    assert [facts[1] for facts in stage.resumed] == [0]


def test_messages_of_other_wires_are_written_one_by_one(stage: Stage) -> None:
    arrived = []
    for number in (1, 2):
        header = Header("Vessel")
        header.attributes = 6
        arrived.append((header, vessel(number).encode()))
    arrived.append((Header("Stranger"), b"\xa0"))
    assert stage.intake.take(arrived, 0) == 2
    assert len(stage.rows()) == 2


def test_a_full_batch_is_handed_over(stage: Stage) -> None:
    stage.intake.row_count_max = 3
    stage.take(*(stage.frame(vessel(number)) for number in range(7)))
    assert stage.queue.row_count == 6
    stage.intake.byte_count_max = 1
    stage.take(stage.frame(vessel(9)))
    assert stage.queue.row_count == 8


def test_a_snapshot_row_is_not_later_than_its_transmission(stage: Stage) -> None:
    snapshot_ns = round((WALL_S + 1) * 1e9)
    before = stage.row(vessel(1), from_cache=0, sent_time=WALL_S)
    assert (before["time_ns"], before["sent_ns"]) == (round(WALL_S * 1e9),) * 2
    # The clock of the publisher is ahead: the next change would be ordered before the object.
    ahead = stage.row(vessel(2), from_cache=0, sent_time=WALL_S + 60)
    assert (ahead["time_ns"], ahead["sent_ns"]) == (snapshot_ns, round((WALL_S + 60) * 1e9))
    live = stage.row(vessel(2), sent_time=WALL_S + 60)
    assert live["time_ns"] == snapshot_ns


def test_above_the_bound_new_objects_are_recorded_as_updates() -> None:
    stage = Stage(object_count_max=2)
    found = [stage.row(vessel(number))["operation"] for number in (1, 2, 3, 3)]
    assert found == [CREATE, CREATE, UPDATE, UPDATE]
    assert stage.row(vessel(4), from_cache=0)["operation"] == SNAPSHOT
    assert stage.intake.object_count == 2 < RECORDER_OBJECT_COUNT_MAX


def test_after_a_lost_connection_the_first_update_is_noted_once(stage: Stage) -> None:
    stage.row(vessel(), position=5)
    stage.intake.connection_lost()
    assert stage.intake.types["Vessel"].previous == {b"\x81\x07": "/Vessel/7"}
    stage.row(vessel(8), from_cache=0, position=8)
    assert stage.resumed == []
    row = stage.row(vessel(), position=12)
    assert stage.resumed == [(NODE, 12, 1_700_000_001_500_000_000)]
    assert row["operation"] == CREATE
    stage.row(vessel(), position=13)
    assert len(stage.resumed) == 1


def test_objects_are_kept_when_the_connection_is_lost_twice(stage: Stage) -> None:
    stage.row(vessel(1))
    stage.intake.connection_lost()
    stage.row(vessel(2), from_cache=0)
    stage.intake.connection_lost()
    assert len(stage.intake.types["Vessel"].previous) == 2
