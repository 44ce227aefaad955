"""Sends the package to executors that do not have it: its sources, as one zip file.

The zip has the uncompiled build, because machine code of this computer may not run on theirs. Its
dependencies (numpy, pyarrow) must be installed there; Spark needs them for Python rows, too.
"""

from __future__ import annotations

import importlib.util
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PACKAGE: Final = Path(__file__).parents[2]
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zip, so that equal sources give equal bytes."""


def ship_package(spark: SparkSession, *, always: bool = False) -> bool:
    """Send the package to the executors unless they have it; returns whether it was sent."""
    if not always and has_package(spark):
        return False
    folder = Path(tempfile.mkdtemp(prefix="skerry-ship-"))
    target = package_zip(folder / "skerry.zip")
    spark.sparkContext.addPyFile(str(target))
    return True


def has_package(spark: SparkSession) -> bool:
    """Whether the Python of all executors can import skerry."""
    context = spark.sparkContext
    count = max(2, context.defaultParallelism)
    # A function of the standard library is pickled by name; one of skerry would need the package.
    found = context.parallelize(["skerry"] * count, count).map(importlib.util.find_spec).map(bool)
    return all(found.collect())


def package_zip(target: Path) -> Path:
    """Write the sources of the package as a zip file that Python can import from."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(_PACKAGE.rglob("*")):
            if path.suffix in (".py", ".typed") and "__pycache__" not in path.parts:
                name = str(Path("skerry") / path.relative_to(_PACKAGE))
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    return target
