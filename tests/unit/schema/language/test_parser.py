"""The grammar: definitions, their documentation, and recovery from faults."""

from __future__ import annotations

import pytest

from skerry import limits
from skerry.errors import SchemaSyntaxError
from skerry.schema.language.parser import parse, parse_partly
from skerry.schema.language.syntax import EnumSyntax, StructSyntax


def struct(text: str) -> StructSyntax:
    item = parse(text).items[0]
    assert isinstance(item, StructSyntax)
    return item


def enum(text: str) -> EnumSyntax:
    item = parse(text).items[0]
    assert isinstance(item, EnumSyntax)
    return item


def test_a_struct_has_its_parts_and_positions() -> None:
    found = struct('struct A [cached=False, unit="m"] {\n  1: [key] vector<B> c;\n}')
    assert (found.name.text, found.name.line, found.name.column) == ("A", 1, 8)
    assert [(o.name.text, o.value) for o in found.options] == [("cached", False), ("unit", "m")]
    field = found.fields[0]
    assert (field.tag.text, field.type.text, field.name.text) == ("1", "vector<B>", "c")
    assert (field.name.line, field.name.column) == (2, 22)
    assert [(o.name.text, o.value) for o in field.options] == [("key", True)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("key", True),
        ("key=true", True),
        ("key=TRUE", True),
        ("key=False", False),
        ('key="true"', "true"),
        ("key='a\"b'", 'a"b'),
    ],
)
def test_option_values_are_flags_or_texts(written: str, value: str | bool) -> None:
    assert struct(f"struct A {{ 1: [{written}] bool b; }}").fields[0].options[0].value == value


def test_empty_brackets_are_no_options() -> None:
    assert struct("struct A [] { 1: [ ] bool b; }").options == ()


def test_enum_has_tags_values_and_optional_commas() -> None:
    found = enum("enum E { 1: a 2: b = 0, 3: c = -7 }")
    assert [(e.tag.text, e.name.text, e.value and e.value.text) for e in found.elements] == [
        ("1", "a", None),
        ("2", "b", "0"),
        ("3", "c", "-7"),
    ]


def test_last_comma_of_an_enum_is_allowed() -> None:
    assert len(enum("enum E { 1: a, 2: b, }").elements) == 2


def test_keywords_are_names_if_a_name_is_expected() -> None:
    found = struct("struct struct { 1: enum import; 2: vector<package> vector; }")
    assert [f.type.text for f in found.fields] == ["enum", "vector<package>"]
    assert [f.name.text for f in found.fields] == ["import", "vector"]


def test_references_may_name_their_type() -> None:
    found = struct("struct A { 1: instance_ref a; 2: vector<instance_ref<A>> b; }")
    assert [f.type.text for f in found.fields] == ["instance_ref", "vector<instance_ref<A>>"]


def test_text_may_be_empty_or_end_without_a_line_end() -> None:
    assert parse("").items == ()
    assert parse("\ufeff// nothing").closing[0].text == "// nothing"
    assert len(parse("package a.b.c").items) == 1


def test_documentation_belongs_to_what_follows_or_precedes_on_its_line() -> None:
    found = struct(
        "/// the struct\n"
        "struct A { // plain\n"
        "    /// before a\n"
        "    1: bool a; //< after a\n"
        "    // plain\n"
        "    /// before b\n"
        "    2: bool b; /// after b\n"
        "    3: bool c; 4: bool d; //< after d\n"
        "    //< before e\n"
        "    5: bool e;\n"
        "}"
    )
    assert found.notes.documentation == "the struct"
    assert [f.notes.documentation for f in found.fields] == [
        "before a\nafter a",
        "before b\nafter b",
        "",
        "after d",
        "before e",
    ]


def test_documentation_of_elements_may_be_on_either_side_of_the_comma() -> None:
    found = enum(
        "enum E {\n  1: a, //< after a\n  2: b //< after b\n  , 3: c //< after c\n"
        "  /// before d\n  4: d }"
    )
    assert [e.notes.documentation for e in found.elements] == [
        "after a",
        "after b",
        "after c",
        "before d",
    ]


def test_comments_of_a_body_are_kept_apart() -> None:
    found = struct("struct A { // open\n  1: bool a; // field\n  // close\n} // end")
    assert [c.text for c in found.opening] == ["// open"]
    assert [c.text for c in found.fields[0].notes.after] == ["// field"]
    assert [c.text for c in found.closing] == ["// close"]
    assert [c.text for c in found.notes.after] == ["// end"]


def test_parsing_continues_after_a_fault() -> None:
    text = "".join(f"struct A{n} {{\n    1 bool a;\n    2: bool b;\n}}\n" for n in range(5))
    with pytest.raises(SchemaSyntaxError) as caught:
        parse(text, "a.dots")
    assert [p.line for p in caught.value.problems] == [2, 6, 10, 14, 18]
    assert {p.file for p in caught.value.problems} == {"a.dots"}


def test_problems_stop_at_their_limit() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        parse("struct A {\n" + "x;\n" * 1000 + "}")
    assert len(caught.value.problems) == limits.PROBLEM_COUNT_MAX


def test_problems_are_in_the_order_of_the_text() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        parse("struct A {\n  1 bool a;\n  2: bool @;\n  3 bool c;\n}")
    assert [p.line for p in caught.value.problems] == [2, 3, 4]


def test_nested_vectors_are_parsed_up_to_a_limit() -> None:
    depth = limits.TYPE_DEPTH_MAX
    type_ = "vector<" * depth + "bool" + ">" * depth
    assert struct(f"struct A {{ 1: {type_} a; }}").fields[0].type.text == type_
    with pytest.raises(SchemaSyntaxError, match="over 16 vectors in each other"):
        parse("struct A { 1: " + "vector<" * 100_000)


def test_valid_definitions_are_separated_from_broken_ones() -> None:
    text = "import Kind;\nstruct A { 1 bool a; }\nstruct B { 1: bool b; };\nenum C { 1: c € }\n"
    tree, problems = parse_partly(text, "a.dots")
    assert [problem.line for problem in problems] == [1, 2, 3, 4]
    assert [item.name.text for item in tree.items] == ["Kind", "B"]
    assert tree.broken == {"A", "C"}
    assert not tree.is_torn


@pytest.mark.parametrize(
    "text",
    [
        "enum A { 1: a }\n/* enum B { 1: b }",
        "struct A {\n" + "x;\n" * limits.PROBLEM_COUNT_MAX + "}",
        " " * (limits.SOURCE_BYTES_MAX + 1),
    ],
)
def test_text_that_is_not_parsed_to_its_end_is_torn(text: str) -> None:
    assert parse_partly(text)[0].is_torn


def test_text_without_a_fault_has_nothing_broken() -> None:
    tree, problems = parse_partly("struct A { 1: bool a; }")
    assert (problems, tree.broken, tree.is_torn) == ((), frozenset(), False)
    assert tree == parse("struct A { 1: bool a; }")
