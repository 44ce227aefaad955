"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from skerry.formatting import (
    amount,
    bytes_text,
    count,
    counted,
    gaps_text,
    moment,
    span,
    span_text,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1234567, "1\u202f234\u202f567"), (-1000, "-1\u202f000")],
)
def test_whole_numbers_are_grouped(number: int, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0.0, "0"), (0.4234, "0.423"), (41.26, "41.3"), (36000.4, "36\u202f000")]
)
def test_three_digits_matter(number: float, text: str) -> None:
    assert amount(number) == text


@pytest.mark.parametrize(
    ("byte_count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (2_345_678, "2.35 MB"),
        (123_456_789, "123 MB"),
        (5 * 10**18, "5\u202f000 PB"),
    ],
)
def test_bytes_have_units(byte_count: int, text: str) -> None:
    assert bytes_text(byte_count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "0.25 s"),
        (59, "59 s"),
        (60, "1 min"),
        (95, "1 min 35 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert span(timedelta(seconds=seconds)) == text


def test_times_are_those_of_greenwich() -> None:
    berlin = timezone(timedelta(hours=1))
    assert moment(datetime(2026, 11, 15, 15, 3, 7, tzinfo=berlin)) == "2026-11-15 14:03:07"


def test_the_day_of_a_range_is_written_once() -> None:
    first = datetime(2026, 11, 15, 14, tzinfo=UTC)
    assert span_text(first, first) == "2026-11-15 14:00:00"
    assert span_text(first, first + timedelta(hours=1)) == "2026-11-15 14:00:00 to 15:00:00"
    later = first + timedelta(days=1)
    assert span_text(first, later) == "2026-11-15 14:00:00 to 2026-11-16 14:00:00"


def test_words_are_singular_for_one() -> None:
    assert counted(1, "pair") == "1 pair"
    assert counted(0, "pair") == "0 pairs"
    assert counted(2, "entry", "entries") == "2 entries"


def test_one_gap_is_singular() -> None:
    assert (gaps_text(1), gaps_text(2000)) == ("1 gap", "2\u202f000 gaps")
