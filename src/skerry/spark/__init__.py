"""Recordings in Spark: a session that is ready, the data source `skerry`, and typed tables.

    spark = skerry.spark.session()
    raw = spark.read.format("skerry").load("recordings/")
    fleet = spark.read.format("skerry").option("type", "Vessel").load("recordings/")
    skerry.spark.tables(spark, "lake/").asof("Vessel", "2026-11-15T14:03:07Z")

All of it needs the extra `spark`; importing this module does not.
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

_PLACES: Final = {
    "register": ("skerry.spark.startup.session", "register"),
    "session": ("skerry.spark.startup.session", "session"),
    "tables": ("skerry.spark.tables", "Tables"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


class _Package(ModuleType):
    """A package that keeps its functions, though modules in it have the same names.

    Importing a module makes it an attribute of its package, which would hide the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PLACES:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
