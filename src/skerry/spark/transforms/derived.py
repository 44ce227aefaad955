"""The tables about the traffic itself, which are made of the rows of all types.

Each is divided by hour or by day. When rows arrive, the hours or days that they touch are built
anew from the tables below, in one commit, so late and repeated rows need no care of their own. A
batch asks `DERIVED` in its order: what stands later may be made of what stands before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

from skerry.schema.internal import LINK_TYPE
from skerry.spark.transforms import alarms, links, rates, sessions
from skerry.spark.transforms.alarms import AlarmConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["DERIVED", "Derived", "Inputs", "derived_with"]


class Inputs(Protocol):
    """What a derived table is made of: the rows of the hours or days it is built for.

    They are those of the tables with those of this batch, each once, whatever was late. A frame is
    None where there is no such table yet.
    """

    def events(self) -> DataFrame:
        """What happened, whatever its type: rows of all tables below `updates/` and of `raw`."""

    def updates(self, name: str) -> DataFrame | None:
        """Rows of `updates/<name>`."""

    def raw(self) -> DataFrame | None:
        """Rows of `raw`: gaps, and updates of types that nobody described."""

    def derived(self, name: str) -> DataFrame | None:
        """Rows of a derived table that stands before this one in `DERIVED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A derived table."""

    name: str
    partition_by: Literal["day", "hour"]
    """The column it is divided by: `2026-11-15` or `2026-11-15T14` as text, of order_ns in UTC."""
    schema: StructType
    build: Callable[[Inputs], DataFrame]
    """Its rows for the hours or days of the inputs; rows of any other are a mistake."""
    made_of: tuple[str, ...] = ()
    """The derived tables it asks for, which stand before it."""


def _rates(inputs: Inputs) -> DataFrame:
    return rates.build(inputs.events())


def _links(inputs: Inputs) -> DataFrame:
    return links.build(inputs.events(), inputs.updates(LINK_TYPE))


def _sessions(inputs: Inputs) -> DataFrame:
    return sessions.build(
        _built(inputs, links.NAME),
        inputs.updates("DotsClient"),
        inputs.updates("DotsDaemonStatus"),
        inputs.updates(LINK_TYPE),
    )


def _alarms(inputs: Inputs, config: AlarmConfig | None = None) -> DataFrame:
    return alarms.build(
        _built(inputs, rates.NAME),
        _built(inputs, links.NAME),
        _built(inputs, sessions.NAME),
        inputs.updates("DotsClientStatistics"),
        inputs.updates("SkerryLedger"),
        config or AlarmConfig(),
    )


def _built(inputs: Inputs, name: str) -> DataFrame:
    frame = inputs.derived(name)
    assert frame is not None, f"{name} stands before what is made of it"
    return frame


DERIVED: Final = (
    Derived(name=rates.NAME, partition_by=rates.PARTITION, schema=rates.SCHEMA, build=_rates),
    Derived(name=links.NAME, partition_by=links.PARTITION, schema=links.SCHEMA, build=_links),
    Derived(
        name=sessions.NAME,
        partition_by=sessions.PARTITION,
        schema=sessions.SCHEMA,
        build=_sessions,
        made_of=(links.NAME,),
    ),
    Derived(
        name=alarms.NAME,
        partition_by=alarms.PARTITION,
        schema=alarms.SCHEMA,
        build=_alarms,
        made_of=(rates.NAME, links.NAME, sessions.NAME),
    ),
)


def derived_with(config: AlarmConfig) -> tuple[Derived, ...]:
    """The same tables, with other bounds for alarms."""
    return tuple(
        replace(item, build=partial(_alarms, config=config)) if item.name == alarms.NAME else item
        for item in DERIVED
    )
