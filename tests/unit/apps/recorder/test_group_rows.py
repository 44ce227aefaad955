"""Rows of updates from a multicast group: sequence numbers, bytes and objects."""

from __future__ import annotations

import math
from typing import Any

import pytest

import skerry
from skerry.apps.recorder.group_rows import DATAGRAM_SPAN, RECORDER_WAITING_BYTES_MAX, GroupRows
from skerry.apps.recorder.recorded_types import RecordedTypes
from skerry.apps.recorder.row_queue import RowQueue
from skerry.codec.envelope import CREATE, DISTRIBUTOR, REMOVE, UPDATE
from skerry.objects.base import codec_of, key_of
from skerry.objects.descriptors import describe
from skerry.objects.internal import internal_class
from skerry.objects.times import ns_of_seconds
from skerry.protocol.access.header import Header, write_header
from skerry.recording.format import to_record_batch
from skerry.schema.fingerprint import fingerprint

TYPES = skerry.define_types(
    "struct Ping [cached=false] { 1: [key] uint32 id; 2: string text; }"
    "struct Boat { 1: [key] uint32 id; }"
)
SENDER, TIME = -12345, 1_700_000_000_000_000_000


class Stage:
    def __init__(self, **options: Any) -> None:
        self.queue = RowQueue(space="local", row_count_max=1000)
        self.types = RecordedTypes(DISTRIBUTOR)
        self.intake = GroupRows(self.queue, self.types.known, space="local", **options)
        self.intake.by_sender = self.types.by_sender
        self.intake.on_description = self.described

    def described(self, descriptor: str, payload: bytes, sender: int) -> None:
        type_ = self.types.learn(descriptor, payload, sender=sender)
        if type_ is not None:
            self.intake.type_described(type_.name)

    def take_objects(self, *updates: tuple[str, bytes], sender: int = SENDER) -> None:
        self.intake.take_objects(list(updates), [(0, 10 * DATAGRAM_SPAN)], sender, TIME)

    def rows(self) -> list[dict[str, Any]]:
        return list(to_record_batch(self.queue.rows.take()).to_pylist())


@pytest.fixture
def stage() -> Stage:
    return Stage()


def body(obj: Any, *, is_remove: bool = False) -> bytes:
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    header.sent_time = 1_700_000_000.0
    header.remove_obj = int(is_remove)
    return write_header(header) + bytes(obj.encode())


def ping(number: int = 1) -> tuple[str, bytes]:
    return f"/Ping/{number}", body(TYPES.Ping(id=number, text="x"))


def description(cls: Any) -> tuple[str, bytes]:
    obj = describe(cls.descriptor)
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    return f"/StructDescriptorData/{cls.descriptor.name}", write_header(header) + obj.encode()


def test_objects_are_recorded_with_the_definition_of_their_sender(stage: Stage) -> None:
    newer = skerry.define_types(
        "struct Ping [cached=false] { 1: [key] uint32 id; 2: string text; 3: float64 wait; }"
    ).Ping
    other = skerry.define_types("struct Ping [cached=false] { 2: [key] string text; }").Ping
    for sender, cls in ((1, TYPES.Ping), (2, newer), (3, other), (1, TYPES.Ping)):
        stage.take_objects(description(cls), sender=sender)
    sent = [
        (1, TYPES.Ping(id=1, text="x")),
        (2, newer(id=2, text="x", wait=0.5)),
        (3, other(text="y")),
        (1, TYPES.Ping(id=3)),
        (4, other(text="z")),
    ]
    for sender, obj in sent:
        stage.take_objects(("/Ping/1", body(obj)), sender=sender)
    rows = stage.rows()
    assert [row["fingerprint"] for row in rows] == [fingerprint(o.descriptor) for _, o in sent]
    assert [row["payload"] for row in rows] == [obj.encode() for _, obj in sent]
    assert [row["key"] for row in rows] == [key_of(obj) for _, obj in sent]


def test_bytes_are_numbered_by_datagram_and_index(stage: Stage) -> None:
    updates = [("/a", b"1"), ("/b", b""), ("/a", bytes(300))]
    numbers = [(0, 7 * DATAGRAM_SPAN), (2, 8 * DATAGRAM_SPAN)]
    stage.intake.take_bytes(updates, numbers, SENDER, TIME)
    rows = stage.rows()
    assert [row["sequence"] for row in rows] == [458752, 458753, 524288]
    assert [row["position"] for row in rows] == [row["sequence"] for row in rows]
    assert [row["subject"] for row in rows] == ["/a", "/b", "/a"]
    decoded = [internal_class("SkerryBytes").decode(row["payload"]).data for row in rows]
    assert decoded == [b"1", b"", bytes(300)]
    assert {key: rows[0][key] for key in ("sender", "node", "time_ns", "sent_ns", "source")} == {
        "sender": SENDER,
        "node": SENDER,
        "time_ns": TIME,
        "sent_ns": None,
        "source": DISTRIBUTOR,
    }
    assert (rows[0]["type"], rows[0]["operation"]) == ("SkerryBytes", CREATE)
    assert rows[0]["key"] == codec_of(internal_class("SkerryBytes")).key_of(
        codec_of(internal_class("SkerryBytes")).split(rows[0]["payload"])
    )
    assert stage.intake.received_count == 3


