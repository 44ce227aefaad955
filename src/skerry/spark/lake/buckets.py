"""The parts that tables are divided into: hours, days and buckets of time, all in UTC.

A part is named by the text of its first instant, so that names sort as their times do. The columns
are made of whole numbers, whatever time zone a session has.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = [
    "DAY_NS",
    "HOUR_NS",
    "MINUTE_NS",
    "bucket_column",
    "bucket_start_ns",
    "bucket_text",
    "day_column",
    "floor_column",
    "hour_column",
    "timestamp_column",
]

MINUTE_NS: Final = 60_000_000_000
HOUR_NS: Final = 60 * MINUTE_NS
DAY_NS: Final = 24 * HOUR_NS


def floor_column(ns: Column, length_ns: int) -> Column:
    """The last multiple of a length that is not after `ns`, also before 1970.

    An instant so early that there is none counts as the first one that has one.
    """
    from pyspark.sql import functions as F  # noqa: N812

    instant = _reachable(ns, length_ns)
    return instant - F.pmod(instant, F.lit(length_ns))


def day_column(ns: Column) -> Column:
    """The day of an instant: `2026-11-15`."""
    from pyspark.sql import functions as F  # noqa: N812

    days = _whole(floor_column(ns, DAY_NS), DAY_NS).cast("int")
    # A date has no zone, and its text neither.
    return F.date_from_unix_date(days).cast("string")


def hour_column(ns: Column) -> Column:
    """The hour of an instant: `2026-11-15T14`."""
    from pyspark.sql import functions as F  # noqa: N812

    hour = _whole(F.pmod(_reachable(ns, DAY_NS), F.lit(DAY_NS)), HOUR_NS).cast("string")
    return F.concat(day_column(ns), F.lit("T"), F.lpad(hour, 2, "0"))


def bucket_column(ns: Column, length_ns: int) -> Column:
    """The bucket of an instant by its start: `2026-11-15T1400`."""
    from pyspark.sql import functions as F  # noqa: N812

    start = floor_column(_reachable(ns, DAY_NS), length_ns)
    minute = _whole(F.pmod(start, F.lit(HOUR_NS)), MINUTE_NS).cast("string")
    return F.concat(hour_column(start), F.lpad(minute, 2, "0"))


def bucket_start_ns(ns: int, length_ns: int) -> int:
    """When the bucket of an instant begins."""
    return ns - ns % length_ns


def bucket_text(ns: int, length_ns: int) -> str:
    """The name of the bucket of an instant, as in `bucket_column`."""
    start = dt.datetime.fromtimestamp(bucket_start_ns(ns, length_ns) // 10**9, tz=dt.UTC)
    return start.strftime("%Y-%m-%dT%H%M")


def timestamp_column(ns: Column) -> Column:
    """Nanoseconds since 1970 as a timestamp, which has microseconds."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.timestamp_micros(_whole(floor_column(ns, 1000), 1000))


def _reachable(ns: Column, length_ns: int) -> Column:
    """Not before the first multiple of a length that a bigint can hold."""
    from pyspark.sql import functions as F  # noqa: N812

    # Rows come from strangers, and a number that does not fit would stop all tables for ever.
    first = F.lit(-(2**63 // length_ns) * length_ns)
    return F.when(ns < first, first).otherwise(ns)


def _whole(number: Column, divisor: int) -> Column:
    """A multiple of the divisor, divided without a float in between."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.call_function("div", number, F.lit(divisor))
