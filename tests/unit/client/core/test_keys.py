"""Keys as people write them."""

from __future__ import annotations

from typing import Any

import skerry
from skerry.client.core.keys import Keys
from skerry.client.core.known_types import KnownTypes
from skerry.objects.base import key_of
from tests.unit.client.stage import Only, Pair, Shout, Vessel

Tagged: Any = skerry.define_types("struct Tagged { 1: [key] vector<uint32> path; }").Tagged


def keys_of(cls: Any) -> Keys:
    return Keys(KnownTypes().shape(cls))


def test_value_tuple_and_object_are_the_same_key() -> None:
    vessels, pairs = keys_of(Vessel), keys_of(Pair)
    assert vessels.canonical(7) == vessels.canonical(Vessel(mmsi=7, name="a")) != b""
    assert vessels.object_of(7) == Vessel(mmsi=7)
    pair = Pair(first=1, second="b", on=True)
    assert pairs.canonical((1, "b")) == pairs.canonical(pair) == key_of(pair)
    assert pairs.value_of(pair) == (1, "b")
    assert vessels.value_of(Vessel(mmsi=7)) == 7


def test_type_without_a_key_has_the_empty_one() -> None:
    only = keys_of(Only)
    assert only.canonical(()) == key_of(Only(text="a"))
    assert only.value_of(Only(text="a")) == ()
    assert only.object_of(1) is None


def test_invalid_key_has_no_canonical_key() -> None:
    vessels, pairs = keys_of(Vessel), keys_of(Pair)
    for wrong in ("7", -1, (7,), 2**40, Shout(text="a"), b"7"):
        assert vessels.canonical(wrong) == b""
    for wrong in (1, (1,), ("b", 1), [1, "b"]):
        assert pairs.canonical(wrong) == b""


def test_list_inside_a_key_can_be_looked_up() -> None:
    assert keys_of(Tagged).value_of(Tagged(path=[1, 2])) == (1, 2)
