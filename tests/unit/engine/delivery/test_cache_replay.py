"""Replay: all that is there, in pieces, counted down, while everything goes on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NoReturn

import pytest

import skerry
from skerry.engine.admission.admission import AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.delivery.cache_replay import CacheReplay, ReplayOutput
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.limits import REPLAY_SLICE_BYTES, REPLAY_SORTED_COUNT_MAX, SELECT_SLICE_COUNT
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import Wire
from skerry.protocol.patterns import covers

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: int32 speed; }
    struct Car { 1: [key] uint32 id; 2: string name; }
    struct Shout [cached=false] { 1: string text; }
    """
)
Boat, Car, Shout = TYPES.Boat, TYPES.Car, TYPES.Shout
BULK = "x" * 30_000
"""Three objects of this size are a slice."""
COUNT = 12
ALL_BOATS = pytest.mark.parametrize("group", ["Boat", "/Boat/*"])
"""Two ways to ask for the same objects."""


@pytest.fixture(autouse=True, params=["listed", "from the shelf"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few objects are listed when a replay begins, many are not; here a handful is many."""
    if request.param == "from the shelf":
        monkeypatch.setattr("skerry.engine.services.joining.REPLAY_SORTED_COUNT_MAX", 0)


@pytest.fixture
def maker(harbour: Harbour) -> Guest:
    """Publishes more boats than one slice of a replay has."""
    guest = harbour.guest("maker")
    guest.publish(*[Boat(id=number, name=BULK) for number in range(COUNT)])
    return guest


def begin(harbour: Harbour, group: str = "Boat", **options: object) -> Guest:
    """A client that joined the boats and received the first of them."""
    guest = harbour.guest("reader")
    guest.connection.join(group, 0.0, **options)  # type: ignore[arg-type]
    guest.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
    harbour.carry()
    harbour.carry()
    assert 0 < len(guest.items("Boat", None)) < COUNT
    return guest


def ids(guest: Guest) -> list[int]:
    return [boat.id for boat in guest.objects(Boat)]


def test_a_large_cache_is_replayed_in_slices_and_in_order(harbour: Harbour, maker: Guest) -> None:
    reader = begin(harbour)
    assert harbour.node.deadline_ns() == harbour.now_ns
    notified = [len(reader.objects(Boat))]
    while notified[-1] < COUNT:
        assert "DotsCacheInfo" not in reader.names()
        harbour.node.advance(harbour.now_ns)
        harbour.carry()
        notified.append(len(reader.objects(Boat)))
    assert notified == [3, 6, 9, 12]
    harbour.pump()
    assert ids(reader) == list(range(COUNT))
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    assert reader.names()[-2:] == ["DotsCacheInfo", "DotsEcho"]
    (info,) = reader.messages("DotsCacheInfo")
    assert (info.typeName, info.endTransmission) == ("Boat", True)


@ALL_BOATS
def test_an_object_that_changes_before_its_turn_is_sent_once_in_its_new_state(
    group: str, harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, group)
    maker.post(Boat(id=COUNT - 1, speed=7))
    maker.post(Boat(id=0, speed=8))
    harbour.pump()
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    notified = [(b.id, b.speed) for b in reader.objects(Boat)]
    assert notified.count((COUNT - 1, 7)) == 1
    assert (COUNT - 1, None) not in notified
    assert notified.count((0, 8)) == 1, "live, as it had been told already"
    assert len(notified) == COUNT + 1
    assert reader.sees(Boat) == by_key(harbour)
    assert reader.names()[-1] == "DotsEcho"


def by_key(harbour: Harbour) -> dict[bytes, object]:
    objects = harbour.node.cache.objects("Boat")
    return {key: Boat.decode(entry.payload) for key, entry in objects}


@ALL_BOATS
def test_an_object_removed_before_its_turn_is_sent_just_before_its_removal(
    group: str, harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, group)
    maker.post(Boat(id=COUNT - 1), is_remove=True)
    maker.post(Boat(id=0), is_remove=True)
    harbour.pump()
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    items = reader.items("Boat")
    last = [i for i, item in enumerate(items) if Boat.decode(item.payload).id == COUNT - 1]
    assert [int(items[i].header.remove_obj) for i in last] == [0, 1]
    assert last[1] == last[0] + 1
    assert len(reader.sees(Boat)) == COUNT - 2


@ALL_BOATS
def test_an_object_created_during_a_replay_is_delivered_live(
    group: str, harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, group)
    maker.post(Boat(id=99, speed=1))
    maker.post(Boat(id=COUNT - 1), is_remove=True)
    maker.post(Boat(id=COUNT - 1, speed=2))
    harbour.pump()
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    live = [
        b.id for b, i in zip(reader.objects(Boat), replayed_items(reader), strict=True) if i < 0
    ]
    assert live == [99, COUNT - 1]
    assert reader.sees(Boat) == by_key(harbour)


def replayed_items(guest: Guest) -> list[int]:
    items = [item for item in guest.items("Boat") if item.header.remove_obj != 1]
    return [int(item.header.from_cache) for item in items]


def test_a_field_cleared_during_a_replay_is_cleared_for_a_client_that_knew_it(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("Boat")
    reader.connection.join("/...", 0.0)
    harbour.carry()
    harbour.carry()
    maker.post(Boat(id=COUNT - 1), only=["name"])
    harbour.pump()
    assert reader.sees(Boat)[b"\x81\x0b"] == Boat(id=COUNT - 1)


def in_two_groups(harbour: Harbour) -> Guest:
    """A client that knows all boats, and is being told them once more by a pattern."""
    reader = harbour.guest("reader")
    reader.join("Boat")
    reader.forget()
    reader.connection.join("/Boat/...", 0.0)
    harbour.carry()
    harbour.carry()
    assert 0 < len(reader.objects(Boat)) < COUNT
    return reader


def test_a_client_that_receives_an_object_by_another_group_receives_each_update(
    harbour: Harbour, maker: Guest
) -> None:
    reader = in_two_groups(harbour)
    left = COUNT - len(reader.objects(Boat)) - 1
    for speed in (7, 8):
        maker.post(Boat(id=COUNT - 1, speed=speed))
    harbour.pump()
    notified = [
        (b.speed, i) for b, i in zip(reader.objects(Boat), replayed_items(reader), strict=True)
    ]
    assert [item for item in notified if item[0]] == [(7, left), (7, -1), (8, -1)]
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))


def test_an_object_that_moves_out_of_a_replay_is_delivered_whole(
    harbour: Harbour, maker: Guest
) -> None:
    reader = harbour.guest("reader")
    reader.join("/fleet/*")
    reader.connection.join("/Boat/...", 0.0)
    harbour.carry()
    harbour.carry()
    assert 0 < len(reader.objects(Boat)) < COUNT
    maker.post(Boat(id=COUNT - 1, speed=7), subject="/fleet/1")
    harbour.carry()
    reader.leave("/Boat/...")
    assert reader.sees(Boat)[b"\x81\x0b"] == Boat(id=COUNT - 1, name=BULK, speed=7)


def test_an_update_is_not_lost_when_the_group_that_was_to_replay_it_is_left(
    harbour: Harbour, maker: Guest
) -> None:
    reader = in_two_groups(harbour)
    maker.post(Boat(id=COUNT - 1, speed=7))
    harbour.carry()
    reader.leave("/Boat/...")
    assert COUNT not in [len(reader.counts_down("Boat")), len(reader.objects(Boat))]
    assert reader.sees(Boat)[b"\x81\x0b"].speed == 7


def test_an_update_waits_for_the_last_of_several_replays_of_its_object(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    reader.connection.join("/Boat/...", 0.0)
    harbour.carry()
    maker.post(Boat(id=COUNT - 1, speed=7))
    harbour.carry()
    reader.leave("/Boat/...")
    notified = [
        (b.speed, i) for b, i in zip(reader.objects(Boat), replayed_items(reader), strict=True)
    ]
    assert [item for item in notified if item[0]] == [(7, 0)]
    assert reader.sees(Boat) == by_key(harbour)


def test_others_have_their_turn_between_two_slices(harbour: Harbour, maker: Guest) -> None:
    other = harbour.guest("other")
    other.join("Shout")
    reader = begin(harbour)
    maker.post(Shout(text="now"))
    harbour.carry()
    harbour.carry()
    assert other.objects(Shout) == [Shout(text="now")]
    assert len(reader.objects(Boat)) < COUNT
    harbour.pump()


def test_a_replay_to_a_paused_client_waits_until_it_is_resumed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour)
    reader.pause()
    notified = len(reader.objects(Boat))
    deadline_ns = harbour.node.deadline_ns()
    assert deadline_ns is not None
    assert deadline_ns > harbour.now_ns, "there is nothing to do for it"
    harbour.wait(0.5)
    assert len(reader.objects(Boat)) == notified
    reader.resume()
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    assert reader.names()[-1] == "DotsEcho"


@pytest.mark.parametrize("group", ["Boat", "/Boat/*", "/..."])
def test_a_client_that_joins_again_receives_a_second_replay_after_the_first(
    group: str, harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, group)
    for _ in range(2):
        reader.connection.join(group, 0.0)
    reader.connection.send_message(internal_class("DotsEcho")(request=True), 0.0)
    harbour.pump()
    infos = [info.typeName for info in reader.messages("DotsCacheInfo")]
    assert infos == [group] * 3
    assert reader.names()[-1] == "DotsEcho"
    counts = reader.counts_down("Boat")
    # A pattern has selected other objects, too.
    assert counts.count(0) in (2, 3)
    assert len(reader.objects(Boat)) == 3 * COUNT


def test_a_replay_ends_when_its_client_leaves(harbour: Harbour, maker: Guest) -> None:
    reader = begin(harbour)
    reader.leave("Boat")
    assert len(reader.objects(Boat)) < COUNT
    # The end is reported once for each join, as by other hosts: clients count these answers.
    assert [info.typeName for info in reader.messages("DotsCacheInfo")] == ["Boat"]
    assert reader.names()[-1] == "DotsEcho"
    reader.forget()
    reader.join("Boat")
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))


@ALL_BOATS
def test_a_client_that_disconnects_during_a_replay_leaves_nothing_behind(
    group: str, harbour: Harbour, maker: Guest
) -> None:
    begin(harbour, group).vanish()
    deadline_ns = harbour.node.deadline_ns()
    assert deadline_ns is not None
    assert deadline_ns > harbour.now_ns
    maker.publish(Boat(id=0, speed=1))


def test_several_types_are_counted_down_together(harbour: Harbour, maker: Guest) -> None:
    maker.publish(*[Car(id=number, name=BULK) for number in range(4)])
    reader = harbour.guest("reader")
    reader.join("/*/*")
    # Clients are objects, too.
    others = [item.header.type_name for item in reader.heard if item.header.from_cache >= 0]
    assert {"Boat", "Car", "DotsClient"} <= set(others)
    counts = [int(i.header.from_cache) for i in reader.heard if i.header.from_cache >= 0]
    assert counts == list(reversed(range(len(counts))))
    assert [info.typeName for info in reader.messages("DotsCacheInfo")] == ["/*/*"]


def test_objects_whose_subject_changes_during_a_replay_are_all_sent(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(*[Boat(id=n, name=BULK) for n in range(COUNT)], subject="/here/boat")
    reader = begin(harbour, "/here/...")
    # Two of those not yet replayed move to other subjects, and one of them stays there.
    maker.post(Boat(id=COUNT - 1, speed=1), subject="/there/boat")
    maker.post(Boat(id=COUNT - 2, speed=1), subject="/there/boat")
    maker.post(Boat(id=COUNT - 2), is_remove=True, subject="/there/boat")
    harbour.pump()
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    assert [info.typeName for info in reader.messages("DotsCacheInfo")] == ["/here/..."]
    assert reader.names()[-1] == "DotsEcho"


def test_the_end_of_an_empty_replay_is_sent(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.describe(Boat)
    guest.join("Boat")
    guest.join("Shout")
    guest.join("Unknown")
    guest.join("/nothing/here")
    infos = [info.typeName for info in guest.messages("DotsCacheInfo")]
    assert infos == ["Boat", "/nothing/here"], "of what is cached and known"


class Noting(ReplayOutput):
    """Counts, and says what it cost."""

    def __init__(self, size: int) -> None:
        super().__init__(ClientQueue(2, Wire(), []))
        self.sent: list[int] = []
        self._size = size

    def send(self, topic: object, entry: object, left: int, now_s: float) -> int:
        self.sent.append(left)
        return self._size


def test_a_slice_ends_with_the_object_that_fills_it(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    guest = harbour.guest()
    guest.publish(*[Boat(id=number) for number in range(5)])
    topic = harbour.node._dispatcher.topics["Boat"]
    ended: list[float] = []
    output = Noting(REPLAY_SLICE_BYTES - 1)
    replay = CacheReplay(output, [(topic, list(topic.type_cache.objects))], ended.append)
    assert not replay.step(1.0)
    assert (output.sent, replay.left) == ([4, 3], 3)
    assert not replay.step(2.0)
    assert replay.step(3.0)
    assert (output.sent, ended) == ([4, 3, 2, 1, 0], [3.0])


class Unlisted(dict[bytes, Entry]):
    """Objects that must not be iterated."""

    def __iter__(self) -> NoReturn:
        raise AssertionError("all objects were looked at")

    keys = values = items = __iter__


def crowd(harbour: Harbour, count: int) -> None:
    """A large count instead of one boat; no code may iterate over them."""
    type_cache = harbour.node._dispatcher.topics["Boat"].type_cache
    (known,) = type_cache.objects.values()
    for number in range(1, count):
        type_cache.add(number.to_bytes(3, "big"), known.with_payload(known.payload, 2))
    type_cache.objects = Unlisted(type_cache.objects)


@pytest.mark.parametrize(
    ("group", "subject"),
    [("Boat", ""), ("Boat", "/fleet/1"), ("/Boat/*", ""), ("/*/*", ""), ("/...", "/fleet/1")],
)
@pytest.mark.parametrize(
    "listed_count_max", [20, pytest.param(REPLAY_SORTED_COUNT_MAX, marks=pytest.mark.slow)]
)
def test_a_large_replay_begins_without_a_look_at_all_objects(
    listed_count_max: int,
    group: str,
    subject: str,
    harbour: Harbour,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skerry.engine.services.joining.REPLAY_SORTED_COUNT_MAX", listed_count_max)
    maker = harbour.guest("maker")
    maker.publish(Boat(id=0), subject=subject)
    crowd(harbour, listed_count_max + 1)
    maker.publish(Car(id=1), Car(id=2))
    reader = harbour.guest("reader")
    reader.connection.join(group, 0.0)
    harbour.carry()
    harbour.carry()
    told_count = len(reader.items("Boat", None))
    assert 0 < told_count <= SELECT_SLICE_COUNT
    harbour.pump()
    counts = [int(i.header.from_cache) for i in reader.heard if i.header.from_cache >= 0]
    assert counts == list(reversed(range(len(counts))))
    assert len(reader.counts_down("Boat")) == listed_count_max + 1


def test_what_a_pattern_cannot_select_is_not_looked_at(harbour: Harbour) -> None:
    maker = harbour.guest("maker")
    maker.publish(Boat(id=0))
    crowd(harbour, 20)
    maker.publish(Car(id=1), Car(id=2))
    reader = harbour.guest("reader")
    for pattern in ("/Car/2", "/fleet/..."):
        reader.join(pattern)
    assert [car.id for car in reader.objects(Car)] == [2]
    assert reader.items("Boat") == []
    maker.publish(Boat(id=0), subject="/fleet/1")
    reader.join("/fleet/*")
    assert [item.header.subject for item in reader.items("Boat")] == ["/fleet/1", "/fleet/1"]


def test_many_types_of_few_objects_are_listed_up_to_the_bound_for_all(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = harbour.guest("maker")
    maker.publish(*[Boat(id=number) for number in (3, 1, 2)])
    maker.publish(*[Car(id=number) for number in (3, 1, 2)])
    others = sum(harbour.node.cache.count(name) for name in harbour.node.cache.type_names()) - 6
    # The reader is an object, too.
    monkeypatch.setattr("skerry.engine.services.joining.REPLAY_SORTED_COUNT_MAX", others + 1 + 5)
    reader = harbour.guest("reader")
    reader.join("/...")
    notified = {frozenset([tuple(ids(reader)), tuple(c.id for c in reader.objects(Car))])}
    assert notified == {frozenset([(1, 2, 3), (3, 1, 2)])}


def test_a_slice_ends_also_where_hardly_any_object_is_left(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.publish(Boat(id=1), Boat(id=2))
    topic = harbour.node._dispatcher.topics["Boat"]
    type_cache = topic.type_cache
    last = type_cache.take(b"\x81\x02")
    assert last is not None
    type_cache.order[1:] = [None] * SELECT_SLICE_COUNT
    type_cache.add(b"\x81\x02", last)
    output = Noting(1)
    ended: list[float] = []
    replay = CacheReplay(output, [(topic, None)], ended.append)
    assert not replay.step(1.0)
    assert output.sent == [1]
    assert replay.holds(topic, b"\x81\x02", last)
    assert replay.step(2.0)
    assert (output.sent, ended, type_cache.reader_count) == ([1, 0], [2.0], 0)


def test_indexes_do_not_change_until_a_replay_has_ended(harbour: Harbour) -> None:
    guest = harbour.guest()
    guest.publish(*[Boat(id=number) for number in range(4)])
    topic = harbour.node._dispatcher.topics["Boat"]
    type_cache = topic.type_cache
    ended: list[float] = []
    first = CacheReplay(Noting(REPLAY_SLICE_BYTES), [(topic, None)], ended.append)
    second = CacheReplay(Noting(1), [(topic, None)], ended.append)
    assert type_cache.reader_count == 2
    assert not first.step(1.0)
    second.cancel()
    second.cancel()
    assert type_cache.reader_count == 1
    assert second.step(2.0)
    assert ended == [2.0]
    objects = list(type_cache.objects.items())
    held = [first.holds(topic, key, entry) for key, entry in objects]
    assert held == [False, True, True, True]
    first.send_now(topic, *objects[3], 3.0)
    assert not first.holds(topic, *objects[3])
    assert not first.holds(topic, b"unknown", None)
    guest.publish(Boat(id=9))
    assert not first.holds(topic, b"\x81\x09", type_cache.objects[b"\x81\x09"]), "made meanwhile"
    assert not first.step(4.0)
    assert first.step(5.0)
    assert (ended, type_cache.reader_count) == ([2.0, 5.0], 0)


def test_several_types_are_replayed_one_after_the_other(
    harbour: Harbour,
) -> None:
    guest = harbour.guest()
    guest.publish(*[Boat(id=number) for number in range(3)])
    guest.publish(*[Car(id=number) for number in range(3)])
    boats, cars = (harbour.node._dispatcher.topics[name] for name in ("Boat", "Car"))
    boat, car = list(boats.type_cache.objects.items()), list(cars.type_cache.objects.items())
    ended: list[float] = []
    output = Noting(REPLAY_SLICE_BYTES)
    replay = CacheReplay(output, [(boats, None), (cars, [car[1][0], car[2][0]])], ended.append)
    assert (replay.topics, replay.left) == ([boats, cars], 5)
    assert (boats.type_cache.reader_count, cars.type_cache.reader_count) == (1, 0)
    for now_s in (1.0, 2.0, 3.0):
        assert not replay.step(now_s)
    assert not replay.holds(boats, *boat[2])
    assert [replay.holds(cars, *known) for known in car] == [False, True, True]
    costs = list(replay.excluding(lambda topic, entry: topic is cars and entry is car[2][1]))
    assert (replay.left, sum(costs)) == (1, 3)
    assert replay.step(4.0)
    assert (output.sent, ended, boats.type_cache.reader_count) == ([4, 3, 2, 0], [4.0], 0)
    whole = CacheReplay(output, [(boats, None), (cars, None)], ended.append)
    assert (whole.left, boats.type_cache.reader_count, cars.type_cache.reader_count) == (6, 1, 1)
    whole.drop_topic(boats)
    assert (whole.left, boats.type_cache.reader_count, whole.includes(boats)) == (3, 0, False)
    whole.send_now(cars, *car[0], 5.0)
    assert (whole.left, output.sent[-1]) == (2, 2)
    whole.cancel()
    assert (boats.type_cache.reader_count, cars.type_cache.reader_count) == (0, 0)
    assert not whole.holds(cars, *car[1])
    assert whole.step(6.0)
    assert (output.sent[-1], ended) == (2, [4.0, 6.0])


def test_an_object_that_leaves_a_pattern_during_a_replay_is_sent_and_removed(
    harbour: Harbour, maker: Guest
) -> None:
    reader = begin(harbour, "/Boat/*")
    maker.post(Boat(id=COUNT - 1, speed=1), subject="/there/boat")
    maker.post(Boat(id=COUNT - 2, speed=1), subject="/there/boat")
    maker.post(Boat(id=COUNT - 2, speed=2))
    maker.post(Boat(id=COUNT), subject="/there/boat")
    maker.post(Boat(id=COUNT + 1))
    harbour.pump()
    assert reader.counts_down("Boat") == list(reversed(range(COUNT)))
    assert reader.sees(Boat) == selected(harbour, Boat, "/Boat/*")
    assert len(reader.sees(Boat)) == COUNT
    assert harbour.node._dispatcher.topics["Boat"].type_cache.reader_count == 0


def test_a_pattern_may_mean_all_of_one_type_and_a_part_of_another(
    harbour: Harbour, maker: Guest
) -> None:
    maker.publish(*[Car(id=number, name=BULK) for number in range(4)])
    maker.publish(Car(id=1, name="away"), subject="/away/far/car")
    maker.publish(Car(id=2, name="near"), subject="/away/car")
    reader = begin(harbour, "/*/*")
    maker.post(Boat(id=COUNT - 1), is_remove=True)
    maker.post(Car(id=3, name="changed"))
    maker.post(Car(id=2), is_remove=True, subject="/away/car")
    maker.post(Car(id=1, name="back"))
    harbour.pump()
    counts = [int(i.header.from_cache) for i in reader.heard if i.header.from_cache >= 0]
    assert counts == list(reversed(range(len(counts))))
    assert len(reader.counts_down("Boat")) == COUNT
    assert len(reader.counts_down("Car")) == 3
    for cls in (Boat, Car):
        assert reader.sees(cls) == selected(harbour, cls, "/*/*")


def selected(harbour: Harbour, cls: type[skerry.Struct], pattern: str) -> dict[bytes, object]:
    """The cached objects of a type that a pattern selects."""
    name = cls.descriptor.name
    return {
        key: cls.decode(entry.payload)
        for key, entry in harbour.node.cache.objects(name)
        if covers(pattern, entry.subject or f"/{name}/any")
    }


@pytest.mark.parametrize("pattern", ["/...", "/*/*", "/Boat/*", "/fleet/..."])
@pytest.mark.parametrize("seed", range(8))
def test_a_client_that_joins_a_pattern_ends_up_with_the_objects_it_selects(
    seed: int, pattern: str, harbour: Harbour
) -> None:
    random = Random(seed)
    subjects = ["", "", "", "/fleet/one", "/fleet/one/two", "/Boat/own"]
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    # Where nothing has a subject of its own, less has to be looked at.
    used = subjects if random.random() < 0.5 else [""]

    def change() -> None:
        cls, key = random.choice([Boat, Car]), random.randrange(12)
        match random.randrange(4):
            case 0:
                maker.post(cls(id=key), is_remove=True)
            case 1:
                maker.post(cls(id=key), only=["name"], subject=random.choice(used))
            case _:
                name = random.choice(["a", "b", BULK, BULK])
                maker.post(cls(id=key, name=name), subject=random.choice(used))

    for _ in range(30):
        change()
    harbour.pump()
    used = subjects
    shelves = [harbour.node._dispatcher.topics[name].type_cache for name in ("Boat", "Car")]
    for is_left in (True, False):
        reader.forget()
        reader.connection.join(pattern, 0.0)
        for _ in range(20):
            for _ in range(random.randrange(3)):
                change()
            harbour.carry()
            if random.random() < 0.5:
                harbour.node.advance(harbour.now_ns)
        if is_left:
            reader.leave(pattern)
            assert [type_cache.reader_count for type_cache in shelves] == [0, 0]
    harbour.pump()
    assert [type_cache.reader_count for type_cache in shelves] == [0, 0]
    counts = [int(i.header.from_cache) for i in reader.heard if i.header.from_cache >= 0]
    assert counts == list(reversed(range(len(counts))))
    for cls in (Boat, Car):
        assert reader.sees(cls) == selected(harbour, cls, pattern)
    for type_cache in shelves:
        assert type_cache.own_keys == {
            key for key, entry in type_cache.objects.items() if entry.subject
        }


def test_a_client_that_lost_its_rights_is_disconnected_and_its_replay_closed(
    harbour: Harbour, maker: Guest
) -> None:
    type_cache = harbour.node._dispatcher.topics["Boat"].type_cache
    reader = begin(harbour, "/...")
    other = begin(harbour, "/Boat/*")
    rules = (
        PermissionRule(verbs=("all",), subjects=("/hidden/...",), client="reader", allow=False),
        PermissionRule(verbs=("all",)),
    )
    harbour.node.renew_admission(AdmissionConfig(permission=rules), harbour.now_ns)
    maker.post(Boat(id=COUNT - 1, speed=1), subject="/hidden/boat")
    maker.post(Boat(id=COUNT - 2, speed=1))
    harbour.pump()
    assert reader.fault == "/...: not permitted any more"
    assert other.fault == ""
    assert other.counts_down("Boat") == list(reversed(range(COUNT)))
    assert other.sees(Boat) == selected(harbour, Boat, "/Boat/*")
    assert type_cache.reader_count == 0


def test_keys_are_in_order_up_to_the_bound(make_harbour: Callable[..., Harbour]) -> None:
    harbour = make_harbour()
    harbour.guest().describe(Boat)
    topic = harbour.node._types.topic("Boat")
    assert topic is not None
    few = [bytes([0x81, n]) for n in (3, 1, 2)]
    CacheReplay(Noting(1), [(topic, few)], lambda _: None)
    assert few == sorted(few)
    many = [n.to_bytes(4, "big") for n in reversed(range(REPLAY_SORTED_COUNT_MAX + 1))]
    before = list(many)
    CacheReplay(Noting(1), [(topic, many)], lambda _: None)
    assert many == before


@pytest.mark.slow
def test_a_cache_of_a_hundred_megabytes_is_replayed_to_a_slow_client(
    make_harbour: Callable[..., Harbour],
) -> None:
    harbour = make_harbour()
    maker, reader = harbour.guest("maker"), harbour.guest("reader")
    bulk = "x" * 1_000_000
    for number in range(101):
        maker.publish(Boat(id=number, name=bulk))
    reader.connection.join("Boat", 0.0)
    peak = 0
    while len(reader.items("Boat")) < 101:
        harbour.carry()
        reader.pause()
        harbour.node.advance(harbour.now_ns)
        (row,) = [r for r in harbour.node.statistics().clients if r.name == "reader"]
        peak = max(peak, row.queued_bytes)
        harbour.node.resume(reader.address, harbour.now_ns)
    harbour.pump()
    assert peak < 2_500_000, "it never waits in the node"
    assert not reader.is_cut
    assert reader.counts_down("Boat") == list(reversed(range(101)))
    harbour.check()


OTHER_KEY = skerry.define_types("struct Boat { 1: [key] string id; }").Boat


@pytest.mark.parametrize("group", ["Boat", "/..."])
def test_a_client_that_describes_other_keys_receives_no_more_objects_of_the_type(
    group: str, harbour: Harbour, maker: Guest
) -> None:
    maker.publish(Car(id=1), Car(id=2))
    guest = harbour.plain("reader")
    guest.pause()
    guest.connection.join(group, 0.0)
    harbour.carry()
    guest.connection.renews = True
    guest.describe(OTHER_KEY)
    guest.resume()
    assert guest.items("Boat") == []
    assert len(guest.messages("DotsCacheInfo")) == 1
    left = [int(i.header.from_cache) for i in guest.heard if i.header.from_cache >= 0]
    assert left == list(reversed(range(len(left))))
    assert len(guest.items("Car")) == (0 if group == "Boat" else 2)
    assert not guest.is_cut
