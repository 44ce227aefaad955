"""Tokens of a `where`: their kinds, their positions, and errors."""

from __future__ import annotations

import pytest

from skerry.errors import FilterError
from skerry.limits import EXCERPT_CHAR_COUNT_MAX
from skerry.protocol.access.where.lexer import WHERE_CHAR_COUNT_MAX, WhereToken, fault, scan


def kinds(source: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in scan(source)]


def test_words_numbers_texts_and_marks_are_distinguished() -> None:
    assert kinds("""lat >= -1.5e3 and name = 'it''s'""") == [
        ("word", "lat"),
        ("mark", ">="),
        ("number", "-1.5e3"),
        ("word", "and"),
        ("word", "name"),
        ("mark", "="),
        ("text", "'it''s'"),
        ("end", ""),
    ]


@pytest.mark.parametrize("mark", ["=", "==", "!=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "."])
def test_every_mark_is_one_token(mark: str) -> None:
    assert kinds(f"a{mark}b") == [("word", "a"), ("mark", mark), ("word", "b"), ("end", "")]


@pytest.mark.parametrize("number", ["0", "7.", ".5", "+3", "-3", "1e9", "1.5E-7", "00012"])
def test_numbers_have_one_sign_a_point_and_an_exponent(number: str) -> None:
    assert kinds(f"a>{number}")[2] == ("number", number)


def test_quotes_inside_a_text_are_written_twice() -> None:
    single, double = (scan(text)[0] for text in ("'it''s \"'", '"a""b\'"'))
    assert single.content == "it's \""
    assert double.content == "a\"b'"


def test_keywords_are_the_same_in_any_case_but_texts_are_not_keywords() -> None:
    assert [token.word for token in scan("AND 'AND' 5")] == ["and", "", "", ""]


@pytest.mark.parametrize(
    ("source", "column", "message", "hint"),
    [
        ("name = 'x", 8, "the text is not closed: ' is missing", "twice"),
        ("lat > 5km", 7, "`5km` is not a number", "quotes"),
        ("lat > 1.2.3", 7, "`1.2.3` is not a number", "quotes"),
        ("lat - 5 > 3", 5, "arithmetic is not supported", None),
        ("a && b", 3, "`&&` has no meaning here", "`and`"),
        ("a || b", 3, "`||` has no meaning here", "`or`"),
        ("!a", 1, "`!` has no meaning here", "`not`"),
        ("a = \x00", 5, "U+0000 has no meaning here", "quotes"),
    ],
)
def test_the_error_about_a_token_has_its_position(
    source: str, column: int, message: str, hint: str | None
) -> None:
    with pytest.raises(FilterError) as caught:
        scan(source)
    problem = caught.value.problems[0]
    assert (problem.file, problem.line, problem.column) == ("where", 1, column)
    assert message in problem.message
    assert problem.hint is hint if hint is None else hint in str(problem.hint)


def test_an_unclosed_text_with_many_doubled_quotes_is_found_at_once() -> None:
    # Without possessive repetition this would be tried in every way there is.
    with pytest.raises(FilterError, match="not closed"):
        scan("'" + "''" * 50_000)


def test_a_text_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = "a" * WHERE_CHAR_COUNT_MAX
    assert len(scan(longest)[0].text) == WHERE_CHAR_COUNT_MAX
    with pytest.raises(FilterError, match=f"the limit is {WHERE_CHAR_COUNT_MAX}"):
        scan(longest + "a")


def test_a_fault_names_line_and_column_and_shows_a_piece_of_bounded_length() -> None:
    token = WhereToken("word", "x" * 1000, 7)
    problem = fault("lat >\n\n" + token.text, token, "no", "try").problems[0]
    assert (problem.line, problem.column) == (3, 1)
    assert problem.text == "x" * EXCERPT_CHAR_COUNT_MAX
    assert problem.hint == "try"
    assert token.shown == f"`{'x' * 60}...`"
    assert WhereToken("end", "", 0).shown == "the end"
