"""Rows into a space, through a real node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skerry
from skerry.codec.envelope import REMOVE
from skerry.errors import PipelineError
from skerry.limits import SEND_BYTES_MAX
from skerry.spark.sink.sink import BatchWriter, Published, StreamWriter, publish_rows
from skerry.spark.source.options import WriteOptions, write_options

TYPES = skerry.define_types("""
struct Alarm { 1: [key] uint32 id; 2: string text; 3: float64 score; }
struct Gone [cleanup=true] { 1: [key] uint32 id; }
""")
Alarm: Any = TYPES.Alarm

pytestmark = pytest.mark.slow


def options(node: Any, **more: Any) -> WriteOptions:
    return WriteOptions(type_name="Alarm", struct=Alarm.descriptor, node=node.place, **more)


def publish(node: Any, *rows: dict[str, Any]) -> int:
    batch = pa.RecordBatch.from_pylist(list(rows))
    return publish_rows(options(node), batch.schema.names, [batch])


def alarms(node: Any) -> dict[int, Any]:
    with skerry.connect(node.place, preload=[Alarm]) as space:
        return {alarm.id: alarm for alarm in space.container(Alarm).values()}


def test_rows_become_objects(live_node: Any) -> None:
    count = publish(live_node, {"id": 1, "text": "fire"}, {"id": 2, "text": None})
    assert count == 2
    assert alarms(live_node) == {1: Alarm(id=1, text="fire"), 2: Alarm(id=2)}


def test_rows_that_remove_remove(live_node: Any) -> None:
    publish(live_node, {"id": 1, "operation": 1}, {"id": 2, "operation": 2})
    publish(live_node, {"id": 1, "operation": REMOVE})
    assert list(alarms(live_node)) == [2]
    publish(live_node, {"id": 2, "operation": "remove"})
    assert alarms(live_node) == {}


def test_rows_update_and_clear_the_fields_of_their_property_set(live_node: Any) -> None:
    publish(live_node, {"id": 1, "text": "a", "score": 1.0})
    publish(live_node, {"id": 1, "text": None, "score": 2.0})
    assert alarms(live_node)[1] == Alarm(id=1, text="a", score=2.0)
    publish(live_node, {"id": 1, "text": None, "score": 9.0, "present": 1 << 1 | 1 << 2})
    assert alarms(live_node)[1] == Alarm(id=1, score=2.0)


def test_the_type_is_requested_from_the_node_without_a_file(live_node: Any) -> None:
    publish(live_node, {"id": 1})
    asked = WriteOptions(type_name="Alarm", node=live_node.place)
    batch = pa.RecordBatch.from_pylist([{"id": 7}])
    assert publish_rows(asked, ["id"], [batch]) == 1
    assert sorted(alarms(live_node)) == [1, 7]
    unknown = WriteOptions(type_name="Ghost", node=live_node.place)
    with pytest.raises(PipelineError, match="does not know the type Ghost") as caught:
        publish_rows(unknown, ["id"], [batch])
    assert "option types" in (caught.value.hint or "")


def test_more_rows_than_may_wait_all_arrive(live_node: Any) -> None:
    # Twice as much as a space lets wait for its node.
    text = "x" * (SEND_BYTES_MAX // 6)
    rows = [{"id": number, "text": text} for number in range(12)]
    assert publish(live_node, *rows) == 12
    assert len(alarms(live_node)) == 12


def test_a_row_that_does_not_fit_is_shown(live_node: Any) -> None:
    with pytest.raises(PipelineError, match=r"cannot convert a row to Alarm: .*'id': -1"):
        publish(live_node, {"id": -1})


def test_types_with_cleanup_are_rejected(live_node: Any) -> None:
    gone = WriteOptions(type_name="Gone", struct=TYPES.Gone.descriptor, node=live_node.place)
    with pytest.raises(PipelineError, match="cleanup"):
        publish_rows(gone, ["id"], [])


def test_a_batch_writer_returns_the_number_of_published_rows(live_node: Any) -> None:
    writer = BatchWriter(options(live_node), ["id"])
    message = writer.write(iter([pa.RecordBatch.from_pylist([{"id": 1}, {"id": 2}])]))
    assert message == Published(row_count=2)


def test_a_stream_needs_a_folder_for_published_parts(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no folder") as caught:
        StreamWriter(write_options({"type": "Alarm", "checkpointLocation": "s3a://b/c"}), ["id"])
    assert "ledger" in (caught.value.hint or "")
    for given in ({"checkpointLocation": f"file:{tmp_path}"}, {"ledger": str(tmp_path)}):
        writer = StreamWriter(write_options({"type": "Alarm", **given}), ["id"])
        writer.commit([Published(query="q", row_count=1), None], 4)
    assert (tmp_path / "q" / "4.done").exists()
    assert (tmp_path / "skerry-sink" / "q" / "4.done").exists()
