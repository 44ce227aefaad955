"""Generated modules and stubs: equal types, readable source, the same text every day."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import skerry
from skerry.errors import SchemaCheckError, SchemaMismatchError
from skerry.objects.classes import class_of
from skerry.objects.generate import generate_module, generate_stub
from skerry.schema.model import EnumElement, EnumType, Field, Kind, ScalarType, StructType

FLEET = """
/// What a vessel is for.
///
///   - indented
enum Purpose [old="yes"] {
    1: cargo,
    2: tanker = 7, //< Liquids.
    3: barge = 7,
    4: class
}

struct Place [substruct_only] {
    1: float64 lat;
    2: [default="1.5"] float64 lon;
}

/// A ship.
struct Vessel [persistent, cleanup, scope="global", deprecated, unit="SI", quick] {
    1: [key, ctor] uint32 mmsi;
    2: [ctor, default='"Anna"'] string name; //< As painted.
    3: [default='{"lat": 54.5}'] Place place;
    4: [default='["class", "tanker"]'] vector<Purpose> purposes;
    5: [deprecated, unit="m"] float32 draught;
    6: instance_ref<Vessel> tug;
    7: string encode;
    8: string import;
    9: [default='"2026-11-15T14:03:07Z"'] timepoint seen;
    10: [default='"00ff"'] bytes raw;
    /// Gone
    11: [removed] vector<Colour> colours;
    12: [removed] uint8 mmsi;
}
"""

Importer = Callable[..., ModuleType]


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Importer]:
    """Imports a generated module by name, as a program would."""
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def import_types(text: str, name: str = "generated_fleet") -> ModuleType:
        types = skerry.define_types(text).values()
        (tmp_path / f"{name}.py").write_text(generate_module(types), encoding="utf-8")
        names.append(name)
        return importlib.import_module(name)

    yield import_types
    for name in names:
        del sys.modules[name]


def test_classes_have_the_descriptors_of_the_file(imported: Importer) -> None:
    module = imported(FLEET)
    types = skerry.define_types(FLEET)
    for name, cls in types.items():
        assert getattr(module, name).descriptor == cls.descriptor


def test_classes_behave_as_those_of_the_file(imported: Importer) -> None:
    module, types = imported(FLEET), skerry.define_types(FLEET)
    mine, theirs = module.Vessel(7, encode_="x"), types.Vessel(7, encode_="x")
    assert mine == theirs
    assert repr(mine) == repr(theirs)
    assert mine.encode() == theirs.encode()
    assert module.Vessel.decode(theirs.encode()) == mine
    assert module.Vessel.__match_args__ == types.Vessel.__match_args__
    assert module.Vessel.__doc__ == types.Vessel.__doc__ == "A ship."
    assert module.Purpose.__doc__ == types.Purpose.__doc__
    assert issubclass(module.Vessel, skerry.Struct)
    assert issubclass(module.Purpose, skerry.Enum)


def test_defaults_are_those_of_the_file(imported: Importer) -> None:
    module = imported(FLEET)
    vessel = module.Vessel()
    assert vessel.name == "Anna"
    assert vessel.place == module.Place(lat=54.5, lon=None)
    assert vessel.purposes == [module.Purpose.class_, module.Purpose.tanker]
    assert vessel.raw == b"\x00\xff"
    assert skerry.to_datetime(vessel.seen).isoformat() == "2026-11-15T14:03:07+00:00"


def test_reserved_names_get_an_underscore_in_python_only(imported: Importer) -> None:
    module = imported(FLEET)
    vessel = module.Vessel(import_="a", encode_="b")
    assert vessel.is_set("import")
    assert '"import": "a"' in vessel.to_json()
    assert module.Purpose.class_.label == "class"


def test_objects_and_members_are_pickled_by_import(imported: Importer) -> None:
    module = imported(FLEET)
    vessel = module.Vessel(1, purposes=[module.Purpose.barge])
    again = pickle.loads(pickle.dumps(vessel))
    assert type(again) is module.Vessel
    assert again == vessel
    for member in module.Purpose:
        assert pickle.loads(pickle.dumps(member)) is member


@pytest.mark.slow
def test_module_needs_no_file_in_another_process(imported: Importer, tmp_path: Path) -> None:
    module = imported(FLEET)
    data = pickle.dumps(module.Vessel(1, "Berta"))
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        input=data,
        stdout=subprocess.PIPE,
    )
    assert done.returncode == 0
    assert done.stdout.decode().startswith('Vessel{ .mmsi = 1u, .name = "Berta"')


def test_constructor_of_the_stub_is_that_of_the_class(imported: Importer) -> None:
    module = imported(FLEET)
    stub = generate_stub(skerry.define_types(FLEET).values())
    arguments = next(
        function.args
        for cls in ast.parse(stub).body
        if isinstance(cls, ast.ClassDef) and cls.name == "Vessel"
        for function in cls.body
        if isinstance(function, ast.FunctionDef)
    )
    kinds = {p.name: p.kind for p in inspect.signature(module.Vessel).parameters.values()}
    assert [a.arg for a in arguments.args] == ["self", "mmsi", "name"]
    assert [n for n, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD] == [
        "mmsi",
        "name",
    ]
    assert [a.arg for a in arguments.kwonlyargs] == [
        n for n, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY
    ]


def test_types_follow_their_dependencies() -> None:
    types = skerry.define_types("struct A { 1: B b; 2: C c; } struct B { 1: C c; } enum C { 1: x }")
    names = [
        node.name
        for node in ast.parse(generate_module(types.values())).body
        if isinstance(node, ast.ClassDef)
    ]
    assert names == ["C", "B", "A"]


def test_dependencies_are_included() -> None:
    types = skerry.define_types("struct A { 1: B b; } enum B { 1: x }")
    assert generate_module([types.A]) == generate_module(types.values())


def test_header_names_the_source_and_no_date() -> None:
    text = generate_module([skerry.define_types("enum A { 1: x }").A], source="fleet.dots")
    first = text.splitlines()[0]
    assert first.startswith("# Generated by `skerry types generate` from fleet.dots;")
    assert "20" not in first


def test_source_cannot_break_out_of_its_comment() -> None:
    enum = skerry.define_types("enum A { 1: x }").A
    text = generate_module([enum], source="a.dots\nimport os")
    assert "\nimport os" not in text
    compile(text, "text", "exec")


def test_small_types_read_as_if_written_by_hand() -> None:
    types = skerry.define_types(
        "/// A light.\nenum Light { 1: red, 2: green = 5 }\n"
        "struct Lamp [cached=false] { 1: [key] uint32 id; 2: [default='\"red\"'] Light light; }"
    )
    assert generate_module(types.values(), source="lamps.dots") == (
        "# Generated by `skerry types generate` from lamps.dots; change that and generate again.\n"
        "\n"
        "from __future__ import annotations\n"
        "\n"
        "import skerry\n"
        "\n"
        '__all__ = ["Lamp", "Light"]\n'
        "\n"
        "\n"
        "class Light(skerry.Enum):\n"
        '    """A light."""\n'
        "\n"
        "    red = 1\n"
        "    green = skerry.element(2, value=5)\n"
        "\n"
        "\n"
        "@skerry.struct(cached=False)\n"
        "class Lamp(skerry.Struct):\n"
        "    id: skerry.uint32 = skerry.key(1)\n"
        "    light: Light | None = skerry.field(2, default=Light.red)\n"
    )


def test_small_stubs_have_the_precise_types() -> None:
    types = skerry.define_types(
        "struct Lamp { 1: [key] uint32 id; 2: [default='[]'] vector<Lamp2> l; }"
        " struct Lamp2 { 1: [ctor] float16 f; }"
    )
    assert generate_stub(types.values(), source="lamps.dots") == (
        "# Generated by `skerry types generate` from lamps.dots; change that and generate again.\n"
        "\n"
        "import skerry\n"
        "\n"
        '__all__ = ["Lamp", "Lamp2"]\n'
        "\n"
        "class Lamp2(skerry.Struct):\n"
        "    f: float | None\n"
        "\n"
        '    __match_args__ = ("f",)\n'
        "\n"
        "    def __init__(self, f: float | None = None) -> None: ...\n"
        "\n"
        "class Lamp(skerry.Struct):\n"
        "    id: int\n"
        "    l: list[Lamp2] | None\n"
        "\n"
        '    __match_args__ = ("id", "l")\n'
        "\n"
        "    def __init__(self, *, id: int = ..., l: list[Lamp2] | None = ...) -> None: ...\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("line_length", [88, 100, 120])
def test_formatter_finds_nothing_to_change(tmp_path: Path, line_length: int) -> None:
    golden = Path(__file__).parents[2] / "golden" / "types" / "good"
    for source in (golden / "everything.dots", golden / "golden.dots"):
        types = skerry.load_types(source).values()
        (tmp_path / f"{source.stem}.py").write_text(generate_module(types), encoding="utf-8")
        (tmp_path / f"{source.stem}.pyi").write_text(generate_stub(types), encoding="utf-8")
    (tmp_path / "fleet.py").write_text(
        generate_module(skerry.define_types(FLEET).values()), encoding="utf-8"
    )
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache", "--diff"]
    done = subprocess.run(
        [*command, "--line-length", str(line_length), tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_two_definitions_of_one_name_are_rejected() -> None:
    first = EnumType(name="A", elements=(EnumElement(tag=1, name="x", value=0),))
    second = EnumType(name="A", elements=(EnumElement(tag=1, name="y", value=0),))
    with pytest.raises(SchemaMismatchError) as caught:
        generate_module([first, second])
    assert caught.value.name == "A"


@pytest.mark.parametrize("name", ["no name", "a.b", ""])
def test_name_outside_the_language_is_rejected(name: str) -> None:
    struct = StructType(name="A", fields=(Field(tag=1, name=name, type=ScalarType(Kind.BOOL)),))
    with pytest.raises(SchemaCheckError):
        generate_module([struct])


def test_documentation_outside_the_language_is_rejected() -> None:
    struct = StructType(
        name="A",
        fields=(Field(tag=1, name="x", type=ScalarType(Kind.BOOL)),),
        documentation="blanks at the end   ",
    )
    with pytest.raises(SchemaCheckError, match="cannot be declared"):
        generate_module([struct])


def test_classes_that_programs_declared_can_be_given(imported: Importer) -> None:
    @skerry.struct
    class Buoy(skerry.Struct):
        """Floats."""

        id: skerry.uint32 | None = skerry.key(1)

    scope: dict[str, Any] = {"__name__": "generated"}
    exec(generate_module([Buoy]), scope)
    assert scope["Buoy"].descriptor == Buoy.descriptor
    assert class_of(Buoy.descriptor).descriptor == Buoy.descriptor


# -- what modules declare with, and people seldom need


def test_class_and_field_may_be_called_otherwise_than_in_the_type() -> None:
    @skerry.struct(name="vessel", documentation="A ship.", options={"unit": "SI"})
    class Vessel(skerry.Struct):
        kind: str | None = skerry.field(1, name="type", options={"quick": True})
        type_: str | None = skerry.key(2, name="class", default_json='"a"')

    assert Vessel.__name__ == "Vessel"
    assert Vessel(kind="tug").to_json() == '{"type": "tug", "class": "a"}'
    assert skerry.to_dots(Vessel) == (
        "/// A ship.\n"
        'struct vessel [unit="SI"] {\n'
        "    1: [quick] string type;\n"
        "    2: [key, default='\"a\"'] string class;\n"
        "}\n"
    )


def test_chosen_name_must_be_free_in_python() -> None:
    with pytest.raises(SchemaCheckError, match="encode is a reserved name; use encode_"):

        @skerry.struct
        class Vessel(skerry.Struct):
            encode: str | None = skerry.field(1, name="code")  # type: ignore[assignment]


def test_two_fields_of_one_name_are_rejected() -> None:
    with pytest.raises(SchemaCheckError, match="`b` is defined twice"):

        @skerry.struct
        class Vessel(skerry.Struct):
            a: str | None = skerry.field(1, name="b")
            b: str | None = skerry.field(2)


def test_two_defaults_of_one_field_are_rejected() -> None:
    with pytest.raises(SchemaCheckError, match="a has two defaults"):

        @skerry.struct
        class Vessel(skerry.Struct):
            a: str | None = skerry.field(1, default="x", default_json='"x"')


def test_invalid_default_text_is_rejected() -> None:
    with pytest.raises(SchemaCheckError, match="does not fit string"):

        @skerry.struct
        class Vessel(skerry.Struct):
            a: str | None = skerry.field(1, default_json="1")


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (skerry.removed(2), "the removed field with tag 2 needs a name and a type"),
        (skerry.field(2), "is not a removed field"),
        (skerry.removed(1, name="b", type_name="bool"), "tag 1 is taken"),
    ],
)
def test_removed_fields_in_the_decorator_are_checked(gone: Any, message: str) -> None:
    with pytest.raises(SchemaCheckError, match=message):

        @skerry.struct(removed=[gone])
        class Vessel(skerry.Struct):
            a: str | None = skerry.field(1)


def test_enum_may_be_called_otherwise_than_in_the_type() -> None:
    class Light(skerry.Enum, name="light", documentation="Shines.", options={"quick": True}):
        red = 1
        class_ = skerry.element(2, name="class", documentation="A sign.")

    assert Light.__doc__ == "Shines."
    assert repr(Light.class_) == "light::class"
    assert skerry.to_dots(Light) == (
        "/// Shines.\nenum light [quick] {\n    1: red,\n    /// A sign.\n    2: class\n}\n"
    )


@pytest.mark.parametrize("name", ["label", "of_tag", "name", "value", "mro", "_x_", "_E__x"])
def test_elements_with_reserved_names_are_members(name: str) -> None:
    enum = skerry.define_types(f"enum E {{ 1: {name}, 2: other }}").E
    scope: dict[str, Any] = {"__name__": "generated"}
    exec(generate_module([enum]), scope)
    for cls in (enum, scope["E"]):
        assert [member.label for member in cls] == [name, "other"]
        assert cls.of_tag(1).value == 0
