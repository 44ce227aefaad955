"""Plans: the changes of each batch, and the state of the pipeline after it, as files of JSON.

Spark is not imported here, because queries without Spark read the last plan as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from skerry.errors import PipelineError, SkerryError
from skerry.spark.lake.catalog import DIVIDED_BY
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.schema import TypedSchema, schema_from_text, schema_to_text
from skerry.spark.lake.store import TableStore
from skerry.spark.merging.identity import CounterGroup

_PLANS: Final = "_skerry/plans"
_OF_TYPES: Final = (*(kind for kind in DIVIDED_BY if kind != "raw"), "rollups")
"""Kinds of tables that exist per type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The highest position of a node, and its latest `order_ns`."""

    position: int
    order_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeState:
    """The state of the tables of one type after a batch."""

    table: str
    """Their name: that of the type, with `@2` and so on for incompatible definitions."""
    schema: TypedSchema
    is_cached: bool
    clocks: Mapping[int, Clock] = field(default_factory=dict)
    part_count: int = 1
    marks: Mapping[CounterGroup, int] | None = field(default_factory=dict)
    """Highest numbers of all counters except node positions; None if they were not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The changes of one batch, and the state after it."""

    number: int = -1
    offsets: Mapping[str, int] = field(default_factory=dict)
    """By recording id, the number of manifest lines that are in the tables."""
    types: Mapping[str, TypeState] = field(default_factory=dict)
    changes: tuple[TableChange, ...] = ()
    notices: tuple[str, ...] = ()
    row_count: int = 0
    read_count: int = 0
    raw_marks: Mapping[CounterGroup, int] | None = field(default_factory=dict)
    """Highest numbers of the counters of `raw`; None if they were not recorded."""
    stale_hours: tuple[str, ...] = ()
    """Hours for which derived tables have to be built."""
    damaged: tuple[str, ...] = ()
    """Segments that had a damaged batch; `raw` has gap rows for them."""


def table_folders(store: TableStore) -> list[str]:
    """Names of folders that may be tables; their logs are not read."""
    names: list[str] = []
    for name in store.folders(""):
        if name in _OF_TYPES:
            names += [f"{name}/{inner}" for inner in store.folders(name)]
        elif not name.startswith(("_", ".")):
            names.append(name)
    return names


def plan_path(number: int) -> str:
    return f"{_PLANS}/{number:010}.json"


def plan_numbers(store: TableStore) -> list[int]:
    names = (file.path.rpartition("/")[2] for file in store.listed(_PLANS))
    return sorted(int(name[:10]) for name in names if name.endswith(".json"))


def last_plan(store: TableStore, hint_for: Callable[[int], str] | None = None) -> Plan:
    """The last plan; an empty one if there is none yet.

    PipelineError if it is damaged, with the hint that `hint_for` returns for its number.
    """
    for number in reversed(plan_numbers(store)):
        try:
            text = store.read_text(plan_path(number))
            if text is not None:
                return _plan_from_text(text)
        except (ArithmeticError, LookupError, SkerryError, TypeError, ValueError) as error:
            fault = PipelineError(f"{store.root}/{plan_path(number)} is damaged")
            fault.hint = None if hint_for is None else hint_for(number)
            raise fault from error
    return Plan()


def plan_to_text(plan: Plan) -> str:
    values = {
        "number": plan.number,
        "offsets": dict(plan.offsets),
        "notices": list(plan.notices),
        "row_count": plan.row_count,
        "read_count": plan.read_count,
        "raw_marks": _marks_to_json(plan.raw_marks),
        "stale_hours": list(plan.stale_hours),
        "damaged": list(plan.damaged),
        "types": [_state_to_json(state) for state in plan.types.values()],
        "changes": [asdict(change) for change in plan.changes],
    }
    return json.dumps(values, ensure_ascii=False)


def _plan_from_text(text: str) -> Plan:
    values = json.loads(text)
    states = [_state_from_json(state) for state in values["types"]]
    return Plan(
        number=values["number"],
        # A plan of an earlier version has no offsets: its rows are read again and found known.
        offsets=values.get("offsets", {}),
        notices=tuple(values["notices"]),
        row_count=values["row_count"],
        read_count=values.get("read_count", 0),
        raw_marks=_marks_from_json(values.get("raw_marks")),
        stale_hours=tuple(values.get("stale_hours", ())),
        damaged=tuple(values.get("damaged", ())),
        types={state.table: state for state in states},
        changes=tuple(_change_from_json(change) for change in values["changes"]),
    )


def _state_to_json(state: TypeState) -> dict[str, Any]:
    clocks = {str(node): [c.position, c.order_ns] for node, c in state.clocks.items()}
    return {
        "table": state.table,
        "schema": schema_to_text(state.schema),
        "is_cached": state.is_cached,
        "part_count": state.part_count,
        "clocks": clocks,
        "marks": _marks_to_json(state.marks),
    }


def _state_from_json(values: Mapping[str, Any]) -> TypeState:
    return TypeState(
        table=values["table"],
        schema=schema_from_text(values["schema"]),
        is_cached=values["is_cached"],
        part_count=values["part_count"],
        marks=_marks_from_json(values.get("marks")),
        clocks={
            int(node): Clock(position=position, order_ns=order_ns)
            for node, (position, order_ns) in values["clocks"].items()
        },
    )


def _marks_to_json(marks: Mapping[CounterGroup, int] | None) -> list[list[int]] | None:
    return None if marks is None else [[*group, number] for group, number in marks.items()]


def _marks_from_json(values: list[list[int]] | None) -> dict[CounterGroup, int] | None:
    if values is None:
        return None
    return {CounterGroup(kind, node, sender): number for kind, node, sender, number in values}


def _change_from_json(values: Mapping[str, Any]) -> TableChange:
    change = TableChange(**{**values, "added": (), "removed": tuple(values["removed"])})
    return replace(
        change,
        divided_by=tuple(values["divided_by"]),
        added=tuple(DataFile(**file) for file in values["added"]),
    )
