"""Tokens: positions, comments, texts, and invalid text."""

from __future__ import annotations

import pytest

from skerry import limits
from skerry.errors import SchemaSyntaxError
from skerry.schema.language.lexer import NUMBER_DIGITS_MAX, Token, decode, scan, unquote
from skerry.schema.language.problems import ProblemList

NUMBERS = "a number has only digits, and a name does not begin with one"


def tokens(text: str) -> list[Token]:
    problems = ProblemList().of("a.dots")
    found = scan(text, problems)
    assert not problems.errors
    return found


def faults(text: str) -> list[tuple[int, int, str]]:
    problems = ProblemList().of("a.dots")
    scan(text, problems)
    return [(p.line, p.column, p.message) for p in problems.errors]


def test_tokens_have_their_kinds_and_positions() -> None:
    found = tokens('1: [a="b"]\n\tVessel v;')
    assert [(t.kind, t.text, t.line, t.column) for t in found] == [
        ("number", "1", 1, 1),
        ("mark", ":", 1, 2),
        ("mark", "[", 1, 4),
        ("name", "a", 1, 5),
        ("mark", "=", 1, 6),
        ("string", '"b"', 1, 7),
        ("mark", "]", 1, 10),
        ("name", "Vessel", 2, 2),
        ("name", "v", 2, 9),
        ("mark", ";", 2, 10),
        ("end", "", 2, 11),
    ]
    assert [t.text for t in found if t.is_first] == ["1", "Vessel", ""]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_counts_one_line(end: str) -> None:
    found = tokens(end.join(["a", "", "b"]))
    assert [(t.line, t.column, t.blank_before) for t in found[:2]] == [(1, 1, False), (3, 1, True)]


def test_columns_count_characters_without_the_byte_order_mark() -> None:
    assert tokens('\ufeffa "äöü" b')[2].column == 9


def test_comments_are_attached_to_the_next_token() -> None:
    first, second, end = tokens("// one\n\n/// two\na /* three\n four */ b // five")
    assert [c.text for c in first.comments] == ["// one", "/// two"]
    assert [c.blank_before for c in first.comments] == [False, True]
    assert [(c.text, c.line, c.last_line) for c in second.comments] == [
        ("/* three\n four */", 4, 5)
    ]
    assert (second.line, second.column) == (5, 10)
    assert [c.text for c in end.comments] == ["// five"]


def test_comment_marks_inside_texts_are_text() -> None:
    assert [t.text for t in tokens("\"//\" '/*'")][:2] == ['"//"', "'/*'"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a @@ b", (1, 3, "`@@` has no meaning here")),
        ("a / b", (1, 3, "`/` has no meaning here")),
        ("a \x07", (1, 3, "U+0007 has no meaning here")),
        ("a \ud800", (1, 3, "U+D800 has no meaning here")),
        ("// \udc00", (1, 1, "half of a surrogate pair is not a character")),
        ("\n 'ab", (2, 2, "the text is not closed: ' is missing on this line")),
        ("a\n/* b\nc", (2, 1, "the comment is not closed: `*/` is missing")),
        ("٣", (1, 1, "`٣` has no meaning here")),
        ("12ab", (1, 1, f"`12ab` is not a number: {NUMBERS}")),
    ],
)
def test_invalid_text_is_a_problem(text: str, fault: tuple[int, int, str]) -> None:
    assert faults(text) == [fault]


def test_the_length_of_numbers_is_limited() -> None:
    count = NUMBER_DIGITS_MAX
    assert faults("9" * count) == []
    assert faults("9" * (count + 1)) == [(1, 1, "a number of 21 digits is too long")]


def test_the_size_of_a_file_is_limited() -> None:
    assert faults(" " * limits.SOURCE_BYTES_MAX) == []
    size = limits.SOURCE_BYTES_MAX + 1
    assert faults(" " * size) == [
        (1, 1, f"the text has {size} bytes, the limit is {limits.SOURCE_BYTES_MAX}")
    ]


def test_a_scan_ends_at_the_limit_of_problems() -> None:
    problems = ProblemList().of("a.dots")
    found = scan("@ " * 1000, problems)
    assert len(problems.errors) == limits.PROBLEM_COUNT_MAX
    assert found[-1].kind == "end"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('""', ""),
        ("'a\"b'", 'a"b'),
        ("'it\\'s'", "it's"),
        ('"a\\"b\\\\c\\n\\u00e4"', 'a"b\\c\nä'),
        ('"\\ud83d\\ude00"', "😀"),
        ('"tab\there"', "tab\there"),
    ],
)
def test_texts_are_unquoted(raw: str, text: str) -> None:
    assert unquote(raw) == text


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('"a\\xb"', r"`\\x` is not an escape"),
        ('"\\u12"', r"`\\u` is not an escape"),
        ('"\\udc00"', "half of a surrogate pair"),
        ('"\udc00"', "half of a surrogate pair"),
    ],
)
def test_invalid_texts_are_rejected(raw: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        unquote(raw)


def test_bytes_that_are_not_utf_8_are_rejected_with_their_position() -> None:
    assert decode("ä".encode()) == "ä"
    with pytest.raises(SchemaSyntaxError) as caught:
        decode(b"\xef\xbb\xbfa\r\nb\xc3\xa4\xff", "a.dots")
    problem = caught.value.problems[0]
    assert (problem.file, problem.line, problem.column, problem.text) == ("a.dots", 2, 3, "ff")
    assert problem.hint == "save the file as UTF-8"
