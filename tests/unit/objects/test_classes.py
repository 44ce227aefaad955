"""Classes of types: one for equal types, with constructors, for any names."""

from __future__ import annotations

import inspect
import sys
import threading
from typing import Any

import pytest

from skerry.errors import SchemaCheckError
from skerry.limits import ENUM_ELEMENT_COUNT_MAX, TYPE_COUNT_MAX
from skerry.objects import classes
from skerry.objects.base import RESERVED_NAMES, Struct
from skerry.objects.classes import (
    attribute_names,
    class_of,
    make_enum_class,
    make_struct_class,
    member_names,
    used_types,
)
from skerry.objects.enums import EnumBase
from skerry.objects.typeset import TypeSet, define_types
from skerry.schema.model import (
    EnumElement,
    EnumType,
    Field,
    FieldType,
    Kind,
    ScalarType,
    StructType,
    VectorType,
)
from tests.plan_walk import PlanWalk


def struct_of(*names: str, type_: FieldType | None = None, name: str = "T", **facts: Any) -> Any:
    used = type_ or ScalarType(Kind.UINT8)
    fields = tuple(
        Field(tag=tag, name=field, type=used, **facts) for tag, field in enumerate(names, 1)
    )
    return StructType(name=name, fields=fields)


def enum_of(*names: str, name: str = "E") -> EnumType:
    elements = (EnumElement(tag=n, name=label, value=n - 1) for n, label in enumerate(names, 1))
    return EnumType(name=name, elements=tuple(elements))


# -- one class for equal types


def test_equal_types_have_one_class() -> None:
    assert class_of(struct_of("a", "b")) is class_of(struct_of("a", "b"))
    assert class_of(enum_of("a")) is class_of(enum_of("a"))
    assert class_of(struct_of("a")) is not class_of(struct_of("b"))


def test_nested_types_have_the_same_class() -> None:
    inner = struct_of("x", name="Inner")
    outer = class_of(struct_of("a", type_=VectorType(inner), name="Outer"))
    assert outer._nested["Inner"] is class_of(inner)
    assert used_types(outer.descriptor) == [inner]


def classes_by_threads(type_: StructType, *, count: int) -> list[Any]:
    found: list[Any] = []
    gate = threading.Barrier(count)

    def ask() -> None:
        gate.wait()
        found.append(class_of(type_))

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.slow
def test_threads_that_meet_get_one_class() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for attempt in range(20):
            type_ = struct_of("a", type_=struct_of("x", name=f"I{attempt}"), name=f"Race{attempt}")
            found = classes_by_threads(type_, count=6)
            assert set(found) == {class_of(type_)}
            assert len(found) == 6
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.slow
def test_cached_classes_are_limited() -> None:
    before = dict(classes._classes)
    try:
        classes._classes.clear()
        first, second = enum_of("a", name="First"), enum_of("a", name="Second")
        kept = class_of(first), class_of(second)
        for number in range(TYPE_COUNT_MAX - 2):
            classes._classes[enum_of("a", name=f"N{number}")] = EnumBase
        assert class_of(first) is kept[0]
        assert len(classes._classes) == TYPE_COUNT_MAX
        class_of(enum_of("a", name="OneMore"))
        assert len(classes._classes) == TYPE_COUNT_MAX
        assert class_of(second) is kept[1]
        assert class_of(first) is not kept[0]
    finally:
        classes._classes.clear()
        classes._classes.update(before)


def test_repeated_nested_types_are_fast() -> None:
    """Each of the 31 fields of a type is of the type below it, sixteen levels deep."""
    type_ = struct_of("x", name="L0")
    for level in range(1, 16):
        names = [f"f{n}" for n in range(31)]
        type_ = struct_of(*names, type_=type_, name=f"L{level}")
    cls = class_of(type_)
    assert cls(f0=cls._nested["L14"]()).encode() == b"\xa1\x01\xa0"
    twin = struct_of("x", name="L0")
    for level in range(1, 16):
        twin = struct_of(*[f"f{n}" for n in range(31)], type_=twin, name=f"L{level}")
    assert class_of(twin) is cls


# -- structs


def test_a_class_looks_like_one_that_was_written(types: TypeSet) -> None:
    cls = types.Vessel
    assert (cls.__name__, cls.__qualname__, cls.__module__) == ("Vessel", "Vessel", "skerry.types")
    assert cls.__doc__ == "A vessel at sea."
    assert issubclass(cls, Struct)
    assert not hasattr(cls(mmsi=1), "__dict__")
    assert cls.__init__.__qualname__ == "Vessel.__init__"
    assert str(inspect.signature(cls)) == (
        "(mmsi=None, *, name=None, kind=None, position=None, track=None, seen=None,"
        " flags=<default>)"
    )


def test_ctor_fields_are_positional_and_others_by_name(types: TypeSet) -> None:
    assert types.Vessel(5) == types.Vessel(mmsi=5)
    with pytest.raises(TypeError):
        types.Vessel(5, "Aurora")
    with pytest.raises(TypeError):
        types.Position(1.0)


