"""Definitions to model types."""

from __future__ import annotations

import pytest

from skerry import limits
from skerry.errors import SchemaCheckError
from skerry.schema.check import define
from skerry.schema.model import EnumType, NamedType, RemovedField, StructType


def struct(text: str) -> StructType:
    found = define(text).types[-1]
    assert isinstance(found, StructType)
    return found


def enum(text: str) -> EnumType:
    found = define(text).types[-1]
    assert isinstance(found, EnumType)
    return found


def test_fields_keep_their_order_and_all_their_facts() -> None:
    found = struct(
        "/// A struct.\n"
        "struct A [deprecated] {\n"
        "    7: [key, ctor] uint32 id; //< Its number.\n"
        '    3: [default=\'"x"\', deprecated, unit="m"] string name;\n'
        "}"
    )
    assert found.documentation == "A struct."
    assert found.is_deprecated
    first, second = found.fields
    assert (first.tag, first.name, first.is_key, first.is_ctor) == (7, "id", True, True)
    assert first.documentation == "Its number."
    assert (second.tag, second.default, second.is_deprecated) == (3, '"x"', True)
    assert second.options == (("unit", "m"),)


def test_removed_fields_keep_their_tag_and_need_no_type() -> None:
    found = struct(
        "struct A { 1: bool a; 2: [removed] vector<Gone> b; /// why\n 3: [removed] time_point a; }"
    )
    assert [field.name for field in found.fields] == ["a"]
    assert found.removed == (
        RemovedField(tag=2, name="b", type_name="vector<Gone>", documentation="why"),
        RemovedField(tag=3, name="a", type_name="timepoint"),
    )


def test_the_value_of_an_element_is_its_tag_less_one_by_default() -> None:
    found = enum("enum E { 1: a, 5: b, 2: c = 0, 3: d = -8, 4: e = 2147483647 }")
    assert [element.value for element in found.elements] == [0, 4, 0, -8, 2147483647]


def test_tags_are_valid_up_to_their_limits() -> None:
    assert struct(f"struct A {{ {limits.TAG_MAX}: bool a; }}").fields[0].tag == 31
    assert struct(f"struct A {{ {limits.TAG_MIN}: bool a; }}").fields[0].tag == 1
    tag = limits.ENUM_TAG_MAX
    assert enum(f"enum E {{ {tag}: e }}").elements[0].value == tag - 1
    with pytest.raises(SchemaCheckError, match=f"tag {tag + 1} of element `e` is not in"):
        define(f"enum E {{ {tag + 1}: e }}")


def test_a_struct_may_use_every_tag() -> None:
    fields = " ".join(f"{tag}: bool f{tag};" for tag in range(1, limits.TAG_MAX + 1))
    assert len(struct(f"struct A {{ {fields} }}").fields) == limits.TAG_MAX


def test_the_length_of_names_is_limited() -> None:
    name = "n" * limits.NAME_BYTES_MAX
    assert struct(f"struct {name} {{ 1: bool {name}; }}").name == name
    for text in (
        f"struct {name}x {{ 1: bool a; }}",
        f"struct A {{ 1: bool {name}x; }}",
        f"enum {name}x {{ 1: a }}",
        f"enum E {{ 1: {name}x }}",
    ):
        with pytest.raises(SchemaCheckError, match="a name of 129 bytes is too long"):
            define(text)


def test_the_length_of_documentation_is_limited() -> None:
    text = "ä" * (limits.DOCUMENTATION_BYTES_MAX // 2)
    assert struct(f"/// {text}\nstruct A {{ 1: bool a; }}").documentation == text
    with pytest.raises(SchemaCheckError, match="the documentation of `a` has 65537 bytes"):
        define(f"struct A {{\n/// {text}x\n1: bool a; }}")


def test_the_elements_of_enums_are_limited() -> None:
    count = limits.ENUM_ELEMENT_COUNT_MAX
    elements = " ".join(f"{n}: e{n}" for n in range(1, count + 1))
    assert len(enum(f"enum E {{ {elements} }}").elements) == count
    with pytest.raises(SchemaCheckError, match="enum `E` has 4097 elements, the limit is 4096"):
        define(f"enum E {{ {elements} {count + 1}: more }}")


def chain(depth: int) -> str:
    """Nested structs, the outermost first."""
    inner = "".join(f"struct S{n} {{ 1: S{n + 1} s; }}\n" for n in range(1, depth))
    return f"{inner}struct S{depth} {{ 1: bool b; }}"


def test_nesting_depth_is_limited() -> None:
    assert len(define(chain(limits.TYPE_DEPTH_MAX)).types) == limits.TYPE_DEPTH_MAX
    with pytest.raises(SchemaCheckError) as caught:
        define(chain(limits.TYPE_DEPTH_MAX + 1))
    assert len(caught.value.problems) == 1
    known: dict[str, NamedType] = {t.name: t for t in define(chain(limits.TYPE_DEPTH_MAX)).types}
    with pytest.raises(SchemaCheckError, match="struct `A` is 17 structs deep"):
        define("struct A { 1: vector<S1> s; }", known=known)


def test_more_cycles_than_are_reported_are_still_faults() -> None:
    count = 3000
    text = "".join(f"struct S{n} {{ 1: S{(n + 1) % count} s; 2: S0 t; }}\n" for n in range(count))
    with pytest.raises(SchemaCheckError, match="`S0` contains itself"):
        define(text)
    alone = "".join(f"struct S{n} {{ 1: S{n} s; }}\n" for n in range(count))
    with pytest.raises(SchemaCheckError) as caught:
        define(alone)
    assert len(caught.value.problems) == limits.PROBLEM_COUNT_MAX


def test_a_long_chain_is_reported_once_and_does_not_overflow_the_stack() -> None:
    with pytest.raises(SchemaCheckError) as caught:
        define(chain(3000))
    assert len(caught.value.problems) == 1
