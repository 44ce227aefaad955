"""Type files on disk."""

from __future__ import annotations

import os

from skerry.limits import SOURCE_BYTES_MAX
from skerry.objects.typeset import TypeSet
from skerry.runtime.whole_files import read_whole
from skerry.schema.loading import load

__all__ = ["load_types", "read_type_file"]


def load_types(*paths: str | os.PathLike[str]) -> TypeSet:
    """The types of one file or several, and of those they import.

    `import Foo` is met by a type `Foo` of any file given, else by `Foo.dots` beside the importing
    file. SchemaError has every fault of all files.
    """
    return TypeSet(load([os.fspath(path) for path in paths], read_type_file))


def read_type_file(path: str) -> bytes | None:
    """The content of a file; None when it is not there, LimitExceeded when it is too large."""
    try:
        return read_whole(path, bytes_max=SOURCE_BYTES_MAX)
    except FileNotFoundError:
        return None
