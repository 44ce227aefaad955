"""How few rows are computed: by one task, interpreted, and without a shuffle.

Spark makes ready for many rows: it compiles each plan, moves rows between tasks, and plans anew
after each step. For some thousand rows all of that takes far longer than the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FEW_BYTES", "FEW_ROWS", "FOR_FEW", "few_rows", "in_one_task"]

FEW_ROWS: Final = 300_000
"""Up to here one task that is interpreted is done before a plan for many is made ready."""
FEW_BYTES: Final = 256 * 1024 * 1024
"""Of fewer rows, however large they are, so much is sorted by one task without trouble."""

FOR_FEW: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    # Nobody reads what a plan looks like, which is made into text for each job.
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.ui.explainMode": "simple",
}
"""Settings of a session for frames of few rows."""


@contextmanager
def few_rows(spark: SparkSession) -> Iterator[None]:
    """Inside, Spark is set up for frames of few rows; any others are right, too, but slow."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in FOR_FEW}
    try:
        for name, value in FOR_FEW.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)


def in_one_task(frame: DataFrame) -> DataFrame:
    """The frame in one part: whatever is made of it needs no shuffle."""
    return frame.coalesce(1)
