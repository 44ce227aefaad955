"""Types declared in Python: equal to those of a file, and held to the same rules."""

from __future__ import annotations

import copy
import pickle
from typing import Annotated, Any, ClassVar

import pytest

import skerry
from skerry.errors import SchemaCheckError
from skerry.objects.typeset import define_types


class Kind(skerry.Enum):
    """Kind of vessel."""

    cargo = 1
    tanker = skerry.element(2, value=80)


@skerry.struct(substruct_only=True)
class Position(skerry.Struct):
    lat: float | None = skerry.field(1)
    lon: float | None = skerry.field(2)


@skerry.struct(persistent=True, scope="global")
class Vessel(skerry.Struct):
    """A vessel at sea."""

    mmsi: skerry.uint32 | None = skerry.key(1, ctor=True)
    name: str | None = skerry.field(2, documentation="as painted on the bow")
    kind: Kind | None = skerry.field(3, default=Kind.cargo)
    position: Position | None = skerry.field(4)
    track: list[Position] | None = skerry.field(5, default=[])
    flag: Annotated[skerry.Ref, "Vessel"] | None = skerry.field(6, deprecated=True)
    speed: skerry.float32 | None = skerry.removed(7)

    @property
    def is_south(self) -> bool:
        return self.position is not None and (self.position.lat or 0) < 0

    @classmethod
    def unknown(cls) -> Vessel:
        return cls(mmsi=0)

    @staticmethod
    def unit() -> str:
        return "knots"


TEXT = """
/// Kind of vessel.
enum Kind { 1: cargo, 2: tanker = 80 }
struct Position [substruct_only] { 1: float64 lat; 2: float64 lon; }
/// A vessel at sea.
struct Vessel [persistent, scope="global"] {
    1: [key, ctor] uint32 mmsi;
    2: string name;             //< as painted on the bow
    3: [default='"cargo"'] Kind kind;
    4: Position position;
    5: [default="[]"] vector<Position> track;
    6: [deprecated] instance_ref<Vessel> flag;
    7: [removed] float32 speed;
}
"""


def test_a_declared_type_equals_that_of_a_file() -> None:
    types = define_types(TEXT)
    assert types.Vessel.descriptor == Vessel.descriptor
    assert types.Kind.descriptor == Kind.descriptor
    assert types.Position.descriptor == Position.descriptor
    assert define_types(skerry.to_dots(Vessel)).Vessel.descriptor == Vessel.descriptor


def test_objects_are_as_any() -> None:
    vessel = Vessel(mmsi=5, position=Position(lat=-1.0))
    assert vessel.kind is Kind.cargo
    assert vessel.track == []
    assert Vessel.decode(vessel.encode()) == vessel
    assert Vessel.from_json(vessel.to_json()) == vessel
    assert repr(Position(lat=-1.0)) == "Position{ .lat = -1.0 }"
    assert vessel == define_types(TEXT).Vessel.decode(vessel.encode())


def test_methods_stay() -> None:
    assert Vessel(mmsi=5, position=Position(lat=-1.0)).is_south
    assert Vessel.unknown() == Vessel(mmsi=0)
    assert type(Vessel.unknown()) is Vessel
    assert Vessel.unit() == "knots"
    assert Vessel.__doc__ == "A vessel at sea."
    assert (Vessel.__module__, Vessel.__qualname__) == (__name__, "Vessel")


def test_objects_are_pickled_by_an_importable_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys
    import types

    module = types.ModuleType("fleet_of_tests")
    monkeypatch.setitem(sys.modules, "fleet_of_tests", module)
    source = (
        "import skerry\n"
        "@skerry.struct\n"
        "class Ship(skerry.Struct):\n"
        "    mmsi: int | None = skerry.key(1)\n"
    )
    exec(source, vars(module))
    ship = module.Ship(mmsi=5)
    data = pickle.dumps(ship)
    assert b"fleet_of_tests" in data
    again = pickle.loads(data)
    assert (type(again), again) == (module.Ship, ship)


def test_objects_of_a_class_inside_a_function_are_pickled_by_type() -> None:
    @skerry.struct
    class Local(skerry.Struct):
        x: int | None = skerry.key(1)

    again = pickle.loads(pickle.dumps(Local(x=5)))
    assert again == Local(x=5)
    assert again.descriptor == Local.descriptor
    assert type(copy.deepcopy(Local(x=5))) is Local


