"""Which files a question needs; the answers themselves are held against a model elsewhere."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from skerry.errors import PipelineError
from skerry.spark.lake.data_files import Contents, DataFile
from skerry.spark.lake.state_lookup import cached_type, known_type, states_around, unknown_name
from tests.unit.lake.lakes import HAIL, VESSEL

TYPES = {"Vessel": VESSEL, "a~2fb": HAIL}


def file(
    name: str, since: tuple[int, int], until: tuple[int, int] | None, **parts: str
) -> DataFile:
    low, high = {"valid_from_ns": since[0]}, {"valid_from_ns": since[1]}
    if until is not None:
        low["valid_to_ns"], high["valid_to_ns"] = until
    return DataFile(path=name, byte_count=1, rows=1, parts=parts, low=low, high=high)


def around(at_ns: int, tables: dict[str, list[DataFile]]) -> list[tuple[str, str, int | None]]:
    def contents_of(name: str) -> Contents | None:
        files = tables.get(name)
        if files is None:
            return None
        return Contents(files=tuple(files), schema=pa.schema([]), divided_by=())

    return [
        (place.kind, found.path, place.after_ns)
        for place in states_around("T", at_ns, contents_of)
        for found in place.contents.files
    ]


def test_files_whose_states_had_not_begun_or_were_over_are_left_out() -> None:
    tables: dict[str, list[DataFile]] = {
        "history/T": [
            file("over", (0, 5), (5, 10)),
            file("then", (0, 12), (5, 20)),
            file("later", (11, 30), (20, 40)),
        ],
        "latest/T": [file("now", (10, 50), None), file("new", (40, 50), None)],
    }
    assert around(10, tables) == [("history", "then", None), ("latest", "now", None)]
    assert around(99, tables) == [("latest", "now", None), ("latest", "new", None)]
    assert around(-1, tables) == []
    assert around(10, {}) == []


def test_the_last_valid_snapshot_replaces_earlier_history() -> None:
    tables: dict[str, list[DataFile]] = {
        "history/T": [file("before", (0, 9), (5, 99)), file("after", (9, 15), (12, 99))],
        "snapshots/T": [
            file("early", (0, 1), None, edge_ns="2", until_ns="40"),
            file("edge", (0, 9), None, edge_ns="10", until_ns="30"),
            file("ended", (0, 9), None, edge_ns="11", until_ns="12"),
        ],
    }
    assert around(20, tables) == [("history", "after", 10), ("snapshots", "edge", None)]
    assert ("snapshots", "early", None) in around(35, tables)
    assert not [found for found in around(50, tables) if found[0] == "snapshots"]


def test_types_are_found_by_the_name_of_their_tables_or_their_own() -> None:
    assert known_type(TYPES, "Vessel") is cached_type(TYPES, "Vessel") is VESSEL
    assert known_type(TYPES, "Hail") is HAIL
    with pytest.raises(PipelineError, match="message type") as caught:
        cached_type(TYPES, "Hail")
    assert "between" in str(caught.value.hint)
    with pytest.raises(PipelineError, match="there is no type Vesel") as caught:
        known_type(TYPES, "Vesel")
    assert caught.value.hint == "did you mean Vessel?"


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ([], "there are no tables yet; create them with `skerry pipeline run`"),
        (["x", "y"], "known names: x, y"),
    ],
)
def test_the_error_of_an_unknown_name_lists_known_ones(names: Any, hint: str) -> None:
    error = unknown_name("latest/Q", names)
    assert (str(error), error.hint) == ("there is no table latest/Q", hint)
