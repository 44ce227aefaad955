"""Numbers and times as text for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_THIN_SPACE: Final = "\u202f"


def count(number: int) -> str:
    """An integer in groups of three digits."""
    return f"{number:,}".replace(",", _THIN_SPACE)


def amount(number: float) -> str:
    """A number with three significant digits."""
    if abs(number) >= 100:
        return count(round(number))
    return f"{number:.3g}"


def bytes_text(byte_count: int) -> str:
    """A size with its unit: 1.5 MB."""
    assert byte_count >= 0
    power = min((len(str(byte_count)) - 1) // 3, len(_UNITS) - 1)
    size, unit = byte_count / 1000**power, _UNITS[power]
    return f"{count(round(size)) if unit == 'B' or size >= 100 else f'{size:.3g}'} {unit}"


def moment(when: datetime) -> str:
    """A time in UTC: 2026-11-15 14:03:07."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def span(time: timedelta) -> str:
    """A duration: 3 d 4 h, 5 min 7 s, 2.5 s."""
    seconds = time.total_seconds()
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, smaller, small_unit in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    raise AssertionError("a minute is at least a minute")


def span_text(since: datetime, until: datetime) -> str:
    """A range of time; the day is written once if both ends have it."""
    first, last = moment(since), moment(until)
    if first == last:
        return first
    return f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def gaps_text(number: int) -> str:
    return counted(number, "gap")


def counted(number: int, what: str, plural: str = "") -> str:
    """A number of things: 1 file, 2 files. `plural` is for words that do not end in s."""
    return f"1 {what}" if number == 1 else f"{count(number)} {plural or what + 's'}"
