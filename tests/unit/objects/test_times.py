"""Times: seconds as they travel, and datetimes."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skerry.objects.times import ns_of_seconds, seconds_of_ns, to_datetime, to_timepoint

MOMENT = datetime.datetime(2026, 11, 15, 14, 3, 7, 500000, tzinfo=datetime.UTC)


def test_datetime_round_trips() -> None:
    seconds = to_timepoint(MOMENT)
    assert seconds == 1794751387.5
    assert to_datetime(seconds) == MOMENT
    assert to_datetime(0.0).isoformat() == "1970-01-01T00:00:00+00:00"
    assert to_datetime(-0.5).year == 1969


@pytest.mark.parametrize(
    "text",
    ["2026-11-15T14:03:07.5Z", "2026-11-15T15:03:07.500+01:00", "2026-11-15 14:03:07.5+00:00"],
)
def test_text_with_a_zone_is_a_time(text: str) -> None:
    assert to_timepoint(text) == to_timepoint(MOMENT)


def test_a_zone_other_than_utc_makes_no_difference() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    assert to_timepoint(MOMENT.astimezone(zone)) == to_timepoint(MOMENT)


@pytest.mark.parametrize("when", ["2026-11-15T14:03:07", MOMENT.replace(tzinfo=None)])
def test_time_without_a_zone_is_rejected(when: str | datetime.datetime) -> None:
    with pytest.raises(ValueError, match=r"has no time zone; add one.*2026-11-15T14:03:07.*Z"):
        to_timepoint(when)


def test_invalid_time_is_rejected() -> None:
    with pytest.raises(ValueError, match="soon"):
        to_timepoint("soon")


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e18])
def test_seconds_out_of_the_calendar_are_rejected(seconds: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        to_datetime(seconds)


YEAR_2100 = 4102444800.0


@given(st.floats(min_value=1.0, max_value=YEAR_2100))
@example(1794751387.123456)
@example(math.nextafter(YEAR_2100, 0))
def test_seconds_round_trip_by_nanoseconds(seconds: float) -> None:
    assert seconds_of_ns(ns_of_seconds(seconds)) == pytest.approx(seconds, rel=0, abs=5e-10)
    if seconds >= 2**23:
        # From here on, neighbours are further apart than a nanosecond.
        assert seconds_of_ns(ns_of_seconds(seconds)) == seconds
        assert seconds_of_ns(ns_of_seconds(-seconds)) == -seconds


@given(st.integers(min_value=-(10**9), max_value=4102444800 * 10**9))
def test_seconds_of_nanoseconds_are_rounded_to_the_nearest(ns: int) -> None:
    exact = Fraction(ns, 10**9)
    seconds = seconds_of_ns(ns)
    error = abs(Fraction(seconds) - exact)
    assert error <= abs(Fraction(math.nextafter(seconds, math.inf)) - exact)
    assert error <= abs(Fraction(math.nextafter(seconds, -math.inf)) - exact)


@given(st.floats(min_value=-YEAR_2100, max_value=YEAR_2100))
@example(-0.5)
@example(-1e-10)
@example(0.9999999999)
def test_nanoseconds_of_seconds_are_rounded_to_the_nearest(seconds: float) -> None:
    assert abs(ns_of_seconds(seconds) - Fraction(seconds) * 10**9) <= Fraction(1, 2) + Fraction(
        1, 10**6
    )


@pytest.mark.parametrize(
    ("seconds", "ns"),
    [(0.0, 0), (1.5, 1_500_000_000), (-0.25, -250_000_000), (1e9 + 0.5, 10**18 + 500_000_000)],
)
def test_seconds_and_nanoseconds_are_the_same_moment(seconds: float, ns: int) -> None:
    assert ns_of_seconds(seconds) == ns
    assert seconds_of_ns(ns) == seconds


@pytest.mark.parametrize(("seconds", "ns"), [(2.5e-9, 3), (3.5e-9, 4), (-2.5e-9, -2)])
def test_half_a_nanosecond_is_rounded_up(seconds: float, ns: int) -> None:
    assert ns_of_seconds(seconds) == ns
