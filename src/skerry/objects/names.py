"""Python names for the names of types: a taken one gets a trailing underscore, in Python only."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

__all__ = ["python_name", "python_names"]


def python_name(name: str, taken: Iterable[str] = ()) -> str:
    """The name in Python for one from a type, which may be a stranger's."""
    result = re.sub(r"\W", "_", name, flags=re.ASCII)
    if result.startswith("__"):
        # Two leading underscores have a meaning of their own inside a class.
        result = result.lstrip("_") + "_"
    if not result or result[0].isdigit():
        result = "_" + result
    while keyword.iskeyword(result) or result in taken:
        result += "_"
    return result


def python_names(names: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Distinct Python names for the names of one type, none of them in `taken`."""
    used = set(taken)
    names = list(names)
    # Names that can stay as they are come first, so that no other name pushes them aside.
    kept = {name for name in names if python_name(name, used) == name}
    used |= kept
    result: dict[str, str] = {}
    for name in names:
        if name not in kept:
            result[name] = python_name(name, used)
            used.add(result[name])
    return {name: result.get(name, name) for name in names}
