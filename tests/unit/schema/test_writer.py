"""Model types to text."""

from __future__ import annotations

import pytest

from skerry.errors import SchemaCheckError, SchemaMismatchError
from skerry.schema.check import define
from skerry.schema.model import (
    EnumElement,
    EnumType,
    Field,
    Flags,
    Kind,
    RefType,
    RemovedField,
    ScalarType,
    Scope,
    StructType,
    VectorType,
)
from skerry.schema.writer import quote, write_type, write_types

COLOUR = EnumType(
    name="Colour",
    elements=(
        EnumElement(tag=1, name="red", value=0),
        EnumElement(tag=2, name="green", value=10, documentation="Like grass."),
        EnumElement(tag=3, name="none", value=-1),
    ),
    documentation="A colour.",
)
LAMP = StructType(
    name="Lamp",
    fields=(
        Field(tag=2, name="id", type=ScalarType(Kind.UINT32), is_key=True, is_ctor=True),
        Field(
            tag=1,
            name="colour",
            type=VectorType(COLOUR),
            default='["red"]',
            is_deprecated=True,
            documentation="First line.\n\n  Third line.",
            options=(("unit", 'it\'s "x"'), ("flag", False)),
        ),
        Field(tag=4, name="next", type=RefType("Lamp")),
    ),
    flags=Flags(cached=False, internal=True),
    scope=Scope.SERVER,
    is_deprecated=True,
    removed=(RemovedField(tag=9, name="old", type_name="vector<Gone>", documentation="Why."),),
)
TEXT = """\
/// A colour.
enum Colour {
    1: red,
    /// Like grass.
    2: green = 10,
    3: none = -1
}

struct Lamp [cached=false, internal, scope="server", deprecated] {
    2: [key, ctor] uint32 id;
    /// First line.
    ///
    ///   Third line.
    1: [deprecated, default='["red"]', unit="it's \\"x\\"", flag=false] vector<Colour> colour;
    4: instance_ref<Lamp> next;
    /// Why.
    9: [removed] vector<Gone> old;
}
"""


def test_types_are_written_in_full_and_read_back() -> None:
    assert write_types([COLOUR, LAMP]) == TEXT
    assert define(TEXT).types == (COLOUR, LAMP)


def test_types_inside_precede_the_type_that_uses_them() -> None:
    assert write_types([LAMP]) == TEXT
    assert write_types([LAMP, LAMP]) == TEXT


def test_given_order_is_kept() -> None:
    assert define(write_types([LAMP, COLOUR])).types == (LAMP, COLOUR)


def test_one_type_is_written_without_the_types_inside() -> None:
    assert write_type(LAMP) == TEXT[TEXT.index("struct") :]


def test_the_package_is_written_first() -> None:
    assert write_types([COLOUR], package="a.b") == f"package a.b\n\n{write_type(COLOUR)}"
    assert write_types([]) == ""


def test_two_types_of_one_name_are_rejected() -> None:
    other = EnumType(name="Colour", elements=(EnumElement(tag=1, name="blue", value=0),))
    with pytest.raises(SchemaMismatchError, match="two definitions of Colour"):
        write_types([LAMP, other])


@pytest.mark.parametrize("name", ["", "a-b", "1a", "größe", "a b", "a\n"])
def test_names_that_are_not_valid_are_rejected(name: str) -> None:
    element = EnumElement(tag=1, name=name, value=0)
    field = Field(tag=1, name=name, type=ScalarType(Kind.BOOL))
    good = Field(tag=1, name="a", type=ScalarType(Kind.BOOL))
    reference = Field(tag=1, name="a", type=RefType(name))
    for type_ in (
        EnumType(name="E", elements=(element,)),
        EnumType(name=name, elements=COLOUR.elements),
        EnumType(name="E", elements=COLOUR.elements, options=((name, True),)),
        StructType(name="S", fields=(field,)),
        StructType(name="S", fields=(reference,)),
        StructType(
            name="S", fields=(good,), removed=(RemovedField(tag=2, name="b", type_name=name),)
        ),
    ):
        with pytest.raises(SchemaCheckError, match="it is not a name of the type language"):
            write_type(type_)


def test_documentation_from_other_sources_is_normalized() -> None:
    enum = EnumType(name="E", elements=COLOUR.elements[:1], documentation="\r\n a \r\nb\n\n")
    assert write_type(enum).startswith("///  a\n/// b\nenum E")


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", '""'),
        ("a", '"a"'),
        ('"', "'\"'"),
        ("'", '"\'"'),
        ("\"'", '"\\"\'"'),
        ("\\\n\t\x7f", '"\\\\\\n\\t\\u007f"'),
        ('\\"', "'\\\\\"'"),
    ],
)
def test_texts_are_quoted_with_few_escapes(text: str, quoted: str) -> None:
    assert quote(text) == quoted
