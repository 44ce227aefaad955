"""Joining: selected cached objects are found in slices, while updates continue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.dispatch.cache import Entry
from skerry.limits import SELECT_SLICE_COUNT
from skerry.objects.base import key_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filter_tree import FILTER_NODE_COUNT_MAX
from skerry.protocol.patterns import covers

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Berth { 1: string note; 2: [key] uint32 pier; 3: [key] string name; 4: int32 depth; }
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }
    struct Car { 1: [key] uint32 id; }
    struct Shout [cached=false] { 1: [key] uint32 id; }
    """
)
Berth, Boat, Car, Shout = TYPES.Berth, TYPES.Boat, TYPES.Car, TYPES.Shout
JOIN = internal_class("DotsMemberEvent")["join"]
KILL = internal_class("DotsMemberEvent")["kill"]
HIDING = (
    PermissionRule(verbs=("all",), subjects=("/hidden/...",), client="reader", allow=False),
    PermissionRule(verbs=("all",)),
)


def slow_turns(harbour: Harbour, guest: Guest, look_count: int = 2) -> None:
    """Reduce the objects that are examined in one turn of a client."""
    queue = harbour.node._table.by_id[guest.client_id].queue
    queue.work_max = queue.work_left = look_count


def subject_of(obj: Any, own: str) -> str:
    keys = [getattr(obj, field.name) for field in obj.descriptor.fields if field.is_key]
    return own or "/".join(["", obj.descriptor.name, *map(str, keys)])


def selected(harbour: Harbour, cls: type[skerry.Struct], *patterns: str) -> dict[bytes, object]:
    """The cached objects of a type that any of the patterns selects."""
    found: dict[bytes, object] = {}
    for key, entry in harbour.node.cache.objects(cls.descriptor.name):
        obj = cls.decode(entry.payload)
        if any(covers(pattern, subject_of(obj, entry.subject)) for pattern in patterns):
            found[key] = obj
    return found


def counts(guest: Guest) -> list[int]:
    return [int(i.header.from_cache) for i in guest.heard if i.header.from_cache >= 0]


def is_idle(harbour: Harbour) -> bool:
    topics = harbour.node._dispatcher.topics.values()
    return all(topic.type_cache.reader_count == 0 for topic in topics)


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    """A client that published ten berths at three piers."""
    guest = harbour.guest("maker")
    guest.publish(*(Berth(pier=n % 3, name=f"b{n}", note="n", depth=n) for n in range(10)))
    return guest


def begin(harbour: Harbour, pattern: str = "/Berth/1/*", **options: Any) -> Guest:
    """A client that joined a part of the berths, during the selection of objects."""
    guest = harbour.guest("reader", **options)
    slow_turns(harbour, guest)
    guest.connection.join(pattern, 0.0)
    harbour.carry()
    harbour.carry()
    harbour.node.advance(harbour.now_ns)
    harbour.carry()
    assert guest.items("Berth") == []
    assert not is_idle(harbour)
    return guest


def names(guest: Guest) -> list[str]:
    return [berth.name for berth in guest.objects(Berth)]


def admission(**limits: Any) -> Admission:
    return Admission(AdmissionConfig(limits=ClientLimits(**limits)), rng=Random(1))


# -- joining and leaving


