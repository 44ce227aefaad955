"""Checks that the packages of the extras `lake` and `spark` are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Final

from skerry.errors import PipelineError

FOR_LAKE: Final = ("deltalake", "numpy", "pyarrow")
FOR_SPARK: Final = ("numpy", "pandas", "pyarrow", "pyspark")


def require_lake(*others: str) -> None:
    """PipelineError if a package of the extra `lake`, or one of `others`, is missing."""
    missing = _missing((*FOR_LAKE, *others))
    is_own = not {*FOR_LAKE, "duckdb"}.isdisjoint(missing)
    _require(missing, "cannot read tables", "'skerry[lake]'" if is_own else " ".join(missing))


def require_spark() -> None:
    """PipelineError if a package of the extra `spark` is missing."""
    _require(_missing(FOR_SPARK), "the pipeline needs Spark", "'skerry[spark]'")


def _missing(names: Sequence[str]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def _require(missing: Sequence[str], what: str, packages: str) -> None:
    if missing:
        are = "is" if len(missing) == 1 else "are"
        error = PipelineError(f"{what}: {', '.join(missing)} {are} not installed")
        error.hint = f"pip install {packages}"
        raise error
