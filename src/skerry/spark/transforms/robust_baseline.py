"""What is usual, and how far something is from it, by measures that a few odd minutes do not move.

The usual value is the median, and the usual distance from it the median of the distances (MAD).
A storm of one minute in ten changes neither, where it would draw a mean and a deviation along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["with_usual"]

_NORMAL: Final = 0.6745
"""MAD of a normal distribution in standard deviations: scores read like those one is used to."""
_SHARE_MIN: Final = 0.05
"""A perfectly steady series has no distances at all; below a twentieth nothing is odd."""


def with_usual(frame: DataFrame, value: Column, *, by: Sequence[str], unit: float) -> DataFrame:
    """Adds `value`, `usual` (median of its group), `count` (rows that have one), and `score`.

    The score counts robust standard deviations above the usual. A distance below `unit` never
    makes one: it is the smallest that matters.
    """
    group = Window.partitionBy(*by)
    distance = F.abs(F.col("value") - F.col("usual"))
    spread = F.greatest(F.col("spread"), F.col("usual") * _SHARE_MIN, F.lit(unit))
    return (
        frame.withColumn("value", value.cast("double"))
        .withColumn("usual", F.median("value").over(group))
        .withColumn("count", F.count("value").over(group))
        .withColumn("distance", distance)
        .withColumn("spread", F.median("distance").over(group))
        .withColumn("score", _NORMAL * (F.col("value") - F.col("usual")) / spread)
        .drop("distance", "spread")
    )
