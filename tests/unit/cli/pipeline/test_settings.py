"""Section `pipeline` of the configuration."""

from __future__ import annotations

from typing import Any

import click

from skerry.cli.config import read_settings
from skerry.cli.pipeline.settings import configured_derived


def test_bounds_of_alarms_can_be_configured(monkeypatch: Any) -> None:
    monkeypatch.setenv("SKERRY_PIPELINE__SLOW_MS", "250")
    with click.Context(click.Command("run")) as context:
        read_settings(context, file=None, flags={})
        tables = {table.name: table for table in configured_derived()}
    assert list(tables) == ["rates", "links", "sessions", "alarms"]
    build: Any = tables["alarms"].build
    assert build.keywords["config"].slow_delay_ms_min == 250.0
