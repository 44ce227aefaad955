"""`skerry version`."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from typing import Any

from skerry import build_info


def test_version_is_one_line_with_the_build(run: Callable[..., Any]) -> None:
    done = run("version")
    assert done.code == 0
    assert done.out.startswith(f"skerry {build_info.version()} ({build_info.mode()}), ")
    assert done.out.count("\n") == 1


def test_version_as_json_has_all_facts(run: Callable[..., Any]) -> None:
    assert json.loads(run("version", "--json").out) == {
        "version": build_info.version(),
        "mode": build_info.mode(),
        "compiled_modules": build_info.compiled_modules(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
