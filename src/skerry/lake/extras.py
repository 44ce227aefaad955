"""Checks that the packages of the extra `lake` are installed."""

from __future__ import annotations

import importlib.util
from typing import Final

from skerry.errors import PipelineError

NEEDED: Final = ("deltalake", "numpy", "pyarrow")


def require_lake(*others: str) -> None:
    """PipelineError if a package of the extra `lake`, or one of `others`, is missing."""
    missing = [name for name in (*NEEDED, *others) if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        error = PipelineError(f"cannot read tables: {', '.join(missing)} {are} not installed")
        own = [name for name in missing if name in (*NEEDED, "duckdb")]
        error.hint = "pip install 'skerry[lake]'" if own else f"pip install {' '.join(missing)}"
        raise error
