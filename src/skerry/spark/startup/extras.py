"""Checks that the packages of the extra `spark` are installed."""

from __future__ import annotations

import importlib.util
from typing import Final

from skerry.errors import PipelineError

NEEDED: Final = ("numpy", "pandas", "pyarrow", "pyspark")


def require_spark() -> None:
    """PipelineError if a package of the extra `spark` is missing."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        error = PipelineError(f"the pipeline needs Spark: {', '.join(missing)} {are} not installed")
        error.hint = "pip install 'skerry[spark]'"
        raise error
