"""Instants as people write them."""

from __future__ import annotations

import datetime as dt

import pytest

from skerry.errors import PipelineError
from skerry.spark.instants import Instant, instant_ns

NOON_NS = 1_794_744_000_000_000_000


@pytest.mark.parametrize(
    ("instant", "ns"),
    [
        ("2026-11-15T12:00:00Z", NOON_NS),
        ("2026-11-15T13:00:00+01:00", NOON_NS),
        ("2026-11-15T12:00:00.5Z", NOON_NS + 500_000_000),
        ("2026-11-15T12:00:00.123456789Z", NOON_NS + 123_456_789),
        ("2026-11-15T12:00:00.1234567899Z", NOON_NS + 123_456_789),
        ("2026-11-15T12:00:00,25+00:00", NOON_NS + 250_000_000),
        (str(NOON_NS), NOON_NS),
        ("-10000", -10000),
        (NOON_NS, NOON_NS),
        (dt.datetime(2026, 11, 15, 12, 0, 0, 7, dt.UTC), NOON_NS + 7000),
        ("1969-12-31T23:59:59.9Z", -100_000_000),
    ],
)
def test_an_instant_is_nanoseconds_since_the_epoch(instant: Instant, ns: int) -> None:
    assert instant_ns(instant) == ns


@pytest.mark.parametrize("text", ["yesterday", "", "2026", "2026-13-01T00:00:00Z", "12:00Z"])
def test_an_invalid_instant_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(PipelineError, match=r"not an instant|zone") as caught:
        instant_ns(text)
    assert "2026-11-15T14:03:07Z" in (caught.value.hint or "")


@pytest.mark.parametrize("instant", ["2026-11-15T12:00:00", dt.datetime(2026, 11, 15)])  # noqa: DTZ001
def test_an_instant_without_a_time_zone_is_rejected(instant: Instant) -> None:
    with pytest.raises(PipelineError, match="has no time zone"):
        instant_ns(instant)


@pytest.mark.parametrize("instant", [1 << 63, -(1 << 63) - 1, str(1 << 63), "2300-01-01T00:00:00Z"])
def test_an_instant_out_of_range_is_rejected(instant: Instant) -> None:
    with pytest.raises(PipelineError, match="outside of the years 1678 to 2261"):
        instant_ns(instant)
