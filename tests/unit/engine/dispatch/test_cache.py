"""The cache: creating, merging and removing encoded objects."""

from __future__ import annotations

from random import Random

import pytest

import skerry
from skerry.codec.envelope import CREATE, REMOVE, UPDATE, Update
from skerry.codec.pieces import split_whole
from skerry.engine.dispatch.cache import SHELF_HOLE_COUNT_MAX, Cache, Entry
from skerry.errors import LimitExceeded
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX
from skerry.objects.base import codec_of, key_of, selection
from tests.unit.engine.dispatch.cache_updates import apply, usage_of

Thing = skerry.define_types(
    "struct Thing { 1: [key] uint32 id; 2: string name; 3: float64 size; }"
).Thing
CODEC = codec_of(Thing)


def update_of(
    obj: skerry.Struct, *, operation: int = UPDATE, time_ns: int = 0, sender: int = 2
) -> Update:
    return Update(
        type_name="Thing",
        subject="/Thing",
        operation=operation,
        present=int(obj.attributes),
        key=key_of(obj),
        payload=obj.encode(),
        time_ns=time_ns,
        sender=sender,
    )


def test_first_update_of_a_key_creates_the_object() -> None:
    cache = Cache()
    happened = apply(cache, update_of(Thing(id=1, name="a"), time_ns=5, sender=7), CODEC)
    assert happened is not None
    operation, entry = happened
    assert operation == CREATE
    assert entry.payload == Thing(id=1, name="a").encode()
    assert (entry.created_ns, entry.created_from) == (5, 7)
    assert cache.count("Thing") == 1


def test_a_later_update_merges_and_keeps_the_creator_of_the_object() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1, name="a", size=1.0), time_ns=5, sender=7), CODEC)
    happened = apply(cache, update_of(Thing(id=1, size=2.0), time_ns=9, sender=8), CODEC)
    assert happened is not None
    operation, entry = happened
    assert operation == UPDATE
    assert Thing.decode(entry.payload) == Thing(id=1, name="a", size=2.0)
    assert (entry.created_ns, entry.created_from) == (5, 7)
    assert (entry.modified_ns, entry.modified_from) == (9, 8)


def test_field_that_is_named_but_absent_is_cleared() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1, name="a", size=1.0)), CODEC)
    cleared = update_of(Thing(id=1)).replace(present=int(selection(Thing, ["name"])))
    happened = apply(cache, cleared, CODEC)
    assert happened is not None
    assert Thing.decode(happened[1].payload) == Thing(id=1, size=1.0)


def test_a_remove_returns_the_last_state() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1, name="a")), CODEC)
    happened = apply(cache, update_of(Thing(id=1), operation=REMOVE), CODEC)
    assert happened is not None
    assert happened[0] == REMOVE
    assert Thing.decode(happened[1].payload) == Thing(id=1, name="a")
    assert cache.get("Thing", key_of(Thing(id=1))) is None


def test_removing_an_unknown_object_has_no_effect() -> None:
    cache = Cache()
    assert apply(cache, update_of(Thing(id=1), operation=REMOVE), CODEC) is None
    assert cache.count("Thing") == 0


def test_objects_are_listed_in_the_order_of_their_keys() -> None:
    cache = Cache()
    for number in (3, 1, 2):
        apply(cache, update_of(Thing(id=number)), CODEC)
    found = [Thing.decode(entry.payload).id for _, entry in cache.objects("Thing")]
    assert found == [1, 2, 3]
    assert list(cache.objects("Other")) == []


def test_a_remove_returns_the_fields_that_it_carried() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1, name="a", size=1.0)), CODEC)
    happened = apply(cache, update_of(Thing(id=1, size=2.0), operation=REMOVE), CODEC)
    assert happened is not None
    assert Thing.decode(happened[1].payload) == Thing(id=1, name="a", size=2.0)


def test_a_full_cache_raises_an_error_with_the_limit() -> None:
    assert CACHE_OBJECT_COUNT_MAX > 0
    cache = Cache(object_count_max=2)
    for number in (1, 2):
        apply(cache, update_of(Thing(id=number)), CODEC)
    apply(cache, update_of(Thing(id=2, name="still room for updates")), CODEC)
    with pytest.raises(LimitExceeded, match="count of cached objects is 3, the limit is 2"):
        apply(cache, update_of(Thing(id=3)), CODEC)
    apply(cache, update_of(Thing(id=1), operation=REMOVE), CODEC)
    apply(cache, update_of(Thing(id=3)), CODEC)
    assert cache.object_count == 2


def test_cache_is_bounded_in_bytes_and_keeps_what_it_has() -> None:
    assert CACHE_BYTES_MAX > 0
    first = Thing(id=1, name="a")
    cache = Cache(bytes_max=len(first.encode()) + 10)
    apply(cache, update_of(first), CODEC)
    apply(cache, update_of(Thing(id=1, name="a" * 11)), CODEC)
    with pytest.raises(LimitExceeded, match="bytes of cached objects"):
        apply(cache, update_of(Thing(id=1, name="a" * 12)), CODEC)
    entry = cache.get("Thing", key_of(first))
    assert entry is not None
    assert Thing.decode(entry.payload).name == "a" * 11
    assert cache.payload_bytes == len(entry.payload)


