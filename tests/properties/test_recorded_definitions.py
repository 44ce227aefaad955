"""Rows of random compatible definitions: read by one union, merged, and in one table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.codec.envelope import CREATE, SNAPSHOT, UPDATE, Update
from skerry.objects.base import key_of
from skerry.objects.classes import class_of
from skerry.recording.states import States
from skerry.recording.unions import united_types
from skerry.schema.fingerprint import fingerprint
from skerry.spark.lake.schema import typed_schema
from skerry.spark.source.columnar_decoder import decode_payloads
from tests.properties.test_type_changes import (
    ELEMENTS,
    PLACE_NAMES,
    Values,
    Version,
    build,
    flat,
    full_values,
    versions,
)

KEY = 7
"""Fits every width of the key."""
published = st.lists(st.tuples(versions, full_values), min_size=1, max_size=6)


def said_by(version: Version, values: Values) -> dict[int, Any]:
    return {tag: value for tag, value in values.items() if version.can_say(tag, value)}


@pytest.mark.slow
@given(published)
@settings(max_examples=60)
def test_the_union_reads_every_row_and_merged_objects_have_the_fields_of_all(
    steps: list[tuple[Version, Values]],
) -> None:
    known = united_types({fingerprint(version.type): version.type for version, _ in steps})
    assert len(set(map(fingerprint, known.values()))) == 1
    states = States(known)
    whole: dict[int, Any] = {}
    for index, (version, values) in enumerate(steps):
        said = said_by(version, values)
        obj = build(version, KEY, said)
        assert flat(class_of(known[fingerprint(version.type)]).decode(obj.encode())) == said
        whole |= said
        states.apply(
            Update(
                type_name="Boat",
                subject="/Boat/7",
                operation=UPDATE if index else CREATE,
                present=int(obj.attributes),
                key=bytes(key_of(obj)),
                payload=obj.encode(),
                fingerprint=fingerprint(version.type),
                position=index + 1,
            )
        )
    (found,) = states.take_updates()
    union = next(iter(known.values()))
    assert found.operation == SNAPSHOT
    assert flat(class_of(union).decode(found.payload)) == whole
    assert found.fingerprint in {fingerprint(union), fingerprint(steps[0][0].type)}
    assert found.present == sum(1 << tag for tag in (1, *whole))


@pytest.mark.slow
@given(published)
@settings(max_examples=60)
def test_all_rows_are_in_one_table_with_nothing_left_over(
    steps: list[tuple[Version, Values]],
) -> None:
    schema = typed_schema([version.type for version, _ in steps])
    notified = [said_by(version, values) for version, values in steps]
    payloads = [
        build(version, KEY, said).encode()
        for (version, _), said in zip(steps, notified, strict=True)
    ]
    table = decode_payloads(schema.reader, pa.array(payloads, pa.binary())).to_pylist()
    for row, said in zip(table, notified, strict=True):
        assert row["id"] == KEY
        assert not row["unknown"]
        expected = {"crew": 2, "name": 3, "is_new": 7, "speed": 8}
        for name, tag in expected.items():
            assert row.get(name) == said.get(tag)
        assert row.get("rig") == ELEMENTS.get(said.get(4, 0))
        assert (row.get("place") is None) == (5 not in said)
        for tag, name in PLACE_NAMES.items() if 5 in said else ():
            assert row["place"].get(name) == said[5].get(tag)
        assert len(row.get("route") or ()) == len(said.get(6, ()))
