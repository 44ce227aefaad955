"""The tables of the pipeline, read without Spark: answers about any instant within a second.

    lake = skerry.lake.open("lake/")
    lake.asof("Vessel", "2026-11-15T14:03:07Z").to_pandas()

All of it needs the extra `lake`; importing this module does not. The modules, in reading order:

- `reader`     `OpenLake`: the questions
- `answer`     `Answer`: rows as a stream of Arrow batches, or as a whole
- `layout`     which types and tables there are
- `scanning`   files of a table as an Arrow dataset, of which only what can matter is read
- `states`     states at an instant, and what differs between two
- `updates`    updates in their order, in slices of time that fit into memory
- `series`     values of a field in equal intervals
- `rollups`    what retention keeps of rows that it drops: figures by the minute
- `retention`  dropping rows by their age
- `sql`        SQL over the tables, by DuckDB
- `extras`     what has to be installed
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skerry.lake.answer import Answer
    from skerry.lake.reader import OpenLake
    from skerry.lake.reader import open_lake as open  # noqa: A004

__all__ = ["Answer", "OpenLake", "open"]

_PLACES: Final = {
    "Answer": ("skerry.lake.answer", "Answer"),
    "OpenLake": ("skerry.lake.reader", "OpenLake"),
    "open": ("skerry.lake.reader", "open_lake"),
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)
