"""The use of the cache by clients and addresses is counted and limited."""

from __future__ import annotations

import pytest

import skerry
from skerry.codec.envelope import REMOVE, UPDATE, Update
from skerry.engine.dispatch.cache import Cache
from skerry.errors import LimitExceeded
from skerry.limits import CACHE_BYTES_MAX, CACHE_OBJECT_COUNT_MAX
from skerry.objects.base import codec_of, key_of
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


def made_by(cache: Cache, sender: int, number: int, name: str = "") -> None:
    apply(cache, update_of(Thing(id=number, name=name), sender=sender), CODEC)


def put_by(cache: Cache, sender: int, name: str, *, count_max: int, bytes_max: int) -> None:
    thing = Thing(id=1, name=name)
    cache.put(
        cache.type_cache("Thing"),
        CODEC.plan,
        key_of(thing),
        thing.encode(),
        int(thing.attributes),
        int(thing.attributes),
        "",
        sender,
        0,
        0,
        0,
        count_max,
        bytes_max,
    )


def test_objects_are_counted_for_their_creator() -> None:
    cache = Cache()
    assert usage_of(cache.quotas._by_client, 7) == (0, 0)
    apply(cache, update_of(Thing(id=1, name="ab"), sender=7), CODEC)
    apply(cache, update_of(Thing(id=2), sender=7), CODEC)
    apply(cache, update_of(Thing(id=3), sender=8), CODEC)
    sizes = [len(Thing(id=1, name="ab").encode()), len(Thing(id=2).encode())]
    assert usage_of(cache.quotas._by_client, 7) == (2, sum(sizes))
    apply(cache, update_of(Thing(id=1, name="longer"), sender=8), CODEC)
    grown = len(Thing(id=1, name="longer").encode())
    assert usage_of(cache.quotas._by_client, 7) == (2, grown + sizes[1]), (
        "it is still the one that made it"
    )
    apply(cache, update_of(Thing(id=1), operation=REMOVE, sender=8), CODEC)
    apply(cache, update_of(Thing(id=2), operation=REMOVE, sender=8), CODEC)
    assert usage_of(cache.quotas._by_client, 7) == (0, 0)
    assert usage_of(cache.quotas._by_client, 8)[0] == 1


def test_the_exempt_client_may_exceed_the_limits() -> None:
    cache = Cache(object_count_max=1)
    cache.quotas.exempt_client = 1
    apply(cache, update_of(Thing(id=1), sender=7), CODEC)
    apply(cache, update_of(Thing(id=2), sender=1), CODEC)
    assert cache.object_count == 2
    with pytest.raises(LimitExceeded):
        apply(cache, update_of(Thing(id=3), sender=7), CODEC)
    apply(cache, update_of(Thing(id=1, name="longer"), sender=7), CODEC)
    assert cache.object_count == 2, "no object is added by that"


def test_objects_of_one_address_include_those_of_disconnected_clients() -> None:
    cache = Cache()
    cache.quotas.address_count_max = 2
    cache.quotas.address_bytes_max = CACHE_BYTES_MAX
    cache.quotas.set_address(7, "10.0.0.1")
    made_by(cache, 7, 1)
    cache.quotas.client_left(7)
    cache.quotas.set_address(8, "10.0.0.1")
    made_by(cache, 8, 2)
    with pytest.raises(LimitExceeded, match="count of objects of one address"):
        made_by(cache, 8, 3)
    cache.quotas.set_address(9, "10.0.0.2")
    made_by(cache, 9, 3)
    made_by(cache, 5, 4)
    cache.drop(cache.type_cache("Thing"), key_of(Thing(id=1)))
    made_by(cache, 8, 5)
    assert usage_of(cache.quotas._by_address, "10.0.0.1")[0] == 2


def test_bytes_of_one_address_are_bounded() -> None:
    cache = Cache()
    cache.quotas.address_count_max = 10
    cache.quotas.address_bytes_max = 100
    cache.quotas.set_address(7, "10.0.0.1")
    cache.quotas.set_address(8, "10.0.0.1")
    made_by(cache, 7, 1, "x" * 60)
    with pytest.raises(LimitExceeded, match="bytes of objects of one address"):
        made_by(cache, 8, 2, "x" * 60)
    with pytest.raises(LimitExceeded, match="bytes of objects of one address"):
        made_by(cache, 7, 1, "x" * 160)
    assert usage_of(cache.quotas._by_address, "10.0.0.1") == (1, cache.payload_bytes)


