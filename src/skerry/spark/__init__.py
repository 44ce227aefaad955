"""Recordings in Spark: sessions, the data source `skerry`, and the pipeline that makes tables.

    spark = skerry.spark.session()
    raw = spark.read.format("skerry").load("recordings/")
    fleet = spark.read.format("skerry").option("type", "Vessel").load("recordings/")
    skerry.spark.tables(spark, "lake/").asof("Vessel", "2026-11-15T14:03:07Z")

Using it needs the extra `spark`; importing this module does not.

In reading order:

- `startup`: creates Spark sessions and starts Python workers
- `source`: reads recordings as rows, in batches and streams
- `sink`: publishes rows as objects
- `lake`: the tables of a lake, their columns, files, logs and plans
- `merging`: merges recorded rows into files of tables
- `transforms`: functions from frame to frame, for queries and derived tables
- `jobs`: batches, and the jobs `run`, `follow`, `compact` and `vacuum`
- `report`: the report over the tables as an HTML page
- `tables`: queries on the tables
- `instants`: parses instants
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skerry.spark.startup.session import register, session
    from skerry.spark.tables import Tables as tables  # noqa: N813

__all__ = ["register", "session", "tables"]

_EXPORTS: Final = {
    "register": ("skerry.spark.startup.session", "register"),
    "session": ("skerry.spark.startup.session", "session"),
    "tables": ("skerry.spark.tables", "Tables"),
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _EXPORTS[name]
    return getattr(import_module(module), attribute)


class _Package(ModuleType):
    """Keeps the exported functions when modules of the same names are imported.

    Importing a module makes it an attribute of its package, which would replace the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _EXPORTS:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