def test_a_repeated_join_is_answered_twice_and_delivers_once(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    maker.publish(Boat(id=1))
    guest.join("Boat")
    guest.join("Boat")
    assert guest.counts_down("Boat") == [0, 0]
    assert len(guest.messages("DotsCacheInfo")) == 2
    guest.forget()
    maker.publish(Boat(id=2))
    assert [boat.id for boat in guest.objects(Boat)] == [2]


def test_a_type_may_be_joined_before_it_is_known(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    guest.join("Boat")
    assert guest.heard == []
    maker.publish(Boat(id=1))
    assert [boat.id for boat in guest.objects(Boat)] == [1]


def test_the_member_event_kill_is_ignored(harbour: Harbour) -> None:
    guest, maker = harbour.guest(), harbour.guest("maker")
    guest.join("Boat")
    guest.send("DotsMember", groupName="Boat", event=KILL)
    maker.publish(Boat(id=1))
    assert not guest.is_cut
    assert [boat.id for boat in guest.objects(Boat)] == [1]


@pytest.mark.parametrize("fields", [{}, {"groupName": "Boat"}, {"event": JOIN}])
def test_a_client_that_joins_without_group_or_event_is_disconnected(
    fields: dict[str, Any], harbour: Harbour
) -> None:
    guest, other = harbour.guest(), harbour.guest("other")
    guest.send("DotsMember", **fields)
    assert guest.is_cut
    assert guest.fault == "DotsMember: without groupName or event"
    assert not other.is_cut


def test_joins_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(join_count_max=2))
    guest, plain = harbour.guest(), harbour.plain()
    for each in (guest, plain):
        each.join("Boat")
        each.join("/boats/*")
        each.join("Boat")
        assert not each.is_cut
        each.join("Car")
    assert guest.refusals() == [("subscribe", "Car: 2 groups joined already")]
    assert plain.is_cut
    assert plain.fault == "subscribe: Car: 2 groups joined already"
    guest.leave("Boat")
    guest.join("Car")
    assert len(guest.refusals()) == 1
    harbour.check()


def test_filtered_subscriptions_are_limited(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour(admission=admission(view_count_max=2))
    guest = harbour.guest()
    guest.describe(Boat)
    guest.open_view(Boat, 1, where="id > 1")
    guest.open_view(Boat, 2, where="id > 2")
    guest.open_view(Boat, 2, where="id > 3")
    assert guest.refusals() == []
    guest.open_view(Boat, 3, where="id > 3")
    assert guest.refusals() == [("subscribe", "Boat: 2 filtered subscriptions already")]
    guest.leave("Boat", subscription_id=1)
    guest.open_view(Boat, 3, where="id > 3")
    assert len(guest.refusals()) == 1
    harbour.check()


def test_comparisons_of_all_filtered_subscriptions_are_limited(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour(admission=admission(view_part_count_max=6))
    guest, other = harbour.guest(), harbour.guest("other")
    guest.describe(Boat)
    guest.open_view(Boat, 1, where="id > 1 or (speed < 2 and name = 'a')")
    guest.open_view(Boat, 2, where="id in (1, 2, 3, 4, 5, 6, 7) and speed > 1")
    guest.open_view(Boat, 3)
    assert guest.refusals() == []
    reason = "Boat: 7 comparisons in all filtered subscriptions, the limit is 6"
    guest.open_view(Boat, 4)
    guest.open_view(Boat, 2, where="id = 1 or id = 2 or id = 3")
    assert guest.refusals() == [("subscribe", reason)] * 2
    other.open_view(Boat, 4, where="id > 1 or speed < 2")
    assert other.refusals() == [], "each client has its own"
    guest.open_view(Boat, 1, where="id > 1")
    guest.open_view(Boat, 2, where="id = 1 or id = 2 or id = 3")
    guest.leave("Boat", subscription_id=3)
    guest.open_view(Boat, 4, where="id > 1 and speed > 1")
    assert len(guest.refusals()) == 2
    harbour.guest("maker").publish(Boat(id=3, speed=3))
    assert [len(guest.objects(Boat, number)) for number in (1, 2, 4)] == [1, 1, 1]
    harbour.check()


def test_usual_filters_are_far_below_the_limit_of_comparisons(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    most = " or ".join(f"speed = {number}" for number in range(FILTER_NODE_COUNT_MAX - 1))
    for number in range(ClientLimits().view_part_count_max // FILTER_NODE_COUNT_MAX):
        guest.open_view(Boat, number, where=most)
    assert guest.refusals() == []
    assert ClientLimits().view_part_count_max >= 5 * ClientLimits().view_count_max


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("/Berth/7/*", [(7, "a"), (7, "b")]),
        ("/Berth/*/b", [(7, "b"), (8, "b")]),
        ("/Berth/7/b", [(7, "b")]),
        ("/*/8/...", [(8, "b")]),
        ("/Berth/07/b", []),
        ("/Berth/7/b/...", []),
        ("/away/*", [(9, "a")]),
    ],
)
def test_a_pattern_finds_what_it_selects_of_a_type(
    pattern: str, found: list[tuple[int, str]], harbour: Harbour
) -> None:
    cls = skerry.define_types("struct Berth { 1: [key] uint32 pier; 2: [key] string name; }").Berth
    maker, guest = harbour.guest("maker"), harbour.guest("guest")
    maker.publish(*(cls(pier=pier, name=name) for pier, name in [(7, "a"), (7, "b"), (8, "b")]))
    maker.publish(cls(pier=9, name="a"), subject="/away/a")
    guest.join(pattern)
    assert [(berth.pier, berth.name) for berth in guest.objects(cls)] == found


# -- without a look at all


class Unlisted(dict[bytes, Entry]):
    """Objects that must not be iterated."""

    def __iter__(self) -> Any:
        raise AssertionError("all objects were looked at")

    keys = values = items = __iter__


@pytest.mark.parametrize("pattern", ["/Berth/1/b4", "/*/1/b4", "/Berth/1/none", "/Berth/x/b4"])
@pytest.mark.parametrize("own_count", [0, 3])
def test_an_object_that_a_pattern_names_is_looked_up_by_key(
    own_count: int, pattern: str, harbour: Harbour, maker: Guest
) -> None:
    for number in range(own_count):
        maker.publish(Berth(pier=9, name=f"o{number}"), subject=f"/own/{number}")
    reader = harbour.guest("reader")
    slow_turns(harbour, reader, 10)
    type_cache = harbour.node._dispatcher.topics["Berth"].type_cache
    type_cache.objects, order = Unlisted(type_cache.objects), type_cache.order
    type_cache.order = []
    reader.join(pattern)
    type_cache.objects, type_cache.order = dict(dict.items(type_cache.objects)), order
    assert names(reader) == (["b4"] if pattern.endswith("1/b4") else [])
    assert len(reader.messages("DotsCacheInfo")) == 1


def test_an_object_that_moved_away_is_not_found_where_its_key_says(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Berth(pier=1, name="b4"), subject="/away/b4")
    maker.publish(Berth(pier=2, name="b5"), subject="/Berth/1/b4")
    reader = harbour.guest("reader")
    reader.join("/Berth/1/b4")
    assert names(reader) == ["b5"]
    reader.join("/away/b4")
    assert names(reader) == ["b5", "b4"]


def test_many_objects_under_subjects_of_their_own_are_examined_in_slices(
    harbour: Harbour, maker: Guest
) -> None:
    topic = harbour.node._dispatcher.topics["Berth"]
    (known, *_) = topic.type_cache.objects.values()
    for number in range(SELECT_SLICE_COUNT + 1):
        entry = known.with_payload(known.payload, int(known.present))
        entry.subject = f"/own/{number}"
        topic.type_cache.add(b"\xff" + number.to_bytes(3, "big"), entry)
    reader = harbour.guest("reader")
    reader.connection.join("/own/7", 0.0)
    harbour.carry()
    assert topic.type_cache.reader_count == 1
    harbour.pump()
    assert [item.header.subject for item in reader.items("Berth")] == ["/own/7"]
    assert is_idle(harbour)


# -- in slices


def test_objects_are_selected_in_slices_before_the_first_is_sent(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    slow_turns(harbour, reader)
    other = harbour.guest("other")
    reader.connection.join("/Berth/1/*", 0.0)
    harbour.carry()
    turn_count = 0
    while not reader.items("Berth"):
        assert harbour.node.deadline_ns() == harbour.now_ns
        echo = internal_class("DotsEcho")(request=True, sequenceNumber=turn_count)
        other.connection.send_message(echo, 0.0)
        harbour.node.advance(harbour.now_ns)
        harbour.carry()
        turn_count += 1
    assert turn_count >= 4
    assert len(other.messages("DotsEcho")) >= turn_count - 1
    harbour.pump()
    assert names(reader) == ["b1", "b4", "b7"]
    assert counts(reader) == [2, 1, 0]
    assert reader.names()[-1] == "DotsCacheInfo"
    assert is_idle(harbour)


def test_an_object_that_changes_during_the_selection_is_sent_once(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    maker.post(Berth(pier=1, name="b1", depth=101))
    maker.post(Berth(pier=1, name="b7", depth=107))
    maker.post(Berth(pier=2, name="b2", depth=102))
    harbour.pump()
    assert [(b.name, b.depth) for b in reader.objects(Berth)] == [
        ("b1", 101),
        ("b4", 4),
        ("b7", 107),
    ]
    assert counts(reader) == [2, 1, 0]


def test_an_object_that_is_removed_during_the_selection_is_not_counted(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    maker.post(Berth(pier=1, name="b1"), is_remove=True)
    maker.post(Berth(pier=1, name="b7"), is_remove=True)
    maker.post(Berth(pier=2, name="b8"), is_remove=True)
    harbour.pump()
    notified = [(Berth.decode(i.payload).name, i.header.remove_obj) for i in reader.items("Berth")]
    assert notified == [("b1", 1), ("b7", 1), ("b4", 0)]
    assert counts(reader) == [0]


def test_an_object_that_is_created_during_the_selection_is_delivered_live(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    maker.post(Berth(pier=1, name="new", depth=1))
    maker.post(Berth(pier=1, name="new", depth=2))
    maker.post(Berth(pier=2, name="new"))
    harbour.pump()
    assert [(b.name, b.depth) for b in reader.objects(Berth)][:2] == [("new", 1), ("new", 2)]
    assert reader.sees(Berth) == selected(harbour, Berth, "/Berth/1/*")
    assert counts(reader) == [2, 1, 0]


def test_an_object_that_moves_to_another_subject_is_not_replayed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    for name in ("b1", "b7"):
        maker.post(Berth(pier=1, name=name, depth=9), subject=f"/away/{name}")
    maker.post(Berth(pier=2, name="b8"), subject="/Berth/1/b8")
    maker.post(Berth(pier=0, name="b0"), subject="/Berth/1/b0")
    harbour.pump()
    assert reader.sees(Berth) == selected(harbour, Berth, "/Berth/1/*")
    assert sorted(b.name for b in reader.sees(Berth).values()) == ["b0", "b4", "b8"]
    assert counts(reader) == list(reversed(range(len(counts(reader)))))


def test_a_client_that_leaves_during_the_selection_receives_only_the_end(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    reader.leave("/Berth/1/*")
    assert reader.items("Berth") == []
    assert [info.typeName for info in reader.messages("DotsCacheInfo")] == ["/Berth/1/*"]
    assert is_idle(harbour)


def test_a_client_that_disconnects_during_the_selection_leaves_nothing_behind(
    harbour: Harbour, maker: Guest
) -> None:
    begin(harbour).vanish()
    assert is_idle(harbour)
    assert harbour.node._connections.turn_queue.busy == {}


OTHER_KEY = skerry.define_types("struct Berth { 1: [key] string id; }").Berth


def test_a_client_that_describes_other_keys_meanwhile_receives_nothing(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, extensions=0)
    reader.connection.renews = True
    reader.describe(OTHER_KEY)
    assert reader.items("Berth") == []
    assert len(reader.messages("DotsCacheInfo")) == 1
    assert is_idle(harbour)


# -- waiting for a turn


def test_a_waiting_member_receives_whole_objects(harbour: Harbour, maker: Guest) -> None:
    reader = begin(harbour)
    reader.connection.join("/Berth/2/*", 0.0)
    harbour.carry()
    client = harbour.node._table.by_id[reader.client_id]

    def is_waiting() -> bool:
        member = harbour.node._routing.find(client, "/Berth/2/*")
        return member is not None and member.is_waiting

    assert is_waiting()
    maker.post(Berth(pier=2, name="b2", note="new"), only=["note", "depth"])
    harbour.carry()
    harbour.carry()
    assert reader.objects(Berth) == [Berth(pier=2, name="b2", note="new")]
    (item,) = reader.items("Berth")
    assert item.header.attributes == 0b11110, "also that the depth is not known any more"
    maker.post(Berth(pier=2, name="b8", note="new"))
    harbour.carry()
    harbour.carry()
    assert reader.objects(Berth)[-1] == Berth(pier=2, name="b8", note="new", depth=8)
    harbour.pump()
    assert not is_waiting()
    assert reader.sees(Berth) == selected(harbour, Berth, "/Berth/1/*", "/Berth/2/*")
    assert counts(reader) == [2, 1, 0, 2, 1, 0]
    reader.forget()
    maker.publish(Berth(pier=2, name="b8", depth=88))
    (item,) = reader.items("Berth")
    assert item.header.attributes == 0b11100, "from then on only what is new"
    assert harbour.node._dispatcher.topics["Berth"].routes["/Berth/2/b8"].listeners == []


def test_a_waiting_member_receives_messages(harbour: Harbour, maker: Guest) -> None:
    maker.describe(Shout)
    reader = begin(harbour)
    reader.connection.join("/*/7", 0.0)
    harbour.carry()
    maker.post(Shout(id=7))
    harbour.carry()
    harbour.carry()
    assert reader.objects(Shout) == [Shout(id=7)]


def test_a_member_that_leaves_while_it_waits_receives_only_the_end(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    reader.connection.join("/Berth/2/*", 0.0)
    reader.connection.leave("/Berth/2/*", 0.0)
    harbour.pump()
    assert names(reader) == ["b1", "b4", "b7"]
    infos = [info.typeName for info in reader.messages("DotsCacheInfo")]
    assert infos == ["/Berth/1/*", "/Berth/2/*"]


@pytest.mark.parametrize("group", ["Berth", "/Berth/*/*", "/Berth/1/*", "/away/..."])
def test_many_joins_take_many_turns(group: str, harbour: Harbour, maker: Guest) -> None:
    # Each costs a few looks at objects, and all of them together as many as one for all.
    for number in range(10):
        maker.publish(Berth(pier=7, name=f"o{number}"), subject=f"/away/{number}")
    reader = harbour.guest("reader")
    slow_turns(harbour, reader, 3)
    for _ in range(20):
        reader.connection.join(group, 0.0)
    harbour.carry()
    harbour.carry()
    turn_count = 0
    while harbour.node.deadline_ns() == harbour.now_ns:
        harbour.node.advance(harbour.now_ns)
        turn_count += 1
    harbour.pump()
    assert turn_count >= 10
    assert len(reader.messages("DotsCacheInfo")) == 20
    assert is_idle(harbour)


# -- rights


@pytest.mark.parametrize("group", ["Berth", "/Berth/*/*"])
def test_a_client_without_all_permissions_receives_the_rest_in_slices(
    group: str, make_harbour: Callable[..., Harbour]
) -> None:
    admission = Admission(AdmissionConfig(permission=HIDING), rng=Random(1))
    harbour = make_harbour(admission=admission)
    maker = harbour.guest("maker")
    maker.publish(*(Berth(pier=n, name="b") for n in range(6)))
    for pier in (1, 4):
        maker.publish(Berth(pier=pier, name="b"), subject=f"/hidden/{pier}")
    reader = begin(harbour, group)
    maker.post(Berth(pier=0, name="b", depth=1), subject="/hidden/0")
    maker.post(Berth(pier=5, name="b", depth=5), subject="/hidden/5")
    maker.post(Berth(pier=4, name="b", depth=4))
    harbour.pump()
    assert not any("hidden" in item.header.subject for item in reader.heard)
    assert [b.depth for b in reader.objects(Berth) if b.pier in (0, 1, 5) and b.depth] == []
    assert sorted(b.pier for b in reader.sees(Berth).values()) == [2, 3, 4]
    notified = counts(reader)
    assert notified == list(reversed(range(len(notified))))
    harbour.check()


def test_objects_that_become_hidden_during_the_selection_are_not_sent(
    make_harbour: Callable[..., Harbour],
) -> None:
    some = (PermissionRule(verbs=("all",), subjects=("/other/...",), allow=False), HIDING[1])
    harbour = make_harbour(admission=Admission(AdmissionConfig(permission=some), rng=Random(1)))
    maker = harbour.guest("maker")
    for pier in range(6):
        maker.publish(Berth(pier=pier, name="b"), subject=f"/hidden/{pier}")
    maker.publish(Berth(pier=6, name="b"))
    reader = begin(harbour, "Berth")
    harbour.node.renew_admission(AdmissionConfig(permission=HIDING), harbour.now_ns)
    harbour.pump()
    assert [berth.pier for berth in reader.objects(Berth)] == [6]
    assert counts(reader) == [0]
    assert is_idle(harbour)
    harbour.check()


# -- whatever happens


GROUPS = ("Boat", "Berth", "/...", "/Boat/*", "/Boat/3", "/*/2", "/Berth/1/*", "/Berth/*/b", "/f/*")
SUBJECTS = ("", "", "", "/f/1", "/f/2", "/Boat/3", "/Berth/1/own", "/g/1")
POST = st.tuples(st.just("post"), st.integers(0, 11), st.integers(0, 7), st.integers(0, 5))
REMOVE = st.tuples(st.just("remove"), st.integers(0, 11), st.just(0), st.just(0))
JOIN_ONE = st.tuples(st.just("join"), st.integers(0, len(GROUPS) - 1), st.just(0), st.just(0))
TURN = st.tuples(st.just("turn"), st.just(0), st.just(0), st.just(0))


def made(number: int, content: int) -> Any:
    """One of twelve objects, with some of its fields."""
    fields = {"name": f"n{content}"} if content % 2 else {"speed": content}
    if number < 6:
        return Boat(id=number, **fields)
    fields = {"note": f"n{content}"} if content % 2 else {"depth": content}
    return Berth(pier=number % 3, name="ab"[number % 2], **fields)


class Log:
    """All states that objects ever had, by type and key."""

    def __init__(self) -> None:
        self.now: dict[tuple[str, bytes], Any] = {}
        self.states: dict[tuple[str, bytes], list[Any]] = {}

    def post(self, obj: Any, only: list[str] | None) -> None:
        at = (obj.descriptor.name, key_of(obj))
        known = self.now.get(at)
        merged = type(obj)() if known is None else type(obj).decode(known.encode())
        for field in obj.descriptor.fields:
            if field.is_key or (obj.is_set(field.name) if only is None else field.name in only):
                setattr(merged, field.name, getattr(obj, field.name))
        self.now[at] = merged
        self.states.setdefault(at, []).append(merged)

    def remove(self, obj: Any) -> None:
        self.now.pop((obj.descriptor.name, key_of(obj)), None)


def check_story(reader: Guest, log: Log) -> None:
    """Check that a client received existing states, whole, and in order."""
    seen: dict[tuple[str, bytes], Any] = {}
    positions: dict[tuple[str, bytes], int] = {}
    last_live = -1
    for item in reader.heard:
        cls: Any = {"Boat": Boat, "Berth": Berth}.get(item.header.type_name)
        if cls is None:
            continue
        obj = cls.decode(item.payload)
        at = (cls.descriptor.name, key_of(obj))
        assert positions.get(at, -1) <= item.header.position
        positions[at] = int(item.header.position)
        if item.header.from_cache < 0 and item.header.remove_obj != 1:
            assert last_live < item.header.position, "changes are delivered in order, and once"
            last_live = int(item.header.position)
        if item.header.remove_obj == 1:
            seen.pop(at, None)
            continue
        merged = seen.setdefault(at, cls())
        for field in cls.descriptor.fields:
            if item.header.attributes >> field.tag & 1 or field.is_key:
                setattr(merged, field.name, getattr(obj, field.name))
        assert merged in log.states[at]
    numbers = Counter(counts(reader))
    assert all(numbers[value] <= numbers[value - 1] for value in numbers if value)


@settings(max_examples=150, deadline=None)
@given(
    subjects=st.lists(st.integers(0, 7), min_size=12, max_size=12),
    joins=st.lists(JOIN_ONE, min_size=1, max_size=3),
    then=st.lists(st.one_of(POST, POST, TURN, TURN, REMOVE, JOIN_ONE), min_size=15, max_size=40),
    look_count=st.integers(1, 3),
)
@pytest.mark.slow
def test_a_join_ends_with_the_selected_objects_whatever_happens_meanwhile(
    make_harbour: Callable[..., Harbour],
    subjects: list[int],
    joins: list[tuple[str, int, int, int]],
    then: list[tuple[str, int, int, int]],
    look_count: int,
) -> None:
    harbour = make_harbour()
    maker, reader, log = harbour.guest("maker"), harbour.guest("reader"), Log()
    slow_turns(harbour, reader, look_count)
    joined: list[str] = []

    def do(what: str, number: int, subject: int, content: int) -> None:
        if what == "join":
            joined.append(GROUPS[number])
            reader.connection.join(GROUPS[number], 0.0)
        elif what == "turn":
            harbour.carry()
            harbour.node.advance(harbour.now_ns)
        elif what == "remove":
            log.remove(made(number, 0))
            maker.post(made(number, 0), is_remove=True)
        else:
            obj, subject_text = made(number, content), SUBJECTS[subject]
            only = None if content else ["name" if number < 6 else "note"]
            log.post(obj, only)
            maker.post(obj, only=only, subject=subject_text)

    for number, subject in enumerate(subjects):
        do("post", number, subject, 1)
        do("post", number, subject, 2)
    harbour.pump()
    for operation in joins:
        do(*operation)
    harbour.carry()
    for operation in then:
        do(*operation)
    harbour.pump()
    for cls in (Boat, Berth):
        name = cls.descriptor.name
        everything = ["/..."] if name in joined else []
        patterns = [group for group in joined if group.startswith("/")]
        assert reader.sees(cls) == selected(harbour, cls, *everything, *patterns)
    check_story(reader, log)
    assert is_idle(harbour)
    assert len([i for i in reader.messages("DotsCacheInfo") if i.endTransmission]) >= len(
        [group for group in joined if group.startswith("/")]
    )
    harbour.check()
