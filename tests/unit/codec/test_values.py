"""Values that Python has no type for: property sets, packed objects, references."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from skerry.codec.values import AnyObject, PropertySet, Ref


def test_a_property_set_is_the_mask_of_its_tags() -> None:
    tags = PropertySet.of([1, 12, 31])
    assert tags == 1 << 1 | 1 << 12 | 1 << 31
    assert list(tags) == [1, 12, 31]
    assert len(tags) == 3
    assert 12 in tags
    assert 2 not in tags
    assert "12" not in tags
    assert -1 not in tags
    assert repr(tags) == str(tags) == "PropertySet({1, 12, 31})"


def test_an_empty_property_set_is_false() -> None:
    assert not PropertySet.of([])
    assert PropertySet(2)
    assert repr(PropertySet(0)) == "PropertySet({})"


@pytest.mark.parametrize("tag", [0, 32, -1])
def test_a_property_set_is_made_of_tags_only(tag: int) -> None:
    assert PropertySet.of([1, 31])
    with pytest.raises(ValueError, match=f"tag {tag} is not between 1 and 31"):
        PropertySet.of([tag])


def test_set_operations_give_property_sets() -> None:
    one, two = PropertySet.of([1, 2]), PropertySet.of([2, 3])
    for result, tags in (
        (one | two, [1, 2, 3]),
        (one & two, [2]),
        (one - two, [1]),
        (one ^ two, [1, 3]),
        (int(one) | two, [1, 2, 3]),
        (int(one) & two, [2]),
        (int(one) - two, [1]),
        (int(one) ^ two, [1, 3]),
    ):
        assert type(result) is PropertySet
        assert list(result) == tags


def test_a_negative_number_is_not_a_property_set() -> None:
    wrong = PropertySet(-1)
    assert repr(wrong) == "PropertySet(-1)"
    with pytest.raises(ValueError, match="-1 is not a property set"):
        list(wrong)


@pytest.mark.parametrize(
    "value", [PropertySet(6), AnyObject("T", b"\xa0"), Ref("T", b"\x81\x05")], ids=repr
)
def test_values_are_copied_pickled_and_hashed(value: Any) -> None:
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value
        assert type(again) is type(value)
        assert hash(again) == hash(value)


@pytest.mark.parametrize("make", [AnyObject, Ref])
def test_pairs_compare_by_both_parts(make: Any) -> None:
    assert make("T", b"x") == make("T", b"x")
    assert make("T", b"x") != make("U", b"x")
    assert make("T", b"x") != make("T", b"y")
    assert make("T", b"x") != ("T", b"x")
    assert repr(make("T", b"x")) == f"{make.__name__}('T', b'x')"


@pytest.mark.parametrize("make", [AnyObject, Ref])
def test_pairs_are_made_of_text_and_bytes_and_stay_so(make: Any) -> None:
    with pytest.raises(TypeError, match="expected the name of a type, got int"):
        make(5, b"x")
    for data in ("x", bytearray(b"x"), None):
        with pytest.raises(TypeError, match=f"expected bytes, got {type(data).__name__}"):
            make("T", data)
    with pytest.raises(AttributeError):
        make("T", b"x").type_name = "U"


def test_pairs_are_matched_by_position() -> None:
    match AnyObject("T", b"x"):
        case AnyObject(name, payload):
            assert (name, payload) == ("T", b"x")
        case _:
            raise AssertionError
    match Ref("T", b"x"):
        case Ref(name, key):
            assert (name, key) == ("T", b"x")
        case _:
            raise AssertionError
