"""Section `pipeline` of the configuration: what counts as slow, and how long rows are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skerry.spark.transforms.derived import Derived

__all__ = ["PipelineConfig", "configured_derived"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineConfig:
    """Section `pipeline`."""

    slow_ms: float = 1000.0
    """Delay in milliseconds from which on a program is slow, however usual that is for it."""
    keep: str = ""
    """Age at which rows are dropped by `pipeline retain`, as `30d`; empty keeps them."""
    keep_types: tuple[str, ...] = ()
    """The same for single types, as `Vessel=7d`; `Vessel=` keeps all of that type."""


def configured_derived() -> tuple[Derived, ...]:
    """The derived tables, with alarms from where on the configuration says; it imports Spark."""
    from skerry.cli.config import load_section
    from skerry.spark.transforms.alarms import AlarmConfig
    from skerry.spark.transforms.derived import derived_with

    config = load_section("pipeline", PipelineConfig).value
    return derived_with(AlarmConfig(slow_delay_ms_min=config.slow_ms))
