"""Classes of enums: tags travel, values are for programs, and both may be shared or strange."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from skerry.errors import SchemaCheckError
from skerry.objects.enums import DescribedEnum, EnumBase, element
from skerry.objects.typeset import TypeSet, define_types


class Color(EnumBase):
    """Colours of lamps."""

    red = 1
    green = element(2, value=10, documentation="go")
    blue = element(7, name="None")


class Twins(EnumBase):
    first = 1
    second = element(2, value=0)
    third = element(3, value=0)


def test_members_have_tag_value_and_documentation() -> None:
    assert [(m.name, m.label, m.tag, m.value) for m in Color] == [
        ("red", "red", 1, 0),
        ("green", "green", 2, 10),
        ("blue", "None", 7, 6),
    ]
    assert Color.green.documentation == "go"
    assert repr(Color.green) == "Color::green"
    assert repr(Color.blue) == "Color::None"


def test_members_are_found_by_value_tag_and_name() -> None:
    assert Color(10) is Color.green
    assert Color.of_tag(2) is Color.green
    assert Color["green"] is Color.green
    with pytest.raises(ValueError, match="Color has no element with tag 3"):
        Color.of_tag(3)
    with pytest.raises(ValueError, match="5"):
        Color(5)


def test_the_descriptor_is_that_of_a_file() -> None:
    text = """
    /// Colours of lamps.
    enum Color {
        1: red,
        /// go
        2: green = 10,
        7: None
    }
    """
    assert define_types(text).Color.descriptor == Color.descriptor


def test_a_class_may_have_another_name_than_its_type() -> None:
    class Lamps(EnumBase, name="Signal", documentation="Lamps.", options={"unit": "x"}):
        on = 1

    assert Lamps.descriptor.name == "Signal"
    assert Lamps.descriptor.documentation == "Lamps."
    assert Lamps.descriptor.options == (("unit", "x"),)
    assert repr(Lamps.on) == "Signal::on"


def test_members_with_one_value_stay_apart() -> None:
    assert [(m.name, m.tag, int(m.value)) for m in Twins] == [
        ("first", 1, 0),
        ("second", 2, 0),
        ("third", 3, 0),
    ]
    assert Twins(0) is Twins.first
    assert len(set(Twins)) == 3
    assert [e.value for e in Twins.descriptor.elements] == [0, 0, 0]


@pytest.mark.parametrize("member", [*Color, *Twins])
@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_members_stay_themselves(member: EnumBase, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(member, protocol)) is member
    assert copy.copy(member) is member
    assert copy.deepcopy(member) is member


def test_members_of_two_classes_of_one_type_are_equal() -> None:
    twin = define_types("enum Color { 1: red, 2: green = 10, 7: None }").Color
    other = define_types("enum Color { 1: red, 2: verde, 7: None }").Color
    named = define_types("enum Colour { 1: red, 2: green }").Colour
    assert twin is not Color
    assert twin.green == Color.green
    assert hash(twin.green) == hash(Color.green)
    assert twin.green != Color.red
    assert other.verde != Color.green
    assert named.green != Color.green
    assert Color.green != 2
    assert {Color.green: 1}[twin.green] == 1


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"a": 1, "b": 1}, "tag 1 is taken by `a`"),
        ({"a": 0}, "tag 0 of element `a` is not in 1"),
        ({"a": -1}, "tag -1 of element `a` is not in 1"),
        ({"a": 2**31}, "tag 2147483648 of element `a` is not in 1"),
        ({"a": element(1, value=2**31)}, "value 2147483648 of element `a` is not in"),
        ({"grün": 1}, "grün"),
        ({"a": element(1, name="b c")}, "b c"),
        ({"a": 1, "b": element(2, name="a")}, "`a` is defined twice"),
        ({"a" * 129: 1}, "a name of 129 bytes is too long"),
    ],
)
def test_rules_of_the_type_language_hold(members: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaCheckError, match=why):
        EnumBase("Wrong", members)  # type: ignore[arg-type]


@pytest.mark.parametrize("tag", ["1", 1.0, True, None])
def test_a_member_is_declared_by_a_number(tag: Any) -> None:
    with pytest.raises(TypeError, match="an element is declared by its tag, an int, not by"):
        EnumBase("Wrong", {"a": tag})  # type: ignore[arg-type]


def test_a_base_for_methods_has_no_type() -> None:
    class WithMethod(EnumBase):
        @property
        def is_first(self) -> bool:
            return self.tag == 1

    class Lamp(WithMethod):
        on = 1
        off = 2

    assert not hasattr(WithMethod, "descriptor")
    assert Lamp.on.is_first
    assert not Lamp.off.is_first
    assert Lamp.descriptor.name == "Lamp"


def test_described_enum_is_not_checked_again(types: TypeSet) -> None:
    assert issubclass(types.Kind, DescribedEnum)
    cls: Any = DescribedEnum("Strange", [("a", (0, 5, "", "a b"))])  # type: ignore[arg-type]
    assert next(iter(cls)).label == "a b"