def test_a_class_need_not_derive_from_struct() -> None:
    class Named:
        def title(self) -> str:
            return f"<{getattr(self, 'name', '')}>"

    @skerry.struct
    class Thing(Named):
        name: str | None = skerry.key(1)

    made: Any = Thing
    thing = made(name="x")
    assert thing.title() == "<x>"
    assert isinstance(thing, skerry.Struct)
    assert thing.encode() == b"\xa1\x01ax"


def test_super_means_the_class_that_was_made() -> None:
    class Base:
        x: Any

        def __post_init__(self) -> None:
            self.x = (self.x or 0) + 1

        @property
        def double(self) -> int:
            return int(self.x or 0) * 2

        @classmethod
        def make(cls) -> Any:
            return cls()

    @skerry.struct
    class Counted(Base, skerry.Struct):
        x: int | None = skerry.field(1)

        def __post_init__(self) -> None:
            super().__post_init__()

        @property
        def double(self) -> int:
            return super().double + 1

        @classmethod
        def make(cls) -> Any:
            return super().make()

        def __repr__(self) -> str:
            return "counted " + super().__repr__()

    assert Counted(x=5).x == 6
    assert Counted(x=5).double == 13
    assert Counted.make() == Counted.decode(b"\xa1\x01\x01")
    assert repr(Counted(x=1)) == "counted Counted{ .x = 2 }"


def test_post_init_does_not_run_for_decoded_objects() -> None:
    @skerry.struct
    class Checked(skerry.Struct):
        x: int | None = skerry.field(1)

        def __post_init__(self) -> None:
            if (self.x or 0) < 0:
                raise ValueError("negative")

    with pytest.raises(ValueError, match="negative"):
        Checked(x=-1)
    assert Checked.decode(b"\xa1\x01\x20").x == -1


def test_names_that_python_or_objects_need_may_be_chosen() -> None:
    @skerry.struct(name="class")
    class Class(skerry.Struct):
        from_: int | None = skerry.key(1, name="from")
        encode: int | None = skerry.field(2)  # type: ignore[assignment]
        attributes: int | None = skerry.field(3, default=5)  # type: ignore[assignment]

    assert [field.name for field in Class.descriptor.fields] == ["from", "encode", "attributes"]
    obj: Any = Class(from_=1, encode_=2)  # type: ignore[call-arg]
    assert (obj.from_, obj.encode_, obj.attributes_) == (1, 2, 5)
    assert obj.encode() == b"\xa3\x01\x01\x02\x02\x03\x05"
    assert obj.is_set("from")
    assert repr(obj) == "class{ .from = 1, .encode = 2, .attributes = 5 }"


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (bool, True),
        (skerry.int8, -128),
        (float, 0.1),
        (str, 'a"b'),
        (bytes, b"\x00\xff"),
        (skerry.timepoint, 1.5),
        (list[int], [1, 2]),
        (Kind, Kind.tanker),
        (Position, Position(lat=1.0)),
        (list[Kind], [Kind.tanker]),
    ],
    ids=str,
)
def test_a_default_of_every_kind(annotation: Any, default: Any) -> None:
    class Made:
        __annotations__ = {"x": annotation}
        x = skerry.field(1, default=default)

    cls: Any = skerry.struct(Made)
    assert cls().x == default
    assert define_types(skerry.to_dots(cls)).Made().x == default


def test_a_removed_field_keeps_its_tag() -> None:
    (gone,) = Vessel.descriptor.removed
    assert (gone.tag, gone.name, gone.type_name) == (7, "speed", "float32")

    @skerry.struct(removed=[skerry.removed(3, name="old", type_name="Gone")])
    class Other(skerry.Struct):
        x: int | None = skerry.field(1)

    assert Other.descriptor.removed[0].type_name == "Gone"


# -- faults


def fault(decorate: Any, annotations: dict[str, Any], **body: Any) -> str:
    body["__annotations__"] = annotations
    body["__qualname__"] = "Wrong"
    with pytest.raises(SchemaCheckError) as caught:
        decorate(type("Wrong", (), body))
    assert str(caught.value).startswith("<class Wrong>:")
    return str(caught.value)


