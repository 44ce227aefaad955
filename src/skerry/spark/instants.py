"""Parses instants to nanoseconds since 1970."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final, TypeAlias

from skerry.errors import PipelineError

Instant: TypeAlias = str | int | dt.datetime
"""ISO 8601 text with a time zone, nanoseconds since 1970, or an aware datetime."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FRACTION: Final = re.compile(r"[.,](\d+)")
_NS: Final = re.compile(r"[+-]?\d+")


def instant_ns(instant: Instant) -> int:
    """Nanoseconds since 1970; PipelineError if the text is not an instant."""
    ns = _ns(instant)
    if not -(1 << 63) <= ns < 1 << 63:
        raise _fault(str(instant), "is outside of the years 1678 to 2261 that recordings support")
    return ns


def _ns(instant: Instant) -> int:
    if isinstance(instant, int):
        return instant
    if isinstance(instant, dt.datetime):
        return _datetime_ns(instant)
    text = instant.strip()
    # Four digits are a year, which is not an instant.
    if _NS.fullmatch(text) and len(text) > 4:
        return int(text)
    fraction = _FRACTION.search(text)
    # Python parses six digits of a second; a recording has nine.
    digits = "" if fraction is None else fraction[1][:9].ljust(9, "0")
    whole = text if fraction is None else text.replace(fraction[0], "", 1)
    try:
        moment = dt.datetime.fromisoformat(whole)
    except ValueError:
        raise _fault(text, "is not an instant") from None
    return _datetime_ns(moment, text) + int(digits or 0)


def _datetime_ns(moment: dt.datetime, text: str = "") -> int:
    if moment.tzinfo is None:
        raise _fault(text or moment.isoformat(), "has no time zone")
    # Integers throughout: a float would have a resolution of a quarter of a microsecond.
    return (moment - _EPOCH) // dt.timedelta(microseconds=1) * 1000


def _fault(text: str, detail: str) -> PipelineError:
    error = PipelineError(f"{text!r} {detail}")
    error.hint = "write it as 2026-11-15T14:03:07Z, or as nanoseconds since 1970"
    return error
