"""The time partitions of tables: hours, days and buckets, all in UTC.

A partition is named by its first instant, so that names sort by time. The columns are computed
with integers and do not depend on the time zone of the session.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column


MINUTE_NS: Final = 60_000_000_000
HOUR_NS: Final = 60 * MINUTE_NS
DAY_NS: Final = 24 * HOUR_NS
_EPOCH: Final = dt.date(1970, 1, 1)


def floor_column(ns: Column, length_ns: int) -> Column:
    """The last multiple of a length that is not after `ns`, also before 1970.

    An instant before the first multiple that a bigint can hold is rounded up to that multiple.
    """
    from pyspark.sql import functions as F  # noqa: N812

    instant = _reachable(ns, length_ns)
    return instant - F.pmod(instant, F.lit(length_ns))


def day_column(ns: Column) -> Column:
    """The day of an instant: `2026-11-15`."""
    from pyspark.sql import functions as F  # noqa: N812

    days = _whole(floor_column(ns, DAY_NS), DAY_NS).cast("int")
    # Neither a date nor its text depends on a time zone.
    return F.date_from_unix_date(days).cast("string")


def hour_column(ns: Column) -> Column:
    """The hour of an instant: `2026-11-15T14`."""
    from pyspark.sql import functions as F  # noqa: N812

    hour = _whole(F.pmod(_reachable(ns, DAY_NS), F.lit(DAY_NS)), HOUR_NS).cast("string")
    return F.concat(day_column(ns), F.lit("T"), F.lpad(hour, 2, "0"))


def bucket_start_ns(ns: int, length_ns: int) -> int:
    """The first instant of the bucket of an instant."""
    return ns - ns % length_ns


def bucket_text(ns: int, length_ns: int = MINUTE_NS) -> str:
    """The name of the bucket of an instant by its start: `2026-11-15T1400`."""
    start_ns = bucket_start_ns(ns, length_ns)
    return f"{hour_text(start_ns)}{start_ns // MINUTE_NS % 60:02}"


def hour_text(ns: int) -> str:
    """The name of the hour of an instant, as in `hour_column`."""
    return f"{day_text(ns)}T{ns // HOUR_NS % 24:02}"


def day_text(ns: int) -> str:
    """The name of the day of an instant, as in `day_column`."""
    return str(_EPOCH + dt.timedelta(days=ns // DAY_NS))


def timestamp_column(ns: Column) -> Column:
    """Nanoseconds since 1970 as a timestamp, rounded down to microseconds."""
    from pyspark.sql import functions as F  # noqa: N812

    # Integers throughout: a double cannot represent current times in nanoseconds.
    return F.timestamp_micros(_whole(floor_column(ns, 1000), 1000))


def _reachable(ns: Column, length_ns: int) -> Column:
    """`ns`, but not before the first multiple of a length that a bigint can hold."""
    from pyspark.sql import functions as F  # noqa: N812

    # Recorded times are untrusted, and an overflow would stop the pipeline for good.
    first = F.lit(-(2**63 // length_ns) * length_ns)
    return F.when(ns < first, first).otherwise(ns)


def _whole(number: Column, divisor: int) -> Column:
    """Integer division of a multiple of the divisor."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.call_function("div", number, F.lit(divisor))
