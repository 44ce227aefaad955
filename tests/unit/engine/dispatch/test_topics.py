"""Topics, routes and news: what they say about updates and who hears of them."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.engine.dispatch.cache import Entry, TypeCache
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.topics import (
    ChangeJournal,
    OngoingRemoval,
    Route,
    RouteResolver,
    Topic,
    UpdateInTransit,
    UpdateListener,
    frame_for,
    replay_header,
)
from skerry.objects.base import codec_of, key_of
from skerry.protocol.access.header import ABSENT, Header, read_header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.schema.registry import Registry

TYPES = skerry.define_types("struct Boat { 1: [key] uint32 id; 2: string name; }")
Boat = TYPES.Boat


def topic() -> Topic:
    plan = codec_of(Boat).plan
    facts = {"is_cached": True, "is_persistent": False, "is_special": False}
    return Topic(Boat.descriptor, plan, TypeCache("Boat"), **facts)


def queue(*, subjects: bool = False, origin: bool = False, wire: Wire | None = None) -> ClientQueue:
    made = ClientQueue(2, wire or Wire(), [])
    made.has_subjects, made.has_origin = subjects, origin
    return made


def update(subject: str = "") -> UpdateInTransit:
    header = Header("Boat")
    header.sent_time, header.sequence, header.position, header.node = 1.0, 3, 4, 5
    return UpdateInTransit(topic(), header, Boat(id=7).encode(), subject)


def test_frames_are_shared_by_clients_that_receive_the_same_bytes() -> None:
    made = update("/own")
    plain, full, origin = queue(), queue(subjects=True), queue(subjects=True, origin=True)
    for one in (plain, full, origin):
        assert made.frame(one) is made.frame(one)
    frames = [made.frame(one) for one in (plain, full, origin)]
    headers = [read_header(frame, 5)[0] for frame in frames]
    assert [(h.subject, h.sequence, h.node) for h in headers] == [
        *(("", ABSENT, 0), ("/own", ABSENT, 0)),
        ("/own", 3, 5),
    ]
    assert made.frame(queue(wire=OldWire())) != frames[0]
    assert (made.header.sequence, made.header.position, made.header.node) == (3, 4, 5)


def test_news_know_the_key_of_their_object() -> None:
    made = update()
    assert made.key() == key_of(Boat(id=7))
    assert made.key() is made.key()


def test_route_is_common_when_all_take_one_of_the_few_forms() -> None:
    assert Route([queue(), queue(subjects=True), queue(wire=OldWire())], []).is_common
    assert Route([queue()], [UpdateListener()]).is_common
    assert not Route([queue(origin=True)], []).is_common
    assert not Route([queue(), queue(wire=JsonWire(Registry()))], []).is_common


def test_a_route_knows_whether_its_queues_accept_subjects() -> None:
    def kinds(*subjects: bool) -> tuple[bool, bool]:
        route = Route([queue(subjects=one) for one in subjects], [])
        return route.has_plain, route.has_full

    assert kinds() == (False, False)
    assert kinds(False) == (True, False)
    assert kinds(True) == (False, True)
    assert kinds(True, False) == (True, True)


def test_gate_is_shut_when_routes_are_forgotten() -> None:
    made = topic()
    made.routes["/a"] = Route([], [])
    before = made.gate.number
    made.forget_routes()
    assert made.routes == {}
    assert made.gate.number != before


def test_a_cached_object_is_sent_with_the_header_fields_that_the_client_understands() -> None:
    entry = Entry(
        payload=Boat(id=7).encode(),
        present=2,
        subject="/own",
        created_ns=1,
        created_from=3,
        modified_ns=2,
        modified_from=4,
        sent_ns=1_500_000_000,
        position=9,
    )
    for to in (queue(), queue(subjects=True, origin=True)):
        header = replay_header(topic(), entry, 5, 2.0, 8)
        frame = frame_for(to, header, entry.payload, entry.subject)
        ((found, payload),) = to.wire.feed(frame)
        assert payload == entry.payload
        assert (found.sent_time, found.server_sent_time, found.from_cache) == (1.5, 2.0, 5)
        assert (found.sender, found.attributes, found.remove_obj) == (4, 2, 0)
        assert found.subject == ("/own" if to.has_subjects else "")
        assert (found.position, found.node) == ((9, 8) if to.has_origin else (ABSENT, 0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: UpdateListener().receive(update()),
        lambda: UpdateListener().object_left(update()),
        lambda: OngoingRemoval().settle(b""),
        lambda: RouteResolver().resolve(topic(), ""),
        lambda: ChangeJournal().check(),
        lambda: ChangeJournal().keep(topic(), b"", None),
    ],
)
def test_abstract_methods_are_not_implemented(call: Any) -> None:
    with pytest.raises(NotImplementedError):
        call()
