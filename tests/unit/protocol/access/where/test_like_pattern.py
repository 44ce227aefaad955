"""Patterns of `like`: any run, one character, plain characters, and bounded work."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import FilterError
from skerry.protocol.access.where import like_pattern
from skerry.protocol.access.where.like_pattern import (
    LIKE_FIND_PART_COUNT,
    LIKE_SEARCH_PART_COUNT,
    LIKE_TEXT_BYTES_MAX,
    LIKE_WORK_MAX,
    LikePattern,
)


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("", [""], ["a"]),
        ("%", ["", "a", "a\nb"], []),
        ("%%", ["", "a"], []),
        ("Maria", ["Maria"], ["maria", "Maria ", "Mari", ""]),
        ("M%", ["M", "Maria"], ["", "aM"]),
        ("%a", ["a", "Maria"], ["", "ab"]),
        ("%ri%", ["ri", "Maria"], ["ir"]),
        ("M%a", ["Ma", "Maria"], ["M", "a", "aM", "Mar"]),
        ("a%a", ["aa", "aba"], ["a"]),
        ("%a%b%c%", ["abc", "xaxbxcx", "cabc"], ["acb", "ab"]),
        ("ab%ba", ["abba"], ["aba"]),
        ("%ab%b%", ["abb", "xabxb"], ["ab", "xabx"]),
        ("%_a%a%", ["xaa", "abaa"], ["xa", "xax"]),
        ("a%_%a", ["aba", "aaa"], ["aa", "a"]),
        ("_", ["a", "ä", "\n", "😀"], ["", "ab"]),
        ("__", ["ab"], ["a", "abc"]),
        ("M_ria", ["Maria", "Märia"], ["Mria", "Maaria"]),
        ("_%", ["a", "ab"], [""]),
        ("%_", ["a", "ab"], [""]),
        ("%_a%b_", ["xabx", "aaabb", "éaé b!"], ["abx", "xab"]),
        (r"100\%", ["100%"], ["100", "1000"]),
        (r"a\_b", ["a_b"], ["axb"]),
        (r"a\\%", ["a\\", "a\\b"], ["a", "ab"]),
        (r"\M%", ["Maria"], ["\\Maria"]),
        ("a.*", ["a.*"], ["abc"]),
        ("a.%_", ["a.b"], ["abb"]),
    ],
)
def test_patterns_fit_whole_texts(pattern: str, fitting: list[str], others: list[str]) -> None:
    compiled = LikePattern(pattern)
    assert [text for text in fitting if not compiled.matches(text.encode())] == []
    assert [text for text in others if compiled.matches(text.encode())] == []


def test_text_that_is_not_utf8_counts_a_character_for_each_wrong_byte() -> None:
    assert LikePattern("a__").matches(b"a\xff\xfe")
    assert LikePattern("a%").matches(b"a\xff\xfe")
    assert not LikePattern("%ÿ%").matches(b"a\xff\xfe")


def test_a_pattern_must_not_end_in_a_backslash_nor_be_half_a_character() -> None:
    with pytest.raises(FilterError, match="ends with"):
        LikePattern("a\\")
    with pytest.raises(FilterError, match="not UTF-8"):
        LikePattern("%\udcff%")


def test_text_fits_up_to_a_length_and_never_past_it() -> None:
    for pattern in ("%", "_%"):
        assert LikePattern(pattern).matches(b"a" * LIKE_TEXT_BYTES_MAX)
        assert not LikePattern(pattern).matches(b"a" * (LIKE_TEXT_BYTES_MAX + 1))


@pytest.mark.parametrize("pattern", ["%a" * 200 + "%b", "%_a" * 200 + "%b", "%a" * 200 + "_%b%"])
def test_many_runs_are_found_in_one_pass(pattern: str) -> None:
    # As one regular expression this would take longer than anyone waits.
    assert not LikePattern(pattern).matches(b"a" * 10_000)


def test_a_text_is_decoded_once_for_all_patterns() -> None:
    patterns = [LikePattern(f"_{letter}%") for letter in "abc"]
    data = b"xb"
    for _ in range(2):
        assert [pattern.matches(data) for pattern in patterns] == [False, True, False]
    text = like_pattern._last_text.decode(data)
    assert like_pattern._last_text.decode(data) is text
    assert LikePattern("_a%").matches(b"xa")
    assert [pattern.matches(data) for pattern in patterns] == [False, True, False]


@given(st.text("ab%_", max_size=8), st.text("ab", max_size=10))
def test_it_gives_the_answer_of_a_regular_expression(pattern: str, text: str) -> None:
    parts = {"%": ".*", "_": "."}
    expected = re.fullmatch("".join(parts.get(c, c) for c in pattern), text) is not None
    assert LikePattern(pattern).matches(text.encode()) is expected


def test_characters_around_a_run_that_may_be_any_are_not_searched_for() -> None:
    pattern = LikePattern("%" + "_" * 1000 + "b" + "_" * 5 + "%")
    assert pattern.part_count == LIKE_FIND_PART_COUNT
    text = b"a" * (LIKE_TEXT_BYTES_MAX - 6)
    assert pattern.matches(text + b"baaaaa")
    assert not pattern.matches(text + b"baaaa")
    assert not pattern.matches(b"a" * 999 + b"baaaaa")


def test_a_text_that_would_take_too_many_comparisons_never_fits() -> None:
    pattern = LikePattern("%a" + "_" * 62 + "b%")
    assert pattern.part_count == LIKE_SEARCH_PART_COUNT
    longest = LIKE_WORK_MAX // 64
    assert pattern.matches(b"a" * (longest - 1) + b"b")
    assert not pattern.matches(b"a" * longest + b"b")


@pytest.mark.parametrize("pattern", ["Maria", "M%", "%a", "M_ria", "M_%", "M%a"])
def test_a_pattern_that_is_compared_at_one_place_counts_as_one_comparison(pattern: str) -> None:
    assert LikePattern(pattern).part_count == 1
