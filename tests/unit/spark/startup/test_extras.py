"""What to say where the extra is missing."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from skerry.errors import PipelineError
from skerry.spark.startup.extras import FOR_SPARK, require_lake, require_spark


def test_with_the_extra_no_error_is_raised() -> None:
    require_spark()


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return None if name in FOR_SPARK[:2] else found(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(PipelineError, match=f"{FOR_SPARK[0]}, {FOR_SPARK[1]} are not") as caught:
        require_spark()
    assert caught.value.hint == "pip install 'skerry[spark]'"


def test_missing_packages_of_queries_are_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_lake("duckdb")
    with pytest.raises(PipelineError, match="no_such_thing is not installed") as caught:
        require_lake("no_such_thing")
    assert caught.value.hint == "pip install no_such_thing"
    monkeypatch.setattr("skerry.spark.startup.extras.FOR_LAKE", ("pyarrow", "none_a", "none_b"))
    with pytest.raises(PipelineError, match="none_a, none_b are not installed") as caught:
        require_lake()
    assert caught.value.hint == "pip install 'skerry[lake]'"
