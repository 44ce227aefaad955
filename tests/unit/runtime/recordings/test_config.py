"""Configuration of a recording."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.limits import (
    RECORDING_BATCH_MS_MAX,
    RECORDING_BATCH_ROW_COUNT_MAX,
    RECORDING_SEGMENT_BYTES_MAX,
)
from skerry.runtime.recordings.config import Durability, RecordingConfig

BOUNDS = [
    ("batch_rows", RECORDING_BATCH_ROW_COUNT_MAX),
    ("batch_ms", RECORDING_BATCH_MS_MAX),
    ("segment_bytes", RECORDING_SEGMENT_BYTES_MAX),
]


def test_defaults_are_the_documented_ones() -> None:
    config = RecordingConfig()
    assert (config.batch_rows, config.batch_ms) == (8192, 200)
    assert (config.seal_s, config.seal_followed_s) == (60, 2)
    assert config.segment_bytes == 64 * 1024 * 1024
    assert config.durability is Durability.INTERVAL
    assert (config.keep_s, config.keep_bytes) == (0, 0)


@pytest.mark.parametrize(("name", "high"), BOUNDS)
def test_values_are_accepted_up_to_the_limits(name: str, high: int) -> None:
    make: Any = RecordingConfig
    for value in (1, high):
        assert getattr(make(**{name: value}), name) == value
    for value in (0, high + 1):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            make(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("seal_s", 0), ("seal_followed_s", -1), ("sync_interval_s", 1e9), ("keep_s", -1)],
)
def test_impossible_times_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        RecordingConfig(**{name: value})
