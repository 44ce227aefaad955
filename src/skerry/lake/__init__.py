"""Queries on the tables of a lake without Spark, about any instant, within a second.

    lake = skerry.lake.open("lake/")
    lake.asof("Vessel", "2026-11-15T14:03:07Z").to_pandas()

Using it needs the extra `lake`; importing this module does not. In reading order:

- `reader`: `OpenLake`, which has a method for each query
- `answer`: `Answer`, the rows of a query as a stream of Arrow batches or as a whole
- `scanning`: files of a table as an Arrow dataset; irrelevant files are not read
- `states`: states at an instant or in a range, and differences between two instants
- `updates`: updates in order, in slices of time that fit into memory
- `series`: values of a field in equal intervals
- `retention`: deletes rows by age, and keeps figures by the minute
- `sql`: SQL over the tables, with DuckDB
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skerry.lake.answer import Answer
    from skerry.lake.reader import OpenLake
    from skerry.lake.reader import open_lake as open  # noqa: A004

__all__ = ["Answer", "OpenLake", "open"]

_EXPORTS: Final = {
    "Answer": ("skerry.lake.answer", "Answer"),
    "OpenLake": ("skerry.lake.reader", "OpenLake"),
    "open": ("skerry.lake.reader", "open_lake"),
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from skerry.spark.startup.extras import require_lake

    require_lake()
    module, attribute = _EXPORTS[name]
    return getattr(import_module(module), attribute)
