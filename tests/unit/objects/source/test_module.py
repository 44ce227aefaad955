"""Classes as modules declare them."""

from __future__ import annotations

import skerry
from skerry.objects.source.module import class_lines
from skerry.objects.source.source_names import SourceNames


def declared(text: str, name: str) -> str:
    types = skerry.define_types(text)
    names = SourceNames([cls.descriptor for cls in types.values()])
    return "\n".join(class_lines(types[name].descriptor, names))


def test_flags_scope_and_options_are_arguments_of_the_decorator() -> None:
    text = (
        'struct A [persistent, cached=false, scope="site", deprecated, unit="m", x] { 1: bool b; }'
    )
    assert declared(text, "A") == (
        "@skerry.struct(\n"
        "    cached=False,\n"
        "    persistent=True,\n"
        '    scope="site",\n'
        "    deprecated=True,\n"
        '    options={"unit": "m", "x": True},\n'
        ")\n"
        "class A(skerry.Struct):\n"
        "    b: bool | None = skerry.field(1)"
    )


def test_removed_fields_are_arguments_of_the_decorator() -> None:
    text = "struct A { 1: bool b; 2: [removed] Gone g; //< Once.\n}"
    assert declared(text, "A") == (
        "@skerry.struct(\n"
        '    removed=[skerry.removed(2, name="g", type_name="Gone", documentation="Once.")],\n'
        ")\n"
        "class A(skerry.Struct):\n"
        "    b: bool | None = skerry.field(1)"
    )


def test_reserved_names_are_declared_beside_their_python_names() -> None:
    assert declared("enum class { 1: if, 2: name }", "class") == (
        'class class_(skerry.Enum, name="class"):\n'
        '    if_ = skerry.element(1, name="if")\n'
        '    name_ = skerry.element(2, name="name")'
    )


def test_documentation_that_needs_escapes_becomes_an_argument() -> None:
    assert declared("/// a\\b\nenum A [x] {\n/// c\\d\n1: e }", "A") == (
        'class A(skerry.Enum, documentation="a\\\\b", options={"x": True}):\n'
        '    e = skerry.element(1, documentation="c\\\\d")'
    )


def test_every_kind_has_its_annotation() -> None:
    text = (
        "struct A { 1: bool a; 2: uint64 b; 3: float16 c; 4: string d; 5: bytes e; 6: uuid f;"
        " 7: timepoint g; 8: steady_timepoint h; 9: duration i; 10: property_set j; 11: any k;"
        " 12: instance_ref l; 13: instance_ref<A> m; 14: vector<B> n; 15: B o; 16: time_point p; }"
        " enum B { 1: x }"
    )
    lines = declared(text, "A").splitlines()[2:]
    annotations = [line.split(": ")[1].split(" | None")[0] for line in lines]
    assert annotations == [
        "bool",
        "skerry.uint64",
        "skerry.float16",
        "str",
        "bytes",
        "UUID",
        "skerry.timepoint",
        "skerry.steady_timepoint",
        "skerry.duration",
        "skerry.property_set",
        "skerry.any_object",
        "skerry.instance_ref",
        'Annotated[skerry.Ref, "A"]',
        "list[B]",
        "B",
        "skerry.timepoint",
    ]
