"""The derived tables: figures about the traffic, built from the rows of all types.

Each is partitioned by hour or by day. The hours or days of new rows are built again from the other
tables, in one commit, so late and repeated rows need no special treatment. Tables are built in the
order of `DERIVED`: one may be built from those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from skerry.schema.internal import LINK_TYPE
from skerry.spark.transforms import alarms, links, rates, sessions
from skerry.spark.transforms.alarms import AlarmConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from skerry.spark.jobs.derived_tables import BuildInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    name: str
    partition_by: Literal["day", "hour"]
    """The partition column: `2026-11-15` or `2026-11-15T14` as text, of order_ns in UTC."""
    schema: StructType
    build: Callable[[BuildInputs], DataFrame]
    """Returns its rows for the hours or days of the inputs, and no others."""


def _rates(inputs: BuildInputs) -> DataFrame:
    return rates.build(inputs.events())


def _links(inputs: BuildInputs) -> DataFrame:
    return links.build(inputs.events(), inputs.updates(LINK_TYPE))


def _sessions(inputs: BuildInputs) -> DataFrame:
    return sessions.build(
        _built(inputs, links.NAME),
        inputs.updates("DotsClient"),
        inputs.updates("DotsDaemonStatus"),
        inputs.updates(LINK_TYPE),
    )


def _alarms(inputs: BuildInputs, config: AlarmConfig | None = None) -> DataFrame:
    return alarms.build(
        _built(inputs, rates.NAME),
        _built(inputs, links.NAME),
        _built(inputs, sessions.NAME),
        inputs.updates("DotsClientStatistics"),
        inputs.updates("SkerryLedger"),
        config or AlarmConfig(),
    )


def _built(inputs: BuildInputs, name: str) -> DataFrame:
    frame = inputs.derived(name)
    assert frame is not None, f"{name} must precede the tables that are built from it"
    return frame


DERIVED: Final = (
    Derived(name=rates.NAME, partition_by=rates.PARTITION, schema=rates.SCHEMA, build=_rates),
    Derived(name=links.NAME, partition_by=links.PARTITION, schema=links.SCHEMA, build=_links),
    Derived(
        name=sessions.NAME,
        partition_by=sessions.PARTITION,
        schema=sessions.SCHEMA,
        build=_sessions,
    ),
    Derived(name=alarms.NAME, partition_by=alarms.PARTITION, schema=alarms.SCHEMA, build=_alarms),
)


def derived_with(config: AlarmConfig) -> tuple[Derived, ...]:
    """The derived tables with other bounds for alarms."""
    return tuple(
        replace(item, build=partial(_alarms, config=config)) if item.name == alarms.NAME else item
        for item in DERIVED
    )
