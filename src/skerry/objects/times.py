"""Times in objects are seconds as on the wire; these turn them into what people use, and back."""

from __future__ import annotations

import datetime as dt

__all__ = ["to_datetime", "to_timepoint"]

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
