"""Header templates: what they write is what is written without them."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry import build_info
from skerry.codec.frame import FrameCutter
from skerry.codec.hot_loops import Frames
from skerry.engine.dispatch.cache import TypeCache
from skerry.engine.dispatch.client_queue import TIME_S_MAX, ClientQueue
from skerry.engine.dispatch.frame_forwarding import HeaderTemplate, kind_of
from skerry.engine.dispatch.topics import Topic
from skerry.objects.base import codec_of
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.wire import OldWire, Wire, frame_of

pytestmark = pytest.mark.skipif(
    build_info.mode() != "compiled", reason="the uncompiled build remembers no headers"
)

TYPES = skerry.define_types("struct Note [cached=false] { 1: [key] uint32 who; 2: uint32 number; }")
Note = TYPES.Note


def header(time_s: float, subject: str) -> Header:
    made = Header("Note")
    made.sent_time, made.attributes, made.remove_obj, made.subject = time_s, 6, 0, subject
    return made


def frames(notes: list[Any], *, subject: str = "", time_s: float = 1.0) -> bytes:
    return b"".join(frame_of(header(time_s, subject), note.encode()) for note in notes)


def template(subject: str) -> HeaderTemplate:
    facts = {"is_cached": False, "is_persistent": False, "is_special": False}
    topic = Topic(Note.descriptor, codec_of(Note).plan, TypeCache("Note"), **facts)
    queue = ClientQueue(9, Wire(), [])
    queue.source.has_subjects = True
    data = frames([Note(who=0, number=0)], subject=subject)
    assert queue.relay.pass_on(data, 0, len(data), 0.0, 1) is None
    known, _ = read_header(data[5:], 0)
    return HeaderTemplate(known, queue.relay.parts(), topic, queue.source)


def wanted(notes: list[Any], time_s: float, subject: str) -> bytes:
    made = header(time_s, subject)
    made.server_sent_time, made.sender, made.is_from_myself = 2.0, 9, 0
    return b"".join(frame_of(made, note.encode()) for note in notes)


@pytest.mark.parametrize("subject", ["", "/own/subject"])
def test_frames_are_those_of_the_usual_header(subject: str) -> None:
    notes = [Note(who=1, number=n) for n in range(300)]
    made, plain, full = template(subject), Frames(), Frames()
    cutter = FrameCutter()
    cutter.load(frames(notes, subject=subject, time_s=1.5))
    assert cutter.step()
    assert made.forward(cutter, 2.0, plain, full) == 300
    assert (cutter.frame_count, cutter.step()) == (300, False)
    assert plain.take() == wanted(notes, 1.5, "")
    assert full.take() == wanted(notes, 1.5, subject)
    single = made.form.frame(1, 1.5, 2.0, notes[0].encode())
    assert single == wanted(notes[:1], 1.5, subject)
    assert made.form.frame(0, 1.5, 2.0, notes[0].encode()) == wanted(notes[:1], 1.5, "")


def test_frames_of_version_1_are_those_of_its_framing() -> None:
    payload = Note(who=1, number=70_000).encode()
    expected = header(1.5, "")
    expected.server_sent_time, expected.sender, expected.is_from_myself = 2.0, 9, 0
    made = template("/own/subject").form.frame(2, 1.5, 2.0, payload)
    assert made == OldWire().frame(expected, payload)


def test_each_client_gets_the_form_that_it_understands() -> None:
    queues = [ClientQueue(2, Wire(), []), ClientQueue(3, Wire(), []), ClientQueue(4, OldWire(), [])]
    queues[1].has_subjects = True
    assert [kind_of(queue) for queue in queues] == [0, 1, 2]


def test_only_what_is_wanted_is_written() -> None:
    cutter, full = FrameCutter(), Frames()
    cutter.load(frames([Note(who=1, number=1)], subject="/a"))
    cutter.step()
    assert template("/a").forward(cutter, 2.0, None, full) == 1
    assert full.take() == wanted([Note(who=1, number=1)], 1.0, "/a")


@pytest.mark.parametrize(
    "stranger",
    [
        frames([Note(who=1, number=1)], time_s=TIME_S_MAX * 2),
        frames([Note(number=1)]),
        frames([Note(who=1, number=1)], subject="/other"),
    ],
    ids=["time", "key", "header"],
)
def test_forwarding_stops_before_what_needs_more(stranger: bytes) -> None:
    cutter, plain = FrameCutter(), Frames()
    good = [Note(who=1, number=n) for n in range(2)]
    cutter.load(frames(good) + stranger + frames(good))
    cutter.step()
    made = template("")
    assert made.forward(cutter, 2.0, plain, None) == 2
    assert plain.take() == wanted(good, 1.0, "")
    assert cutter.step()
    assert made.forward(cutter, 2.0, plain, None) == 0
    assert (cutter.frame_count, len(plain)) == (3, 0)
