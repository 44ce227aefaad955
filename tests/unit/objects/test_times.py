"""Times: seconds as they travel, and datetimes."""

from __future__ import annotations

import datetime
import math

import pytest

from skerry.objects.times import to_datetime, to_timepoint

MOMENT = datetime.datetime(2026, 11, 15, 14, 3, 7, 500000, tzinfo=datetime.UTC)


def test_there_and_back() -> None:
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
def test_a_time_without_a_zone_is_refused(when: str | datetime.datetime) -> None:
    with pytest.raises(ValueError, match=r"has no time zone; say which.*2026-11-15T14:03:07.*Z"):
        to_timepoint(when)


def test_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="soon"):
        to_timepoint("soon")


@pytest.mark.parametrize("seconds", [math.nan, math.inf, 1e18])
def test_seconds_that_no_calendar_has_are_refused(seconds: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        to_datetime(seconds)
