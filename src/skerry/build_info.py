"""The version of skerry, and whether its hot modules are compiled.

For `skerry version`, the tests and the benchmarks. It finds out without importing hot modules. No
other module depends on which build is in use.
"""

from __future__ import annotations

import importlib.machinery
from pathlib import Path
from typing import Final, Literal, TypeAlias

Mode: TypeAlias = Literal["compiled", "plain"]
"""`plain` is the uncompiled build."""

_PACKAGE: Final = Path(__file__).parent
_PROBED: Final = ("codec", "frame")
"""The hot module that is looked up: mypyc compiles all of them or none."""


def version() -> str:
    """The version of the installed package, or of the source tree that is running."""
    import importlib.metadata

    try:
        return importlib.metadata.version("skerry")
    except importlib.metadata.PackageNotFoundError:
        return _version_of_tree(_PACKAGE.parent.parent / "pyproject.toml")


def mode() -> Mode:
    """Whether the hot modules of this installation are compiled."""
    # The finder is asked because an import of the module would slow down `skerry version`.
    folder = str(_PACKAGE.joinpath(*_PROBED[:-1]))
    name = ".".join(("skerry", *_PROBED))
    spec = importlib.machinery.PathFinder.find_spec(name, [folder])
    is_compiled = spec is not None and _is_extension(Path(spec.origin or ""))
    return "compiled" if is_compiled else "plain"


def compiled_modules() -> list[str]:
    """Sorted names of the compiled modules."""
    found = (path for path in _PACKAGE.rglob("*") if _is_extension(path))
    return sorted(_module_name(path) for path in found)


def _is_extension(path: Path) -> bool:
    return path.name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def _module_name(path: Path) -> str:
    folders = path.relative_to(_PACKAGE).parts[:-1]
    return ".".join(("skerry", *folders, path.name.partition(".")[0]))


def _version_of_tree(pyproject: Path) -> str:
    import tomllib

    return str(tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["version"])
