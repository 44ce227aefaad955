"""Reads type files from disk."""

from __future__ import annotations

import os

from skerry.errors import Problem, SchemaError, SchemaSyntaxError
from skerry.limits import SOURCE_BYTES_MAX
from skerry.objects.typeset import TypeSet
from skerry.runtime.whole_files import once_each, read_whole
from skerry.schema.loading import load


def load_types(*paths: str | os.PathLike[str]) -> TypeSet:
    """The types of one file or several, and of the files they import.

    `import Foo` refers to a type `Foo` in one of the given files, or else to `Foo.dots` beside the
    importing file. A file that is given twice is read once. SchemaError has the faults of all
    files.
    """
    if not paths:
        # For example `load_types(*folder.glob("*.dots"))` with a folder without type files.
        raise SchemaError("no type file was given")
    return TypeSet(load(once_each(os.fspath(path) for path in paths), read_type_file))


def read_type_file(path: str) -> bytes | None:
    """The content of a file; None if it does not exist.

    LimitExceeded if it is too large, SchemaSyntaxError if it cannot be read.
    """
    try:
        return read_whole(path, bytes_max=SOURCE_BYTES_MAX)
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        message = "this is a folder, not a type file"
    except OSError as error:
        message = f"it cannot be read: {error.strerror or error}"
    raise SchemaSyntaxError([Problem(message=message, file=path, text=path)])
