"""The type language: models, their text, its layout, and garbage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import Problem, SchemaCheckError, SchemaSyntaxError
from skerry.schema.check import check, define
from skerry.schema.evolve import compare, compare_all
from skerry.schema.formatter import format_text
from skerry.schema.language.lexer import decode, scan, unquote
from skerry.schema.language.parser import parse
from skerry.schema.language.problems import ProblemList, render
from skerry.schema.model import NamedType, dependencies
from skerry.schema.writer import quote, write_type, write_types
from tests.strategies import type_sets

pytestmark = pytest.mark.slow

PIECES = [
    *("struct", "enum", "import", "package", "vector", "instance_ref", "uint32", "Vessel", "id"),
    *("{", "}", "[", "]", "<", ">", ":", ";", ",", "=", ".", "-", "1", "2", "99999999999999999999"),
    *('"site"', "'", '"', "\\", "//", "///", "//<", "/*", "*/", "\n", "\r\n", "\t", " ", "key"),
    *("\ufeff", "\x00", "ä", "\u2028", "\ud800", "true", "default", "removed"),
]
"""What garbage is made of that looks like the language."""

COMMENTS = ["// note", "/// text", "//< text", "/* note */", "/* two\n   lines */", "////", "///"]


def problems_of(text: str) -> tuple[Problem, ...]:
    """The errors of a text: none when it is in order."""
    try:
        define(text)
    except (SchemaSyntaxError, SchemaCheckError) as error:
        return error.problems or (Problem(message="an error without problems", line=-1),)
    return ()


def comment_texts(text: str) -> list[str]:
    """What the comments of a text say, whatever their marks; in no order."""
    tokens = scan(text, ProblemList())
    said = [comment.text for token in tokens for comment in token.comments]
    return sorted("".join(one.strip("/*<").split()) for one in said)


@given(type_sets())
def test_text_of_types_parses_back_to_equal_types(types: tuple[NamedType, ...]) -> None:
    text = write_types(types)
    assert define(text).types == types
    assert format_text(text) == text, "written text has the layout of the formatter"
    assert compare_all(types, define(text).types) == ()


@given(type_sets())
def test_text_of_one_type_brings_all_it_is_made_of(types: tuple[NamedType, ...]) -> None:
    last = types[-1]
    assert define(write_types([last])).types == (*dependencies(last), last)


@given(type_sets(count_max=2), st.data())
def test_formatting_keeps_types_and_comments_and_is_stable(
    types: tuple[NamedType, ...], data: st.DataObject
) -> None:
    text = sprinkle(write_types(types), data)
    formatted = format_text(text)
    assert format_text(formatted) == formatted
    assert define(formatted).types == define(text).types
    assert comment_texts(formatted) == comment_texts(text)


def sprinkle(text: str, data: st.DataObject) -> str:
    """The text with comments, line ends and blanks set between its tokens."""
    problems = ProblemList()
    pieces: list[str] = []
    for token in scan(text, problems):
        pieces += [f"{comment.text}\n" for comment in token.comments]
        for _ in range(data.draw(st.sampled_from([0, 0, 0, 1, 2]))):
            comment = data.draw(st.sampled_from(COMMENTS))
            end = "\n" if comment.startswith("//") else ""
            pieces.append(f"{comment}{end}")
        pieces.append(data.draw(st.sampled_from([" ", "\n", "\n\n", "\t", "\r\n"])))
        pieces.append(token.text)
    assert not problems.errors
    return "".join(pieces)


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=60))
def test_garbage_is_refused_with_places_inside_the_text_and_nothing_else(text: str) -> None:
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for problem in problems_of(text):
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        assert render(problem, text).startswith("<text>:")


@given(type_sets(count_max=2), st.data())
def test_text_with_a_piece_missing_is_read_or_refused(
    types: tuple[NamedType, ...], data: st.DataObject
) -> None:
    text = write_types(types)
    first = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(first, len(text)))
    rest = text[:first] + text[stop:]
    assert all(1 <= problem.line <= rest.count("\n") + 1 for problem in problems_of(rest))


@given(st.binary(max_size=40))
def test_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        assert decode(data).encode() == data
    except SchemaSyntaxError as error:
        problem = error.problems[0]
        assert (problem.line, problem.column) >= (1, 1)


@given(st.text(st.characters(codec="utf-8")))
def test_quoted_text_unquotes_to_itself(text: str) -> None:
    quoted = quote(text)
    assert "\n" not in quoted
    assert unquote(quoted) == text


@settings(max_examples=50)
@given(type_sets(count_max=3), type_sets(count_max=3))
def test_types_that_differ_show_a_change(
    old: tuple[NamedType, ...], new: tuple[NamedType, ...]
) -> None:
    is_equal = {type_.name: type_ for type_ in old} == {type_.name: type_ for type_ in new}
    assert (compare_all(old, new) == ()) == is_equal
    assert (compare(old[-1], new[-1]) == ()) == (old[-1] == new[-1])


@given(type_sets(count_max=3))
def test_files_may_come_in_any_order(types: tuple[NamedType, ...]) -> None:
    files = [parse(write_type(type_), f"{index}.dots") for index, type_ in enumerate(types)]
    assert check(files[::-1]).types == types[::-1]