def test_nothing_is_kept_of_an_address_without_clients_and_objects() -> None:
    cache = Cache()
    for number in (7, 8):
        cache.quotas.set_address(number, "10.0.0.1")
    made_by(cache, 7, 1)
    for number in (7, 8):
        cache.quotas.client_left(number)
    assert usage_of(cache.quotas._by_address, "10.0.0.1")[0] == 1
    cache.drop(cache.type_cache("Thing"), key_of(Thing(id=1)))
    assert usage_of(cache.quotas._by_address, "10.0.0.1") == (0, 0)
    assert (cache.quotas._addresses, cache.quotas._connected) == ({}, set())


def test_a_client_that_enlarges_objects_of_others_is_limited_by_their_quota() -> None:
    cache = Cache()
    cache.quotas.address_count_max = 10
    cache.quotas.address_bytes_max = 100
    for number, address in ((7, "10.0.0.1"), (8, "10.0.0.1"), (9, "10.0.0.2")):
        cache.quotas.set_address(number, address)
    made_by(cache, 7, 1)
    for stranger in (8, 9):
        with pytest.raises(LimitExceeded, match="bytes of objects of one address"):
            made_by(cache, stranger, 1, "x" * 100)
    made_by(cache, 9, 1, "x" * 80)
    assert (
        usage_of(cache.quotas._by_address, "10.0.0.1")
        == usage_of(cache.quotas._by_client, 7)
        == (1, cache.payload_bytes)
    )
    assert (
        usage_of(cache.quotas._by_address, "10.0.0.2"),
        usage_of(cache.quotas._by_client, 9),
    ) == (
        (0, 0),
        (0, 0),
    )
    with pytest.raises(LimitExceeded, match="bytes of objects of one address"):
        made_by(cache, 7, 2, "x" * 20)
    made_by(cache, 7, 1, "x")
    made_by(cache, 7, 2, "x" * 20)
    assert usage_of(cache.quotas._by_address, "10.0.0.1") == (2, cache.payload_bytes)
    for number in (1, 2):
        cache.drop(cache.type_cache("Thing"), key_of(Thing(id=number)))
    assert (
        usage_of(cache.quotas._by_address, "10.0.0.1")
        == usage_of(cache.quotas._by_client, 7)
        == (0, 0)
    )


def test_bytes_of_one_client_are_limited_whichever_client_adds_to_them() -> None:
    cache = Cache()
    put_by(cache, 7, "", count_max=1, bytes_max=100)
    with pytest.raises(LimitExceeded, match="bytes of objects of one client"):
        put_by(cache, 8, "x" * 100, count_max=1, bytes_max=100)
    put_by(cache, 8, "x" * 80, count_max=1, bytes_max=100)
    assert usage_of(cache.quotas._by_client, 7) == (1, cache.payload_bytes)


def test_objects_that_became_too_many_may_still_grow() -> None:
    cache = Cache()
    cache.quotas.set_address(7, "10.0.0.1")
    for number in (1, 2):
        made_by(cache, 7, number)
    cache.quotas.address_count_max = 1
    cache.quotas.address_bytes_max = 100
    made_by(cache, 7, 2, "longer")
    assert usage_of(cache.quotas._by_address, "10.0.0.1") == (2, cache.payload_bytes)
    with pytest.raises(LimitExceeded, match="count of objects of one address"):
        made_by(cache, 7, 3)


def test_objects_of_the_exempt_client_are_not_limited() -> None:
    cache = Cache()
    cache.quotas.exempt_client = 1
    cache.quotas.address_count_max = 10
    cache.quotas.address_bytes_max = 10
    put_by(cache, 1, "x" * 100, count_max=CACHE_OBJECT_COUNT_MAX, bytes_max=CACHE_BYTES_MAX)
    put_by(cache, 7, "x" * 110, count_max=1, bytes_max=50)
    cache.drop(cache.type_cache("Thing"), key_of(Thing(id=1)))
    cache.quotas.set_address(7, "10.0.0.1")
    made_by(cache, 7, 1)
    made_by(cache, 1, 1, "x" * 100)
    assert usage_of(cache.quotas._by_address, "10.0.0.1") == (1, cache.payload_bytes)