def test_full_batches_are_handed_over(stage: Stage) -> None:
    stage.intake.row_count_max = 2
    stage.intake.take_bytes([("/a", b"1")] * 5, [(0, 0)], SENDER, TIME)
    assert stage.queue.row_count == 4
    stage.intake.row_count_max = 1
    stage.take_objects(description(TYPES.Ping), ping())
    assert stage.queue.row_count == 6


def test_an_object_has_the_key_and_definition_of_its_type(stage: Stage) -> None:
    stage.take_objects(description(TYPES.Ping), ping(9))
    (row,) = stage.rows()
    assert (row["type"], row["key"], row["operation"]) == ("Ping", b"\x81\x09", CREATE)
    assert row["fingerprint"] == fingerprint(TYPES.Ping.descriptor)
    assert row["sequence"] == 10 * DATAGRAM_SPAN + 1
    assert row["sent_ns"] == 1_700_000_000_000_000_000
    assert row["payload"] == TYPES.Ping(id=9, text="x").encode()


def test_cached_objects_of_a_group_are_updated_and_removed(stage: Stage) -> None:
    boat = TYPES.Boat(id=1)
    stage.take_objects(
        description(TYPES.Boat), ("/Boat/1", body(boat)), ("/Boat/1", body(boat, is_remove=True))
    )
    assert [row["operation"] for row in stage.rows()] == [UPDATE, REMOVE]


def test_objects_wait_for_the_description_of_their_type(stage: Stage) -> None:
    stage.take_objects(ping(1), ("/Boat/1", body(TYPES.Boat(id=1))))
    assert stage.queue.rows.count == 0
    stage.take_objects(description(TYPES.Ping))
    (row,) = stage.rows()
    assert (row["type"], row["sequence"]) == ("Ping", 10 * DATAGRAM_SPAN)
    stage.intake.write_waiting()
    (row,) = stage.rows()
    assert (row["type"], row["key"], row["fingerprint"]) == ("Boat", b"", 0)


def test_past_the_bound_the_oldest_are_recorded_without_a_description() -> None:
    size = len(TYPES.Ping(id=1, text="x").encode()) + 500
    stage = Stage(waiting_bytes_max=2 * size)
    stage.take_objects(ping(1), ping(2), ping(3))
    (row,) = stage.rows()
    assert (row["subject"], row["fingerprint"]) == ("/Ping/1", 0)
    assert 2 * size < RECORDER_WAITING_BYTES_MAX


def test_only_wanted_types_are_recorded(stage: Stage) -> None:
    stage.intake.wanted = frozenset({"Boat"})
    stage.take_objects(description(TYPES.Ping), ping())
    assert stage.queue.rows.count == 0


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xa0", write_header(Header("Ping"))])
def test_updates_that_are_not_objects_are_counted(stage: Stage, data: bytes) -> None:
    stage.take_objects(("/x", data))
    assert stage.intake.unreadable_count == 1
    assert stage.queue.rows.count == 0


def test_an_object_of_another_definition_is_kept_without_a_key(stage: Stage) -> None:
    other = skerry.define_types("struct Ping [cached=false] { 1: [key] string id; }").Ping
    stage.take_objects(description(TYPES.Ping), ("/Ping/a", body(other(id="a"))))
    (row,) = stage.rows()
    assert (row["key"], row["fingerprint"]) == (b"", 0)
    assert stage.intake.unreadable_count == 1


def test_many_sizes_are_remembered_up_to_a_bound(stage: Stage) -> None:
    for size in range(4100):
        stage.intake.take_bytes([("/a", bytes(size))], [(0, 0)], SENDER, TIME)
    assert stage.intake.received_count == 4100


@pytest.mark.parametrize("sent_s", [math.nan, math.inf, -math.inf, 1e300, 1e12])
def test_a_time_that_is_none_does_not_disturb(stage: Stage, sent_s: float) -> None:
    header = Header("Ping")
    header.attributes = 2
    header.sent_time = sent_s
    hostile = write_header(header) + TYPES.Ping(id=1).encode()
    stage.take_objects(description(TYPES.Ping), ("/Ping/1", hostile), ping(2))
    assert [row["sent_ns"] for row in stage.rows()] == [None, 1_700_000_000_000_000_000]


def test_times_are_kept_to_the_nanosecond_that_a_header_tells(stage: Stage) -> None:
    header = Header("Ping")
    header.attributes = 2
    header.sent_time = 1_700_000_000.123456
    update = ("/Ping/1", write_header(header) + TYPES.Ping(id=1).encode())
    stage.take_objects(description(TYPES.Ping), update)
    (row,) = stage.rows()
    assert row["sent_ns"] == ns_of_seconds(1_700_000_000.123456)


def test_objects_without_content_that_wait_are_bounded_too() -> None:
    stage = Stage(waiting_bytes_max=5000)
    header = Header("Boat")
    header.attributes = 0
    for _ in range(30):
        stage.take_objects(("/Boat", write_header(header) + b"\xa0"))
    assert 0 < len(stage.intake._waiting) <= 10
