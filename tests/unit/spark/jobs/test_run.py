from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skerry.errors import RecordingError
from skerry.spark.jobs.loop import run_all
from skerry.spark.lake.lake import Lake

NO_SPARK: Any = None


def test_job_without_recordings_does_not_begin(tmp_path: Path) -> None:
    with pytest.raises(RecordingError):
        run_all(Lake(NO_SPARK, tmp_path / "lake"), tmp_path / "nothing")
    assert not (tmp_path / "lake").exists()
