"""The cursor: passing, expecting and skipping tokens."""

from __future__ import annotations

import pytest

from skerry.schema.language.cursor import KEYWORDS, Cursor, GivenUpError, word
from skerry.schema.language.lexer import scan
from skerry.schema.language.problems import ProblemList


def cursor(text: str) -> tuple[Cursor, ProblemList]:
    problems = ProblemList().of("a.dots")
    return Cursor(scan(text, problems), problems), problems


def rest(walk: Cursor) -> str:
    pieces = []
    while not walk.is_at_end:
        pieces.append(walk.take().text)
    return " ".join(pieces)


def test_take_passes_tokens_and_stops_at_the_end() -> None:
    walk, _ = cursor("a ; b")
    assert walk.take().text == "a"
    assert not walk.take_if(",")
    assert walk.take_if(";")
    assert walk.ahead(9).kind == "end"
    assert word(walk.take()).text == "b"
    assert walk.take().kind == "end"
    assert walk.take().kind == "end"


def test_a_missing_token_is_reported_once() -> None:
    walk, problems = cursor("a")
    with pytest.raises(GivenUpError):
        walk.expect(";", "after it", hint="add one")
    with pytest.raises(GivenUpError):
        walk.expect_number("a tag")
    assert [(p.message, p.hint) for p in problems.errors] == [
        ("expected `;` after it, found `a`", "add one")
    ]


def test_numbers_may_have_a_minus() -> None:
    walk, _ = cursor("- 5 7")
    first = walk.expect_number("a value")
    assert (first.text, first.column) == ("-5", 1)
    assert walk.expect_number("a value").text == "7"
    with pytest.raises(GivenUpError):
        walk.expect_number("a value")


def test_broken_field_is_skipped_to_the_next_one() -> None:
    for text, left in {
        "a b ; 2 : c ;": "2 : c ;",
        "a b\n2 : c ;": "2 : c ;",
        "a b }": "}",
        "a , b\nstruct C": "struct C",
    }.items():
        walk, _ = cursor(text)
        walk.skip_item(";")
        assert rest(walk) == left


def test_broken_element_is_skipped_to_its_comma() -> None:
    walk, _ = cursor("a b , c")
    walk.skip_item(",;")
    assert rest(walk) == "c"


def test_broken_options_are_skipped() -> None:
    for text, left, can_go_on in [
        ("a b ] c", "c", True),
        ("a b { c", "{ c", True),
        ("a b ; c", "; c", False),
        ("a b", "", False),
    ]:
        walk, _ = cursor(f"[ {text}")
        walk.take()
        assert walk.skip_options() == can_go_on
        assert rest(walk) == left


def test_broken_definition_is_skipped_with_its_braces() -> None:
    for text, left in {
        "a { b { c } d } e": "e",
        "a b\nenum E": "enum E",
        "a { b\nstruct S": "struct S",
        "a { b\n  struct S } c": "c",
    }.items():
        walk, _ = cursor(text)
        walk.skip_definition()
        assert rest(walk) == left


def test_keywords_count_at_the_start_of_a_line() -> None:
    for keyword in KEYWORDS:
        walk, _ = cursor(f"{keyword} a {keyword}")
        assert walk.is_at_keyword
        walk.take()
        walk.take()
        assert not walk.is_at_keyword


def test_comments_are_before_inside_or_after_an_item() -> None:
    walk, _ = cursor("// b\na /* i */ ; // x\n// y\nc")
    notes = walk.begin()
    walk.take()
    walk.take()
    assert [c.text for c in notes.before] == ["// b"]
    assert [c.text for c in walk.take_inside()] == ["/* i */"]
    assert [c.text for c in walk.take_after()] == ["// x"]
    assert [c.text for c in walk.take_pending()] == ["// y"]


def test_documentation_after_an_opening_brace_belongs_to_the_next_item() -> None:
    walk, _ = cursor("{ /* a */ /// b\n c")
    walk.take()
    assert [c.text for c in walk.take_after(plain_only=True)] == ["/* a */"]
    assert [c.text for c in walk.begin().before] == ["/// b"]


def test_nothing_is_reported_as_missing_after_a_fault_of_the_lexer() -> None:
    for text, fault in {
        '"a ]': 'the text is not closed: " is missing on this line',
        "a ?": "`?` has no meaning here",
    }.items():
        walk, problems = cursor(text)
        walk.take()
        with pytest.raises(GivenUpError):
            walk.expect("]", "after it")
        assert [p.message for p in problems.errors] == [fault]


def test_a_fault_of_the_lexer_belongs_to_its_item() -> None:
    problems = ProblemList().of("a.dots")
    tokens = scan("a @ b c", problems)
    cursor = Cursor(tokens, problems)
    first = cursor.take()
    assert not cursor.has_scan_fault(first)
    second = cursor.take()
    assert cursor.has_scan_fault(first)
    cursor.take()
    assert not cursor.has_scan_fault(second)
