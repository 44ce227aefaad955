"""Times in objects are seconds as on the wire; these turn them into what people use, and back."""

from __future__ import annotations

import datetime as dt
import math

__all__ = ["ns_of_seconds", "seconds_of_ns", "to_datetime", "to_timepoint"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def to_timepoint(when: dt.datetime | str) -> float:
    """Seconds since the epoch of an aware datetime or of ISO 8601 text with a zone."""
    moment = dt.datetime.fromisoformat(when) if isinstance(when, str) else when
    if moment.tzinfo is None:
        raise ValueError(f"{when} has no time zone; say which, for example {moment.isoformat()}Z")
    return (moment - _EPOCH).total_seconds()


def to_datetime(seconds: float) -> dt.datetime:
    """The datetime in UTC of a timepoint, rounded to microseconds."""
    return _EPOCH + dt.timedelta(seconds=seconds)


def ns_of_seconds(seconds: float) -> int:
    """Nanoseconds of a time in seconds, as exact as the seconds are."""
    whole = math.floor(seconds)
    # Taken apart, since the product of the whole would have steps of 256 ns today.
    return whole * 1_000_000_000 + round((seconds - whole) * 1e9)


def seconds_of_ns(ns: int) -> float:
    """Seconds of a time in nanoseconds, the nearest there are.

    Gives back what `ns_of_seconds` was given, if that was no finer than nanoseconds: any moment
    since the spring of 1970.
    """
    # Division of whole numbers rounds once.
    return ns / 1_000_000_000
