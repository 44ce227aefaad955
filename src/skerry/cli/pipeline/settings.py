"""Section `pipeline` of the configuration: bounds of alarms and retention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skerry.spark.transforms.derived import Derived


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    slow_ms: float = 1000.0
    """Latency in milliseconds from which a program is slow, even if it is usual for it."""
    keep: str = ""
    """Maximum age of rows for `pipeline retain`, such as `30d`; empty keeps all rows."""
    keep_types: tuple[str, ...] = ()
    """Maximum age for single types, such as `Vessel=7d`; `Vessel=` keeps all rows of the type."""


def configured_derived() -> tuple[Derived, ...]:
    """The derived tables, with the configured bounds of alarms; imports Spark."""
    from skerry.cli.config import load_section
    from skerry.spark.transforms.alarms import AlarmConfig
    from skerry.spark.transforms.derived import derived_with

    config = load_section("pipeline", PipelineConfig).value
    return derived_with(AlarmConfig(slow_delay_ms_min=config.slow_ms))
