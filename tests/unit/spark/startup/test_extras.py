"""What to say where the extra is missing."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from skerry.errors import PipelineError
from skerry.spark.startup.extras import NEEDED, require_spark


def test_with_the_extra_no_error_is_raised() -> None:
    require_spark()


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name in NEEDED[:2] else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(PipelineError, match=f"{NEEDED[0]}, {NEEDED[1]} are not") as caught:
        require_spark()
    assert caught.value.hint == "pip install 'skerry[spark]'"
