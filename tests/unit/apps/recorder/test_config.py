"""The section `recorder` of the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.apps.recorder.config import RecorderConfig
from skerry.config import load, read_sources
from skerry.limits import RECORDER_QUEUE_BYTES_MAX
from skerry.runtime.recordings.config import Durability


def test_section_has_the_keys_of_a_recording_and_its_own() -> None:
    config = RecorderConfig()
    assert (config.space, config.metrics) == ("local", "off")
    assert config.queue_bytes_max == RECORDER_QUEUE_BYTES_MAX
    assert config.batch_rows == 8192


def test_it_is_filled_from_the_environment() -> None:
    sources = read_sources(
        sections=("recorder",),
        file=None,
        environ={"SKERRY_RECORDER__DURABILITY": "batch", "SKERRY_RECORDER__SPACE": "harbour"},
    )
    config = load("recorder", RecorderConfig, sources).value
    assert (config.durability, config.space) == (Durability.BATCH, "harbour")


@pytest.mark.parametrize(
    "fields",
    [
        {"space": ""},
        {"queue_bytes_max": 0},
        {"queue_bytes_max": RECORDER_QUEUE_BYTES_MAX + 1},
        {"metrics": "nowhere"},
        {"batch_rows": 0},
    ],
)
def test_invalid_values_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields)) if "metrics" not in fields else "HOST"):
        RecorderConfig(**fields)
