from __future__ import annotations

import pytest

from skerry.errors import PipelineError
from skerry.lake.extras import require_lake


def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    require_lake("duckdb")
    with pytest.raises(PipelineError, match="no_such_thing is not installed") as caught:
        require_lake("no_such_thing")
    assert caught.value.hint == "pip install no_such_thing"
    monkeypatch.setattr("skerry.lake.extras.NEEDED", ("pyarrow", "none_a", "none_b"))
    with pytest.raises(PipelineError, match="none_a, none_b are not installed") as caught:
        require_lake()
    assert caught.value.hint == "pip install 'skerry[lake]'"