def test_defaults_are_created_for_each_object(types: TypeSet) -> None:
    first, second = types.Vessel(), types.Vessel()
    assert first.flags == []
    first.flags.append(1)
    assert second.flags == []
    assert types.Vessel(flags=None).flags is None, "asked to be unset"
    assert types.Vessel.decode(b"\xa0").flags is None, "what arrives is as it was sent"


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("uint8", "5", 5),
        ("float64", "5", 5.0),
        ("string", '"x"', "x"),
        ("bool", "true", True),
        ("Kind", '"tanker"', "tanker"),
        ("timepoint", '"1970-01-01T00:00:01Z"', 1.0),
        ("bytes", '"00ff"', b"\x00\xff"),
        ("vector<uint8>", "[1, 2]", [1, 2]),
    ],
)
def test_a_default_of_every_kind(kind: str, default: str, value: Any) -> None:
    text = default.replace('"', '\\"')
    types = define_types(
        f'enum Kind {{ 1: tanker }} struct T {{ 1: [default="{text}"] {kind} x; 2: bool y; }}'
    )
    found = types.T().x
    assert found == (types.Kind.tanker if kind == "Kind" else value)
    assert types.T(x=None).x is None


def test_invalid_default_is_rejected() -> None:
    type_ = struct_of("x", default="256")
    with pytest.raises(SchemaCheckError, match=r"default of T\.x: .*256 is out of the range"):
        class_of(type_)
    with pytest.raises(SchemaCheckError, match=r"default of T\.x"):
        class_of(struct_of("x", default="{"))


STRANGE = [
    *("self", "encode", "decode", "attributes", "descriptor", "class", "None", "_codec", "_values"),
    *(
        "a b",
        "a_b",
        "größe",
        "__init__",
        "__slots__",
        "__class__",
        "_",
        "9",
        "\U0001f6a2",
        "x" * 128,
    ),
    *("v0", "obj", "data", "pos", "__absent", "__default_1", "_absent_1", "_default_1"),
]


def test_fields_may_be_called_anything() -> None:
    fields = tuple(
        Field(tag=tag, name=name, type=ScalarType(Kind.UINT8), default="5" if tag == 1 else None)
        for tag, name in enumerate(STRANGE, 1)
    )
    type_ = StructType(name="Strange", fields=fields)
    names = attribute_names(type_)
    assert len(set(names.values())) == len(STRANGE)
    assert not RESERVED_NAMES & set(names.values())
    cls = class_of(type_)
    obj = cls(**dict.fromkeys(names.values(), 7))
    for codec in (cls._codec, PlanWalk(cls._codec.plan)):
        assert codec.decode(codec.encode(obj)) == obj
    assert cls().self_ == 5
    for name in STRANGE:
        assert obj.is_set(name)
        obj.clear(name)
    assert obj.encode() == b"\xa0"
    assert cls.from_json(cls(v0=1).to_json()) == cls(v0=1)


def test_types_may_be_called_anything() -> None:
    for name in ("a b", "class", "9", "größe", "Struct", "ns::T"):
        cls = class_of(struct_of("x", name=name))
        assert cls.__name__.isidentifier()
        assert cls.descriptor.name == name
        assert repr(cls(x=1)) == f"{name}{{ .x = 1u }}"


def test_documentation_of_a_stranger_need_not_be_utf_8() -> None:
    type_ = StructType(name="T", fields=(), documentation="a\udcff")
    assert class_of(type_).__doc__ == "a?"
    assert class_of(type_).descriptor.documentation == "a\udcff"


def test_a_program_adds_to_a_class() -> None:
    def double(self: Any) -> int:
        return int(self.y * 2)

    cls: Any = make_struct_class(
        struct_of("x"),
        {},
        module=__name__,
        qualname="Outer.Mine",
        namespace={"double": double},
        attributes={"x": "y"},
    )
    assert (cls.__name__, cls.__qualname__) == ("Mine", "Outer.Mine")
    assert cls(y=4).double() == 8
    assert cls(y=4).encode() == b"\xa1\x01\x04"
    assert cls(y=4).is_set("x")
    assert cls(y=4).is_set("y"), "by either name"
    assert repr(cls(y=4)) == "T{ .x = 4u }"


# -- enums


ODD = [
    *("mro", "name", "value", "tag", "label", "of_tag", "descriptor", "documentation", "_label"),
    *("_x_", "__x__", "_", "__", "a b", "a_b", "ü", "class", "None", "_E__private", "_E__private_"),
    *(
        "_value_",
        "_missing_",
        "_ignore_",
        "_generate_next_value_",
        "__init__",
        "_sunder_",
        "_order_",
    ),
    *("_name_", "_member_map_", "__members__", "x" * 128, "9"),
]


def test_elements_may_be_called_anything() -> None:
    type_ = enum_of(*ODD)
    names = member_names(type_)
    assert len(set(names.values())) == len(ODD)
    cls = class_of(type_)
    assert [member.label for member in cls] == ODD
    assert [member.tag for member in cls] == list(range(1, len(ODD) + 1))
    assert [member.name for member in cls] == list(names.values())
    assert all(cls.of_tag(member.tag) is member for member in cls)


def test_an_enum_without_elements() -> None:
    cls = class_of(EnumType(name="Empty", elements=()))
    assert list(cls) == []
    with pytest.raises(ValueError, match="Empty has no element with tag 1"):
        cls.of_tag(1)


def test_an_enum_of_the_largest_size() -> None:
    type_ = EnumType(
        name="Large",
        elements=tuple(
            EnumElement(tag=n, name=f"e{n}", value=n % 7) for n in range(ENUM_ELEMENT_COUNT_MAX)
        ),
    )
    cls = make_enum_class(type_, module=__name__)
    assert len(cls) == ENUM_ELEMENT_COUNT_MAX
    assert cls.of_tag(4095).label == "e4095"
