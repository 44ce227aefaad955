"""How few rows are computed: by one task, interpreted, and without a shuffle.

Spark makes ready for many rows: it compiles each plan, moves rows between tasks, and plans anew
after each step. For some thousand rows all of that takes far longer than the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["AT_ONCE", "FEW_BYTES", "FEW_ROWS", "FOR_FEW", "few_rows", "in_one_task", "side_by_side"]

Result = TypeVar("Result")

AT_ONCE: Final = 2
"""Plans of few rows that are made side by side."""

FEW_ROWS: Final = 100_000
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


def side_by_side(jobs: Iterable[Callable[[], Result]], at_once: int) -> list[Result]:
    """What the jobs give, in their order; so many of them run at a time.

    A plan of few rows keeps the driver busy and no task, so two of them use two cores.
    """
    if at_once == 1:
        return [job() for job in jobs]
    pool = ThreadPoolExecutor(at_once, "skerry-batch")
    try:
        return list(pool.map(lambda job: job(), jobs))
    finally:
        # After a failure what has begun comes to its end, and nothing more begins.
        pool.shutdown(cancel_futures=True)


def in_one_task(frame: DataFrame) -> DataFrame:
    """The frame in one part: whatever is made of it needs no shuffle."""
    return frame.coalesce(1)
