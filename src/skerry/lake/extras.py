"""What reading tables needs beyond the base installation, and what to say where it is missing."""

from __future__ import annotations

import importlib.util
from typing import Final

from skerry.errors import PipelineError

__all__ = ["NEEDED", "require_lake"]

NEEDED: Final = ("deltalake", "numpy", "pyarrow")


def require_lake(*others: str) -> None:
    """Do nothing where the extra `lake` (and `others`) is installed; PipelineError elsewhere."""
    missing = [name for name in (*NEEDED, *others) if importlib.util.find_spec(name) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        error = PipelineError(f"cannot read tables: {', '.join(missing)} {are} not installed")
        own = [name for name in missing if name in (*NEEDED, "duckdb")]
        error.hint = "pip install 'skerry[lake]'" if own else f"pip install {' '.join(missing)}"
        raise error
