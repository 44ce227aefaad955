"""The process from which Spark forks its Python workers, with all they need imported beforehand.

Spark's own imports nothing: every worker, also those that only plan a read, begins by importing
pandas, pyarrow and whatever its task uses, which takes longer than most tasks. Forked from here,
they have it already. Spark starts this by the name that the session gives it, and only on this
computer, where the package is sure to be found.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

__all__ = ["MODULE", "PRELOADED", "main", "preload"]

MODULE: Final = "skerry.spark.startup.daemon"
"""For the setting `spark.python.daemon.module`."""

PRELOADED: Final = ("numpy", "pandas", "pyarrow", "skerry.spark.source.data_source")


def preload(worker_module: str) -> None:
    """Import what the workers will need; none of it starts a thread that a fork would lose."""
    for name in (worker_module, *PRELOADED):
        importlib.import_module(name)
    # A worker collects garbage after each task, and would look at all of these objects each time:
    # some fifty milliseconds, and a copy of every page they are on.
    gc.collect()
    gc.freeze()


def main() -> None:
    """Be Spark's daemon from here on."""
    from pyspark.daemon import manager

    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    manager()


if __name__ == "__main__":
    main()
