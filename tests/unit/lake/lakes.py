"""Small tables written without Spark, with the columns that the pipeline gives them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import skerry
from skerry.spark.lake.catalog import DIVIDED_BY, table_schema
from skerry.spark.lake.data_files import DataFile, TableChange
from skerry.spark.lake.delta import Table
from skerry.spark.lake.lake import Lake, delta_schema
from skerry.spark.lake.plans import Plan, TypeState
from skerry.spark.lake.schema import typed_schema
from skerry.spark.lake.store import TableStore

S = 1_000_000_000
START_NS = 1_794_751_200 * S
"""2026-11-15T14:00:00Z"""
TYPES = skerry.define_types("""
struct Place { 1: float64 lat; 2: float64 lon; }
struct Vessel {
    1: [key] uint32 mmsi; 2: string name; 3: float64 speed; 4: vector<int32> marks; 5: Place place;
}
struct Hail [cached=false] { 1: string text; }
""")
VESSEL = TypeState(table="Vessel", schema=typed_schema([TYPES.Vessel.descriptor]), is_cached=True)
HAIL = TypeState(table="Hail", schema=typed_schema([TYPES.Hail.descriptor]), is_cached=False)
MEASURED = ("order_ns", "valid_from_ns", "valid_to_ns")
NO_SPARK: Any = None


def write_plan(root: Path, *states: TypeState) -> None:
    """What the pipeline writes down of types, which all questions begin with."""
    lake = Lake(NO_SPARK, root)
    lake.write_plan(Plan(number=0, types={state.table: state for state in states}))


def put(
    root: Path,
    kind: str,
    state: TypeState,
    rows: Iterable[Mapping[str, Any]],
    parts: Mapping[str, str] | None = None,
) -> DataFile:
    """Add a file with these rows to a table; columns that a row does not have are null."""
    table = Table(TableStore(root), f"{kind}/{state.table}")
    schema = table_schema(kind, state.schema)
    divided = DIVIDED_BY[kind]
    inside = pa.schema([field for field in schema if field.name not in divided])
    found = pa.Table.from_pylist([dict(row) for row in rows], schema=inside)
    count = len(table.files())
    folder = root / kind / state.table
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(found, folder / f"{count}.parquet", row_group_size=4)
    extremes = {
        name: values
        for name in MEASURED
        if name in inside.names and None not in (values := found.column(name).to_pylist())
    }
    file = DataFile(
        path=f"{count}.parquet",
        byte_count=(folder / f"{count}.parquet").stat().st_size,
        rows=found.num_rows,
        parts=parts if parts is not None else dict.fromkeys(divided, "0"),
        low={name: min(values) for name, values in extremes.items()},
        high={name: max(values) for name, values in extremes.items()},
    )
    change = TableChange(
        table=f"{kind}/{state.table}",
        schema=delta_schema(schema),
        divided_by=divided,
        added=(file,),
    )
    table.commit(change, application="test", version=count)
    return file


def update(second: float, mmsi: int, operation: int = 2, **fields: Any) -> dict[str, Any]:
    """A row of `updates/Vessel`."""
    at_ns = START_NS + round(second * S)
    return {
        "order_ns": at_ns,
        "time_ns": at_ns,
        "space": "bay",
        "subject": f"/Vessel/{mmsi}",
        "type": "Vessel",
        "operation": operation,
        "present": 2,
        "key": bytes([mmsi]),
        "sender": 3,
        "node": 7,
        "sequence": round(second * 10),
        "position": round(second * 10),
        "mmsi": mmsi,
        **fields,
    }


def held(
    first: float, stop: float | None, mmsi: int, life: int = 1, **fields: Any
) -> dict[str, Any]:
    """A row of `history/Vessel`, or of `latest/Vessel` if it has no end."""
    return {
        "space": "bay",
        "key": bytes([mmsi]),
        "subject": f"/Vessel/{mmsi}",
        "valid_from_ns": START_NS + round(first * S),
        "valid_to_ns": None if stop is None else START_NS + round(stop * S),
        "life": life,
        "sender": 3,
        "node": 7,
        "position": round(first * 10),
        "sequence": round(first * 10),
        "mmsi": mmsi,
        **fields,
    }


def fleet(root: Path) -> Path:
    """Two vessels: one that moves and stays, one that goes and comes back."""
    write_plan(root, VESSEL, HAIL)
    said = [
        update(1, 1, 1, name="Maren", speed=1.0),
        update(2, 2, 1, name="Wren", speed=float("nan")),
        update(2.5, 1, speed=3.0),
        update(3, 2, 3),
        update(4, 2, 1, name="Wren", marks=[1]),
        update(5, 1, speed=5.0, place={"lat": 1.0, "lon": None}),
    ]
    put(root, "updates", VESSEL, said[:3])
    put(root, "updates", VESSEL, said[3:])
    over = [
        held(1, 2.5, 1, name="Maren", speed=1.0),
        held(2.5, 5, 1, name="Maren", speed=3.0),
        held(2, 3, 2, name="Wren", speed=float("nan")),
    ]
    put(root, "history", VESSEL, over)
    now = [
        held(5, None, 1, name="Maren", speed=5.0, place={"lat": 1.0, "lon": None}),
        held(4, None, 2, 2, name="Wren", marks=[1]),
    ]
    put(root, "latest", VESSEL, now)
    put(root, "updates", HAIL, [{**update(6, 1), "type": "Hail", "text": "ahoy"}])
    return root
