"""Conversions of times, which are seconds in objects and on the wire. This module is compiled."""

from __future__ import annotations

import datetime as dt
from operator import truediv
from typing import Final

from mypy_extensions import i64

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NATIVE_S_MAX: Final = 9_000_000_000.0
"""The nanoseconds of times up to this one fit into 64 bits."""


def to_timepoint(when: dt.datetime | str) -> float:
    """Seconds since the epoch of a datetime or ISO 8601 text, both with a time zone."""
    moment = dt.datetime.fromisoformat(when) if isinstance(when, str) else when
    if moment.tzinfo is None:
        raise ValueError(f"{when} has no time zone; add one, for example {moment.isoformat()}Z")
    return (moment - _EPOCH).total_seconds()


def to_datetime(seconds: float) -> dt.datetime:
    """The datetime in UTC of seconds since the epoch, rounded to microseconds."""
    return _EPOCH + dt.timedelta(seconds=seconds)


def ns_of_seconds(seconds: float) -> i64:
    """Nanoseconds of a time in seconds, rounded to the nearest; halves are rounded up."""
    if -_NATIVE_S_MAX <= seconds <= _NATIVE_S_MAX:
        # Compiled, this needs no Python integers.
        native: i64 = i64(seconds)
        if float(native) > seconds:
            native -= 1
        return native * 1_000_000_000 + i64((seconds - float(native)) * 1e9 + 0.5)
    whole = int(seconds)
    if whole > seconds:
        whole -= 1
    # Split, since the product of the whole time would have steps of 256 ns today.
    return whole * 1_000_000_000 + int((seconds - whole) * 1e9 + 0.5)


def seconds_of_ns(ns: int) -> float:
    """Seconds of a time in nanoseconds, rounded to the nearest.

    It is the inverse of `ns_of_seconds` for times after the spring of 1970, whose precision is not
    finer than nanoseconds.
    """
    # Python rounds a division of integers only once. Compiled code would convert both to float
    # first, which rounds twice; a call of `truediv` is not compiled.
    return float(truediv(ns, 1_000_000_000))
