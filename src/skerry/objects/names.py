"""Python names for names in types: a reserved name gets a trailing underscore in Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable


def python_name(name: str, taken: Iterable[str] = ()) -> str:
    """The Python name for a name in a type, which may contain any characters."""
    result = re.sub(r"\W", "_", name, flags=re.ASCII)
    if result.startswith("__"):
        # Python mangles names with two leading underscores inside a class.
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
    # Names that need no change come first, so that no other name takes them.
    kept = {name for name in names if python_name(name, used) == name}
    used |= kept
    result: dict[str, str] = {}
    for name in names:
        if name not in kept:
            result[name] = python_name(name, used)
            used.add(result[name])
    return {name: result.get(name, name) for name in names}