def test_a_type_without_objects_leaves_nothing_behind() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1)), CODEC)
    apply(cache, update_of(Thing(id=1), operation=REMOVE), CODEC)
    assert (cache.object_count, cache.payload_bytes) == (0, 0)
    assert cache.type_names() == ()
    assert not cache.mentions(2)


def test_types_are_named_as_long_as_they_have_objects() -> None:
    cache = Cache()
    assert cache.type_names() == ()
    apply(cache, update_of(Thing(id=1)), CODEC)
    apply(cache, update_of(Thing(id=2)).replace(type_name="Other"), CODEC)
    assert cache.type_names() == ("Thing", "Other")
    for name in cache.type_names():
        assert cache.count(name) == 1
    apply(cache, update_of(Thing(id=1), operation=REMOVE), CODEC)
    assert cache.type_names() == ("Other",)


def test_clients_are_mentioned_as_long_as_an_object_has_their_id() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1), sender=7), CODEC)
    apply(cache, update_of(Thing(id=1, name="a"), sender=8), CODEC)
    assert [cache.mentions(client) for client in (7, 8, 9)] == [True, True, False]
    apply(cache, update_of(Thing(id=1, name="b"), sender=7), CODEC)
    assert [cache.mentions(client) for client in (7, 8)] == [True, False]
    apply(cache, update_of(Thing(id=1), operation=REMOVE), CODEC)
    assert not cache.mentions(7)


def test_objects_are_restored_whatever_the_limits_are() -> None:
    made = Cache()
    apply(made, update_of(Thing(id=1, name="a"), sender=7), CODEC)
    ((key, entry),) = made.objects("Thing")
    cache = Cache(object_count_max=1, bytes_max=1)
    cache.restore(cache.type_cache("Thing"), key, entry)
    assert (cache.object_count, cache.payload_bytes) == (1, len(entry.payload))
    assert usage_of(cache.quotas._by_client, 7) == (1, len(entry.payload))
    assert cache.mentions(7)


def test_another_state_of_an_object_has_the_same_facts() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1, name="a"), sender=7), CODEC)
    ((_, entry),) = cache.objects("Thing")
    other = entry.with_payload(b"\xa0", 0)
    assert (other.payload, other.present, other.modified_from) == (b"\xa0", 0, 7)
    assert entry.payload == Thing(id=1, name="a").encode()


def test_a_type_cache_without_objects_can_be_dropped() -> None:
    cache = Cache()
    type_cache = cache.type_cache("Thing")
    cache.forget_type("Thing")
    cache.forget_type("Never")
    assert cache.type_cache("Thing") is not type_cache


def test_a_removed_object_is_no_longer_among_those_with_undescribed_tags() -> None:
    cache = Cache()
    apply(cache, update_of(Thing(id=1)), CODEC)
    type_cache = cache.type_cache("Thing")
    type_cache.unknown_keys.add(key_of(Thing(id=1)))
    cache.drop(type_cache, key_of(Thing(id=1)))
    assert not type_cache.unknown_keys


def test_many_holes_in_the_order_are_removed_when_no_walk_is_open() -> None:
    cache = Cache()
    type_cache = cache.type_cache("Thing")

    def come_and_go(count: int) -> None:
        for _ in range(count):
            apply(cache, update_of(Thing(id=2)), CODEC)
            cache.drop(type_cache, key_of(Thing(id=2)))

    for number in (1, 2, 3):
        apply(cache, update_of(Thing(id=number)), CODEC)
    cache.drop(type_cache, key_of(Thing(id=2)))
    come_and_go(SHELF_HOLE_COUNT_MAX + 1)
    assert len(type_cache.order) == SHELF_HOLE_COUNT_MAX + 4
    type_cache.reader_count += 1
    come_and_go(10)
    assert len(type_cache.order) == SHELF_HOLE_COUNT_MAX + 14, "a replay iterates over them"
    type_cache.reader_count -= 1
    come_and_go(1)
    assert type_cache.order == [type_cache.objects[key_of(Thing(id=number))] for number in (1, 3)]
    assert [entry.order_index for entry in type_cache.objects.values()] == [0, 1]


@pytest.mark.parametrize("seed", range(10))
def test_objects_that_are_not_under_their_default_subject_are_known(seed: int) -> None:
    random, cache = Random(seed), Cache()
    type_cache = cache.type_cache("Thing")
    gone: dict[bytes, Entry] = {}
    for _ in range(SHELF_HOLE_COUNT_MAX * 3):
        key = key_of(Thing(id=random.randrange(20)))
        match random.randrange(4):
            case 0 if (entry := cache.drop(type_cache, key)) is not None:
                gone[key] = entry
            case 1 if key in gone and key not in type_cache.objects:
                cache.restore(type_cache, key, gone.pop(key))
            case _:
                pieces, subject = split_whole(CODEC.plan, b"\xa1\x01" + key[1:]), ""
                if random.random() < 0.5:
                    subject = random.choice(["/a", "/b"])
                cache.put(type_cache, CODEC.plan, key, pieces.data, 2, 2, subject, 7, 0, 0, 0)
        own = {key for key, entry in type_cache.objects.items() if entry.subject}
        assert type_cache.own_keys == own
    assert len(type_cache.order) < SHELF_HOLE_COUNT_MAX * 3