def test_errors_of_fields_are_reported() -> None:
    struct = skerry.struct
    assert "x has no tag; write x: ... = skerry.field(tag)" in fault(struct, {"x": int})
    assert "x has no tag" in fault(struct, {"x": int}, x=5)
    assert "x has no type; write x: type = skerry.field(1)" in fault(struct, {}, x=skerry.field(1))
    assert "x: a field cannot be <class 'complex'>" in fault(
        struct, {"x": complex}, x=skerry.field(1)
    )
    assert "uses an undefined name" in fault(struct, {"x": "Nothing"}, x=skerry.field(1))
    assert "cannot define __init__; use __post_init__" in fault(
        struct, {"x": int}, x=skerry.field(1), __init__=print
    )
    assert "does not fit int64" in fault(struct, {"x": int}, x=skerry.field(1, default="a"))
    assert "x: 5 is not a Kind" in fault(struct, {"x": Kind}, x=skerry.field(1, default=5))
    assert "two defaults" in fault(
        struct, {"x": int}, x=skerry.field(1, default=5, default_json="5")
    )
    assert "encode is a reserved name; use encode_" in fault(
        struct, {"encode": int}, encode=skerry.field(1, name="other")
    )


def test_errors_of_types_are_reported() -> None:
    field = {"x": int}
    assert "tag 32 of field `x` is not in 1..31" in fault(skerry.struct, field, x=skerry.field(32))
    assert "tag 0 of field `x` is not in 1..31" in fault(skerry.struct, field, x=skerry.field(0))
    assert "tag 1 is taken by `x`" in fault(
        skerry.struct, {"x": int, "y": int}, x=skerry.field(1), y=skerry.field(1)
    )
    assert "tag 1 is taken by" in fault(
        skerry.struct, {"x": int, "y": int}, x=skerry.field(1), y=skerry.removed(1)
    )
    assert "vector" in fault(skerry.struct, {"x": list[list[int]]}, x=skerry.field(1))
    assert "unknown scope 'moon'; the scopes are program, server, site, global" in fault(
        skerry.struct(scope="moon"), field, x=skerry.field(1)
    )
    assert "colour" in fault(
        skerry.struct(colour="red"),  # type: ignore[call-overload]
        field,
        x=skerry.field(1),
    )
    assert "is not a removed field" in fault(skerry.struct(removed=[5]), field, x=skerry.field(1))
    assert "needs a name and a type" in fault(
        skerry.struct(removed=[skerry.removed(2)]), field, x=skerry.field(1)
    )
    with pytest.raises(SchemaCheckError, match="größe"):

        @skerry.struct(name="größe")
        class Size(skerry.Struct):
            x: int | None = skerry.field(1)


def test_a_struct_without_fields_cannot_be_declared() -> None:
    with pytest.raises(skerry.SchemaError):
        skerry.struct(type("Wrong", (), {}))


def test_a_struct_does_not_extend_another() -> None:
    with pytest.raises(SchemaCheckError, match="a struct cannot extend another struct"):

        @skerry.struct
        class Boat(Vessel):
            oars: int | None = skerry.field(20)


def test_fields_of_a_base_that_is_not_a_struct_are_rejected() -> None:
    class Base(skerry.Struct):
        id: int | None = skerry.key(1)

    with pytest.raises(SchemaCheckError, match="its base Base has fields but is not a struct"):

        @skerry.struct
        class _Derived(Base):
            size: int | None = skerry.field(2)


def test_derived_class_with_fields_is_rejected() -> None:
    with pytest.raises(SchemaCheckError, match=r"Tug\.pull: a struct cannot extend another struct"):

        class Tug(Vessel):
            pull: int | None = skerry.field(9)


def test_class_variables_are_not_fields() -> None:
    @skerry.struct
    class Tank:
        COUNT: ClassVar[int] = 5
        level: float | None = skerry.field(1)

    assert Tank.COUNT == 5
    assert [item.name for item in Tank.descriptor.fields] == ["level"]  # type: ignore[attr-defined]


def test_types_may_be_nested_in_the_class_that_uses_them() -> None:
    @skerry.struct
    class Pump(skerry.Struct):
        class Mode(skerry.Enum):
            off = 1
            on = 2

        mode: Mode | None = skerry.field(1)

    assert Pump.decode(Pump(mode=Pump.Mode.on).encode()).mode is Pump.Mode.on


def test_missing_decorator_is_reported() -> None:
    class Forgotten(skerry.Struct):
        size: int | None = skerry.field(1)

    with pytest.raises(TypeError, match=r"Forgotten has no type; declare it with @skerry\.struct"):
        Forgotten(size=1)


def test_unknown_parameter_of_the_decorator_is_rejected() -> None:
    options: Any = {"chached": True}
    with pytest.raises(SchemaCheckError, match="@struct has no parameter chached; it has cached"):

        @skerry.struct(**options)
        class _Thing:
            size: int | None = skerry.field(1)


def test_private_name_is_rejected() -> None:
    with pytest.raises(SchemaCheckError, match="__size is a private name in Python"):

        @skerry.struct
        class Thing:
            __size: int | None = skerry.field(1)
