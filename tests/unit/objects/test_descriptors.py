"""Types as they travel, and what strangers may write into them."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.errors import SchemaCheckError
from skerry.limits import (
    DOCUMENTATION_BYTES_MAX,
    ENUM_ELEMENT_COUNT_MAX,
    NAME_BYTES_MAX,
    TYPE_DEPTH_MAX,
)
from skerry.objects.classes import class_of
from skerry.objects.descriptors import describe, from_description
from skerry.objects.internal import internal_class
from skerry.objects.typeset import TypeSet, define_types
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import Flags, NamedType, Scope, StructType, dependencies

Property = internal_class("StructPropertyData")
Description = internal_class("StructDescriptorData")
EnumDescription = internal_class("EnumDescriptorData")
Element = internal_class("EnumElementDescriptor")


def described(*properties: Any, name: str = "T", **facts: Any) -> Any:
    return Description(name=name, properties=list(properties), **facts)


def prop(
    name: str | None = "x", tag: int | None = 1, kind: str | None = "bool", **facts: Any
) -> Any:
    return Property(name=name, tag=tag, type=kind, **{"isKey": False, **facts})


def enum_described(*elements: tuple[Any, Any, Any], name: str = "E") -> Any:
    made = [Element(tag=tag, name=label, enum_value=value) for tag, label, value in elements]
    return EnumDescription(name=name, elements=made)


# -- there and back


def test_types_round_trip_as_descriptions(types: TypeSet) -> None:
    known: dict[str, NamedType] = {}
    for cls in types.values():
        type_ = cls.descriptor
        data = describe(type_).encode()
        obj = internal_class(describe(type_).descriptor.name).decode(data)
        known[type_.name] = from_description(obj, known)
        assert fingerprint(known[type_.name]) == fingerprint(type_)
        assert describe(known[type_.name]).encode() == data


def test_a_type_that_travelled_makes_equal_objects(types: TypeSet) -> None:
    known: dict[str, NamedType] = {}
    for type_ in (*dependencies(types.Vessel.descriptor), types.Vessel.descriptor):
        known[type_.name] = from_description(describe(type_), known)
    dynamic = class_of(known["Vessel"])
    vessel = types.Vessel(mmsi=5, kind=types.Kind.tanker, track=[types.Position(lat=1.0)])
    assert dynamic.decode(vessel.encode()) == vessel
    assert repr(dynamic.decode(vessel.encode())) == repr(vessel)


def test_description_has_only_what_cpp_programs_send(types: TypeSet) -> None:
    obj: Any = describe(types.Vessel.descriptor)
    assert list(obj.attributes) == [1, 2, 5]
    assert list(obj.flags.attributes) == [1, 2, 3, 4, 5, 6]
    assert list(obj.properties[0].attributes) == [1, 2, 3, 4]
    assert list(describe(types.Kind.descriptor).attributes) == [1, 2]


def test_documentation_is_described_on_request(types: TypeSet) -> None:
    obj: Any = describe(types.Vessel.descriptor, with_documentation=True)
    assert obj.documentation.description == "A vessel at sea."
    found = from_description(
        obj, {"Kind": types.Kind.descriptor, "Position": types.Position.descriptor}
    )
    assert found.documentation == "A vessel at sea."
    assert not describe(types.Position.descriptor, with_documentation=True).is_set("documentation")


@pytest.mark.parametrize("scope", Scope)
def test_scope_is_described_only_if_declared(scope: Scope) -> None:
    type_ = StructType(name="T", fields=(), scope=scope)
    obj: Any = describe(type_)
    assert obj.scope.tag == scope
    assert from_description(obj, {}) == StructType(name="T", fields=(), scope=scope)
    assert not describe(StructType(name="T", fields=())).is_set("scope")


@pytest.mark.parametrize(
    "flag", ["cached", "internal", "persistent", "cleanup", "local", "substruct_only"]
)
def test_each_flag_round_trips(flag: str) -> None:
    flags = Flags(**{"cached": False, flag: True})
    found = from_description(describe(StructType(name="T", fields=(), flags=flags)), {})
    assert isinstance(found, StructType)
    assert found.flags == flags


# -- what strangers write


def test_flags_that_are_missing_are_off_and_so_is_cached() -> None:
    found = from_description(described(prop()), {})
    assert isinstance(found, StructType)
    assert found.flags == Flags(cached=False)
    partly = described(prop(), flags=internal_class("DotsStructFlags")(cleanup=True))
    assert from_description(partly, {}).flags == Flags(cached=False, cleanup=True)  # type: ignore[union-attr]


def test_type_without_fields_is_accepted() -> None:
    for obj in (described(), Description(name="T")):
        assert class_of(from_description(obj, {}))().encode() == b"\xa0"


def test_names_of_other_languages_are_accepted() -> None:
    found = from_description(
        described(prop("größe", 1, "bool"), prop("class", 2, "uint8"), name="ns::Type"), {}
    )
    cls = class_of(found)
    assert cls.from_json('{"größe": true, "class": 5}').encode() == b"\xa2\x01\xf5\x02\x05"


def test_elements_may_have_any_values_also_the_same() -> None:
    found = from_description(enum_described((1, "a", -5), (2**31 - 1, "b", -5)), {})
    members = list(class_of(found))
    assert [(m.tag, m.label, m.value) for m in members] == [(1, "a", -5), (2**31 - 1, "b", -5)]


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (described(prop("", 1)), "has no name of its field"),
        (described(prop(None, 1)), "has no name of its field"),
        (described(prop("x", None)), r"T\.x has no tag, key flag or type"),
        (described(prop("x", 1, None)), r"T\.x has no tag, key flag or type"),
        (described(prop("x", isKey=None)), r"T\.x has no tag, key flag or type"),
        (described(prop("x", 0)), r"T\.x has tag 0, which is not 1 to 31"),
        (described(prop("x", 32)), r"T\.x has tag 32, which is not 1 to 31"),
        (described(prop("x", 1), prop("y", 1)), "T has two entries with the tag 1"),
        (described(prop("x", 1), prop("x", 2)), "T has two entries with the name x"),
        (described(prop(kind="Nothing")), r"T\.x is of type Nothing, which was not described"),
        (described(prop(kind="T")), r"T\.x is of type T, which was not described before"),
        (described(prop(kind="")), r"T\.x is of type , which was not described before"),
        (described(prop(kind="vector<Nothing>")), "is of type Nothing, which was not described"),
        (described(prop(kind="vector<>")), "which was not described before"),
        (described(prop(kind="vector<vector<bool>>")), r"T\.x is a vector of vectors"),
        (described(prop(kind="vector< vector<bool> >")), r"T\.x is a vector of vectors"),
        (described(prop(kind="vector<" * 9999 + ">" * 9999)), r"T\.x is a vector of vectors"),
        (described(prop(kind="instance_ref<>")), "has no name of its type"),
        (described(prop(kind="instance_ref<" + "x" * 129 + ">")), "has a name over 128 bytes"),
        (described(prop(kind="x" * 1000)), r"is of type x{60}, which was not"),
        (described(name=""), "has no name of its type"),
        (Description(), "has no name of its type"),
        (described(name="/T"), "has a name that begins with a slash"),
        (described(name="a\nb"), "has a name with characters that cannot be printed"),
        (described(name="a\x00b"), "has a name with characters that cannot be printed"),
        (described(name="a\udcff"), "has a name with characters that cannot be printed"),
        (described(name="a" + chr(0xD800)), "has a name with characters that cannot be printed"),
        (described(name="\u202eevil"), "has a name with characters that cannot be printed"),
        (described(prop("x\x1b[31m")), "has a name with characters that cannot be printed"),
        (enum_described((1, "", 0)), "has no name of its element"),
        (enum_described((1, None, 0)), "has no name of its element"),
        (enum_described((None, "a", 0)), r"E\.a has no tag or no value"),
        (enum_described((1, "a", None)), r"E\.a has no tag or no value"),
        (enum_described((1, "a", 0), (1, "b", 1)), "E has two entries with the tag 1"),
        (enum_described((1, "a", 0), (2, "a", 1)), "E has two entries with the name a"),
        (enum_described(name=""), "has no name of its type"),
        (enum_described(), "E has no elements"),
        (EnumDescription(name="E"), "E has no elements"),
        (enum_described((0, "a", 0)), r"E\.a has tag 0, not one of 1 to 2147483647"),
        (enum_described((2**31, "a", 0)), r"E\.a has tag 2147483648, not one of 1 to 2147483647"),
        (described(name="uint32"), "a type cannot have the name uint32 of a built-in type"),
        (described(name="vector<X>"), "a type cannot have the name vector<X>"),
        (enum_described((1, "a", 0), name="bool"), "a type cannot have the name bool"),
    ],
    ids=lambda value: "" if hasattr(value, "descriptor") else value[:40],
)
def test_invalid_description_is_rejected(obj: Any, why: str) -> None:
    with pytest.raises(SchemaCheckError, match=why):
        from_description(obj, {})


@pytest.mark.parametrize("length", [NAME_BYTES_MAX, NAME_BYTES_MAX + 1])
def test_names_are_limited(length: int) -> None:
    name = "n" * length
    half = "ü" * (length // 2) + "n" * (length % 2)
    for obj in (
        described(name=name),
        described(name=half),
        described(prop(name)),
        enum_described((1, name, 0)),
    ):
        if length <= NAME_BYTES_MAX:
            assert class_of(from_description(obj, {}))
        else:
            with pytest.raises(SchemaCheckError, match=f"has a name over {NAME_BYTES_MAX} bytes"):
                from_description(obj, {})


def test_documentation_is_limited() -> None:
    documentation = internal_class("StructDocumentation")
    fits = described(prop(), documentation=documentation(description="x" * DOCUMENTATION_BYTES_MAX))
    assert len(from_description(fits, {}).documentation) == DOCUMENTATION_BYTES_MAX
    fits.documentation.description += "x"
    with pytest.raises(SchemaCheckError, match="the documentation of T is over 65536 bytes"):
        from_description(fits, {})
    odd = described(prop(), documentation=documentation(description="\udcff"))
    assert class_of(from_description(odd, {}))(x=True).encode() == b"\xa1\x01\xf5"


def test_elements_are_limited() -> None:
    elements = [(n, f"e{n}", n) for n in range(1, ENUM_ELEMENT_COUNT_MAX + 1)]
    assert len(class_of(from_description(enum_described(*elements), {}))) == len(elements)
    elements.append((9999, "more", 0))
    with pytest.raises(SchemaCheckError, match=r"E has 4097 elements, the limit is 4096"):
        from_description(enum_described(*elements), {})


def test_nesting_of_structs_is_limited() -> None:
    """With 31 fields on each level, which must be fast."""
    known: dict[str, NamedType] = {}
    below = "bool"
    for level in range(TYPE_DEPTH_MAX):
        properties = [prop(f"f{tag}", tag, below) for tag in range(1, 32)]
        below = f"L{level}"
        known[below] = from_description(described(*properties, name=below), known)
    assert class_of(known[below])().encode() == b"\xa0"
    with pytest.raises(SchemaCheckError, match="T is nested 17 deep, the limit is 16"):
        from_description(described(prop(kind=f"vector<{below}>")), known)


def test_type_of_the_language_is_never_rejected() -> None:
    text = (
        "enum E { 1: a } struct T { 1: [key] vector<E> x; 31: instance_ref<T> r; 5: time_point t; }"
    )
    for cls in define_types(text).values():
        known = {"E": define_types(text).E.descriptor}
        assert describe(from_description(describe(cls.descriptor), known)) == describe(
            cls.descriptor
        )
