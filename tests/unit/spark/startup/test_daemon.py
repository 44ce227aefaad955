"""The process that Spark forks its workers from."""

from __future__ import annotations

import subprocess
import sys

import pytest

from skerry.spark.startup import daemon
from skerry.spark.startup.daemon import MODULE, PRELOADED

PROGRAM = """
import gc, sys
from skerry.spark.startup import daemon
daemon.preload("pyspark.sql.worker.plan_data_source_read")
assert "pyspark.sql.worker.plan_data_source_read" in sys.modules
assert all(name in sys.modules for name in daemon.PRELOADED)
print(gc.get_freeze_count())
"""


def test_its_name_is_that_of_the_module() -> None:
    assert daemon.__name__ == MODULE


@pytest.mark.slow
def test_modules_of_workers_are_imported_before_the_fork() -> None:
    assert "skerry.spark.source.data_source" in PRELOADED
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True
    )
    # Out of the sight of the collector, which runs after each task.
    assert int(done.stdout) > 10_000
