"""The process from which Spark forks its Python workers, with their imports done beforehand.

Spark's own daemon imports nothing: every worker, even one that only plans a read, begins by
importing pandas, pyarrow and the modules of its task, which takes longer than most tasks. Workers
that are forked from this process have them already. Spark starts it by the module name in the
session, and only on this computer, where the package is certain to be found.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

MODULE: Final = "skerry.spark.startup.daemon"
"""Value of the setting `spark.python.daemon.module`."""

PRELOADED: Final = ("numpy", "pandas", "pyarrow", "skerry.spark.source.data_source")


def preload(worker_module: str) -> None:
    """Import the modules that workers need; none of them starts a thread, which a fork loses."""
    for name in (worker_module, *PRELOADED):
        importlib.import_module(name)
    # A worker collects garbage after each task, and would traverse all of these objects: about
    # fifty milliseconds, and a copy of every memory page they are on.
    gc.collect()
    gc.freeze()


def main() -> None:
    """Preload the modules, then run Spark's daemon in this process."""
    from pyspark.daemon import manager

    preload(sys.argv[1] if len(sys.argv) > 1 else "pyspark.worker")
    manager()


if __name__ == "__main__":
    main()
