from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from skerry.errors import PipelineError
from skerry.lake.scanning import arrow_schema, conformed, dataset_of, scan
from skerry.spark.lake.delta import Table
from skerry.spark.lake.store import TableStore
from tests.unit.lake.lakes import START_NS, VESSEL, S, put, update


@pytest.mark.slow
def test_files_that_the_log_rules_out_are_not_opened(tmp_path: Path) -> None:
    files = [put(tmp_path, "updates", VESSEL, [update(n, 1)]) for n in (1, 2, 3)]
    contents = Table(TableStore(tmp_path), "updates/Vessel").contents()
    assert contents is not None
    # This one is unreadable.
    (tmp_path / "updates" / "Vessel" / files[0].path).write_bytes(b"damaged")
    dataset = dataset_of(TableStore(tmp_path), "updates/Vessel", contents)
    later = pc.field("order_ns") >= START_NS + 2 * S
    found = list(scan(dataset, ["position", "nothing", "hour"], later))
    table = pa.Table.from_batches(found)
    rows = sorted(table.to_pylist(), key=lambda row: row["position"])
    assert rows == [{"position": 20, "hour": "0"}, {"position": 30, "hour": "0"}]
    with pytest.raises(PipelineError, match=r"cannot read a file of a table: .*0\.parquet"):
        list(scan(dataset, ["position"], None))
    (tmp_path / "updates" / "Vessel" / files[0].path).unlink()
    with pytest.raises(PipelineError, match="cannot read a file of a table") as caught:
        list(scan(dataset, ["position"], None))
    assert "vacuum" in str(caught.value.hint)
    with pytest.raises(PipelineError, match="invalid condition"):
        list(scan(dataset, ["position"], pc.field("nothing") > 1))


def test_rows_get_the_columns_that_a_definition_asks_for() -> None:
    inner = pa.struct([("x", pa.int32())])
    batch = pa.RecordBatch.from_pydict(
        {
            "number": pa.array([1, None], pa.int32()),
            "one": pa.array([{"x": 1}, None], inner),
            "many": pa.array([None, [{"x": 2}, None]], pa.list_(inner)),
        }
    )
    wider = pa.struct([("x", pa.int64()), ("y", pa.string())])
    wanted = pa.schema(
        [
            ("new", pa.string()),
            ("number", pa.int64()),
            ("one", wider),
            ("many", pa.list_(pa.field("element", wider))),
        ]
    )
    made = conformed(batch, wanted)
    assert made.schema == wanted
    assert made.to_pylist() == [
        {"new": None, "number": 1, "one": {"x": 1, "y": None}, "many": None},
        {"new": None, "number": None, "one": None, "many": [{"x": 2, "y": None}, None]},
    ]
    made.validate(full=True)


def test_kinds_of_logs_become_those_that_all_tools_have() -> None:
    schema = pa.schema(
        [
            pa.field("a", pa.large_string(), nullable=False),
            ("b", pa.large_list(pa.string_view())),
            ("c", pa.struct([("d", pa.large_binary())])),
            ("e", pa.map_(pa.int32(), pa.binary_view())),
        ]
    )
    assert arrow_schema(schema) == pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.list_(pa.field("element", pa.string()))),
            ("c", pa.struct([("d", pa.binary())])),
            ("e", pa.map_(pa.int32(), pa.binary())),
        ]
    )
