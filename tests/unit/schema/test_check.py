"""Checking files together."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from skerry import limits
from skerry.errors import SchemaCheckError, SchemaSyntaxError
from skerry.schema.check import Checked, check, define
from skerry.schema.formatter import format_text
from skerry.schema.language.parser import parse
from skerry.schema.model import StructType
from skerry.schema.writer import write_types

ROOT = Path(__file__).parents[3]
GOOD = [*sorted((ROOT / "tests/golden/types/good").glob("*.dots")), ROOT / "examples/fleet.dots"]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_valid_file_is_accepted_without_a_warning(path: Path) -> None:
    place = parse("struct Place { 1: float64 lat; }", "Place.dots")
    tree = parse(path.read_text(), path.name)
    checked = check([tree, place] if tree.imports else [tree])
    assert checked.warnings == ()
    assert define(write_types(checked.types)).types == checked.types


def test_types_are_in_the_order_of_files_and_declarations() -> None:
    first = parse("struct B { 1: A a; } enum C { 1: c }", "1.dots")
    second = parse("struct A { 1: C c; }", "2.dots")
    checked = check([first, second])
    assert [type_.name for type_ in checked.types] == ["B", "C", "A"]
    assert checked.origins == {"B": "1.dots:1", "C": "1.dots:1", "A": "2.dots:1"}
    outer = checked.types[0]
    assert isinstance(outer, StructType)
    assert outer.fields[0].type is checked.types[2]


def test_problems_of_two_files_with_one_name_are_reported() -> None:
    files = [parse("\nenum A { 1: a }", "1.dots"), parse("enum A { 1: a }", "2.dots")]
    with pytest.raises(SchemaCheckError) as caught:
        check(files)
    problem = caught.value.problems[0]
    assert (problem.file, problem.line) == ("2.dots", 1)
    assert problem.message == "`A` is defined twice: first at 1.dots:2"


def test_problems_are_in_the_order_of_files_and_lines() -> None:
    files = [parse("struct B { 1: X x;\n 40: bool b; }", "b"), parse("struct A { 1: Y y; }", "a")]
    with pytest.raises(SchemaCheckError) as caught:
        check(files)
    assert [(p.file, p.line) for p in caught.value.problems] == [("b", 1), ("b", 2), ("a", 1)]


def test_users_of_a_broken_type_are_not_reported() -> None:
    with pytest.raises(SchemaCheckError) as caught:
        define("struct A { 1: Gone g; }\nstruct B { 1: A a; }\nstruct C { 1: vector<B> b; }")
    assert [p.line for p in caught.value.problems] == [1]


def test_problems_are_limited() -> None:
    with pytest.raises(SchemaCheckError) as caught:
        define("".join(f"struct A{n} {{ 1: Gone g; }}\n" for n in range(200)))
    assert len(caught.value.problems) == limits.PROBLEM_COUNT_MAX


def faults(text: str) -> list[tuple[int, str]]:
    with pytest.raises(SchemaSyntaxError) as caught:
        define(text)
    return [(problem.line, problem.message) for problem in caught.value.problems]


def test_faults_of_syntax_and_of_rules_are_reported_together() -> None:
    text = (
        "struct A { 1 string a; }\n"
        "struct B { 0: int8 a; 1: strng c; }\n"
        "import Nope\n"
        "struct C [cached=maybe] { 99: bool a; }\n"
    )
    assert faults(text) == [
        (1, "expected `:` after tag 1, found `string`"),
        (2, "tag 0 of field `a` is not in 1..31"),
        (2, "type `strng` is unknown"),
        (3, "there is no type `Nope` to import"),
        (4, "expected `true`, `false` or text in quotes for option `cached`, found `maybe`"),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        "struct A { 1 bool a; }",
        "struct A : Base { 1: bool a; }",
        "strct A { 1: bool a; }",
        "enum A { 1: b @ }",
        "struct A { 1: bool a;",
        "struct Z { 1: bool z; struct A { 1: bool a; } }",
    ],
)
def test_the_name_of_a_broken_definition_counts_as_defined(broken: str) -> None:
    text = f"struct B {{ 1: A a; 2: instance_ref<A> r; 3: vector<A> v; }}\nimport A\n{broken}\n"
    assert {line for line, _ in faults(text)} == {3}
    assert len(faults(text)) == 1


def test_unknown_names_are_not_reported_if_definitions_could_not_be_parsed() -> None:
    text = "struct B { 1: Below b; 2: Int c; 99: bool d; }\n/* struct Below { 1: bool a; }"
    assert faults(text) == [
        (1, "type `Int` is unknown"),
        (1, "tag 99 of field `d` is not in 1..31"),
        (2, "the comment is not closed: `*/` is missing"),
    ]


def test_faults_of_both_kinds_share_one_limit() -> None:
    half = limits.PROBLEM_COUNT_MAX // 2 + 1
    wrong = "".join(f"struct A{n} {{ 99: bool a; }}\n" for n in range(half))
    assert len(faults(wrong + "struct B { 1 bool b; }\n" * half)) == limits.PROBLEM_COUNT_MAX


def test_no_file_has_no_types() -> None:
    assert check([]) == Checked(types=())


@pytest.mark.slow
def test_a_file_of_five_thousand_lines_is_checked_and_formatted_quickly() -> None:
    fields = "".join(f'    {n}: [default="0"] float64 field{n}; //< Text.\n' for n in range(1, 31))
    text = "".join(f"/// Text.\nstruct Type{n} [cleanup] {{\n{fields}}}\n\n" for n in range(147))
    assert text.count("\n") > 4900
    start = time.perf_counter()
    define(text)
    formatted = format_text(text)
    assert time.perf_counter() - start < 20, "it takes about one second"
    assert define(formatted) == define(text)
