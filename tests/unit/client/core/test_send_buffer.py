"""Publishes as frames, and the buffer in which they wait."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from skerry import build_info
from skerry.client.core.send_buffer import SEND_SUBJECT_COUNT_MAX, SendBuffer, SendPlan, raw_payload
from skerry.errors import EncodeError, LocalProtocolError, WouldBlock
from skerry.limits import FRAME_BYTES_MAX, PAYLOAD_BYTES_MAX, SEND_BYTES_MAX
from skerry.objects.base import codec_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.outgoing import Outgoing
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import Only, Shout, Vessel


def nothing(_type: Any) -> None:
    """Describe nothing."""


def plan_of(cls: Any) -> SendPlan:
    return SendPlan(codec_of(cls), cls.descriptor.flags.cached)


def usual(obj: Any, attributes: int, *, remove: bool = False, subject: str = "") -> bytes:
    """The frame as the wire makes it of a header."""
    header = Header(obj.descriptor.name)
    header.sent_time = 12.5
    header.attributes = attributes
    header.remove_obj = int(remove)
    header.subject = subject
    return Wire().frame(header, codec_of(type(obj)).encode_only(obj, attributes))


@pytest.mark.parametrize("wire", [None, Wire()])
@pytest.mark.parametrize("subject", ["", "/nav/1", "/" + "x" * 300])
def test_frame_is_that_of_the_wire(wire: Wire | None, subject: str) -> None:
    for obj in (Vessel(mmsi=1, name="a", lat=2.0), Only(text="x" * 1000), Shout()):
        frame = plan_of(type(obj)).update(obj, -1, subject, 12.5, wire)
        assert frame == usual(obj, int(obj.attributes), subject=subject)


def test_selection_and_removal_contain_only_their_fields() -> None:
    plan, obj = plan_of(Vessel), Vessel(mmsi=1, name="a", lat=2.0)
    assert plan.update(obj, 10, "", 12.5, None) == usual(obj, 10)
    assert plan.removal(obj, "", 12.5, None) == usual(obj, 2, remove=True)


def test_bytes_under_a_subject_are_an_object() -> None:
    cls = internal_class("SkerryBytes")
    frame = plan_of(cls).raw(raw_payload(b"abc"), "/a/b", 12.5, None)
    assert frame == usual(cls(data=b"abc"), 2, subject="/a/b")


def test_all_key_fields_must_be_set() -> None:
    with pytest.raises(LocalProtocolError, match="without its key mmsi"):
        plan_of(Vessel).update(Vessel(name="a"), -1, "", 1.0, None)
    with pytest.raises(LocalProtocolError, match="without its key mmsi"):
        plan_of(Vessel).removal(Vessel(), "", 1.0, None)


@pytest.mark.slow
def test_no_frame_is_longer_than_the_limit() -> None:
    subject = "/" + "x" * (FRAME_BYTES_MAX - PAYLOAD_BYTES_MAX)
    obj = Only(text="x" * (PAYLOAD_BYTES_MAX - 10))
    with pytest.raises(EncodeError, match="the limit is"):
        plan_of(Only).update(obj, -1, subject, 1.0, None)


def test_types_are_described_before_their_first_object() -> None:
    buffer, outgoing, described = SendBuffer(1000, None), Outgoing(), []
    assert buffer.add(b"a1", "A", "A")
    assert not buffer.add(b"b1", "B", "B"), "the driver was woken before"
    assert not buffer.add(b"a2", "A", "A")
    assert buffer.types() == ["A", "B"]

    def describe(type_: Any) -> None:
        described.append((type_, outgoing.size))

    assert buffer.move(outgoing, describe) == 6
    assert outgoing.take() == b"a1b1a2"
    assert described == [("A", 0), ("B", 2)]
    assert (buffer.waiting.added_count, buffer.moved_count) == (3, 3)
    assert buffer.add(b"a3", "A", "A"), "the driver must be woken again"


def test_moved_bytes_count_until_they_are_written() -> None:
    buffer, outgoing = SendBuffer(10, None), Outgoing()
    buffer.add(b"x" * 10, "A", "A")
    buffer.move(outgoing, nothing)
    with pytest.raises(WouldBlock, match="10 bytes wait to be sent, the limit is 10"):
        buffer.add(b"x", "A", "A")
    buffer.written(10)
    assert buffer.waiting.size == 0
    assert buffer.add(b"x", "A", "A")


def test_default_limit_fits_the_longest_frame_and_not_much_more() -> None:
    buffer = SendBuffer(SEND_BYTES_MAX, None)
    buffer.add(bytes(FRAME_BYTES_MAX), "A", "A")
    with pytest.raises(WouldBlock):
        buffer.add(bytes(FRAME_BYTES_MAX), "A", "A")


def test_driver_is_not_woken_while_it_is_about_to_write() -> None:
    buffer = SendBuffer(1000, None)
    buffer.note_awaited()
    assert not buffer.add(b"x", "A", "A")


def test_no_frame_of_many_threads_is_lost() -> None:
    buffer, outgoing = SendBuffer(10**9, threading.Lock()), Outgoing()

    def publish(name: str) -> None:
        for _ in range(1000):
            buffer.add(name.encode(), name, name)

    threads = [threading.Thread(target=publish, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        buffer.written(buffer.move(outgoing, nothing))
    buffer.written(buffer.move(outgoing, nothing))
    assert len(outgoing.take()) == 4000
    assert buffer.waiting.size == 0


# -- the short way

FAST_PATH = pytest.mark.skipif(
    build_info.mode() != "compiled", reason="the uncompiled build has no fast path"
)


def short_buffer(bytes_max: int = 10_000) -> SendBuffer:
    buffer = SendBuffer(bytes_max, None)
    buffer.waiting.is_short = True
    return buffer


@FAST_PATH
def test_fast_path_writes_the_same_frames() -> None:
    buffer, outgoing = short_buffer(), Outgoing()
    waiting = buffer.waiting
    objects = [Vessel(mmsi=1, name="a", lat=2.0), Only(text="x" * 300)]
    for obj in objects:
        assert waiting.put(obj, None, None, 12.5) == -1, "its class is new"
        buffer.waiting.templates[type(obj)] = plan_of(type(obj)).template
        assert waiting.put(obj, None, None, 12.5) in (0, 1)
    buffer.note_subject("/a/b")
    assert waiting.put("/a/c", b"abc", None, 12.5) == -1
    assert waiting.put("/a/b", b"abc", None, 12.5) == 0
    assert (buffer.waiting.added_count, buffer.waiting.is_short) == (3, True)
    assert buffer.move(outgoing, nothing) == buffer.waiting.size
    raw = internal_class("SkerryBytes")(data=b"abc")
    frames = [usual(obj, int(obj.attributes)) for obj in objects]
    assert outgoing.take() == b"".join([*frames, usual(raw, 2, subject="/a/b")])


@FAST_PATH
def test_objects_with_subjects_have_a_fast_path() -> None:
    buffer, outgoing = short_buffer(10**9), Outgoing()
    waiting, plan, vessel = buffer.waiting, plan_of(Vessel), Vessel(mmsi=1, name="a")
    assert waiting.put(vessel, None, "/a/b", 12.5) == -1, "the subject is new"
    buffer.note_object_under(Vessel, "/a/b", plan)
    assert waiting.put(vessel, None, "/a/c", 12.5) == -1
    assert waiting.put(Vessel(name="no key"), None, "/a/b", 12.5) == -1
    assert waiting.put(vessel, None, "/a/b", 12.5) == 1
    buffer.move(outgoing, nothing)
    assert outgoing.take() == usual(vessel, int(vessel.attributes), subject="/a/b")
    for number in range(SEND_SUBJECT_COUNT_MAX):
        buffer.note_object_under(Vessel, f"/{number}", plan)
    assert waiting.put(vessel, None, "/a/b", 12.5) == -1
    buffer.waiting.forget_subjects()
    assert waiting.put(vessel, None, "/1", 12.5) == -1


@FAST_PATH
def test_frames_of_both_paths_stay_in_order() -> None:
    buffer, outgoing, described = short_buffer(), Outgoing(), []
    first, second = Vessel(mmsi=1), Vessel(mmsi=2)
    buffer.waiting.templates[Vessel] = plan_of(Vessel).template
    buffer.waiting.put(first, None, None, 12.5)
    buffer.add(b"other", "Other", "Other")
    buffer.waiting.put(second, None, None, 12.5)
    buffer.move(outgoing, lambda type_: described.append((type_, int(outgoing.size))))
    assert described == [("Other", len(usual(first, 2)))]
    assert outgoing.take() == usual(first, 2) + b"other" + usual(second, 2)


@FAST_PATH
def test_cached_subjects_are_limited() -> None:
    buffer = short_buffer(10**9)
    waiting = buffer.waiting
    for number in range(SEND_SUBJECT_COUNT_MAX):
        buffer.note_subject(f"/{number}")
    assert waiting.put("/0", b"", None, 1.0) >= 0
    buffer.note_subject("/one/more")
    assert waiting.put("/0", b"", None, 1.0) == -1
    assert waiting.put("/one/more", b"", None, 1.0) >= 0
    buffer.waiting.forget_subjects()
    assert waiting.put("/one/more", b"", None, 1.0) == -1


def test_lock_can_be_replaced_after_a_fork() -> None:
    held, lock = threading.Lock(), threading.Lock()
    buffer = SendBuffer(1000, held)
    held.acquire()
    buffer.renew_lock(lock)
    assert buffer.waiting.lock is lock
    assert buffer.add(b"frame", Vessel.descriptor, "Vessel")
    buffer.written(2)
    assert buffer.waiting.size == 3
