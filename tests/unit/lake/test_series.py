from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skerry.lake
from skerry.errors import PipelineError
from skerry.lake import updates as module
from skerry.lake.series import duration_ns
from skerry.lake.updates import slices
from tests.unit.lake.lakes import START_NS, VESSEL, S, fleet, put, update, write_plan


@pytest.mark.slow
def test_values_are_gathered_by_interval_and_object(tmp_path: Path) -> None:
    write_plan(tmp_path, VESSEL)
    said = [
        update(0.1, 1, speed=1.0),
        update(0.9, 1, speed=4.0),
        update(0.5, 1, speed=10.0),
        update(0.6, 1, name="no speed"),
        update(0.7, 2, speed=7.0),
        update(0.8, 1, 3, speed=99.0),
        update(2.0, 1, speed=5.0),
    ]
    put(tmp_path, "updates", VESSEL, said)
    rows = skerry.lake.open(tmp_path).series("Vessel", "speed", "1s").to_pylist()
    figures = ("mmsi", "last", "mean", "min", "max", "count")
    assert [((r["time_ns"] - START_NS) / S, *(r[name] for name in figures)) for r in rows] == [
        (0.0, 1, 4.0, 5.0, 1.0, 10.0, 3),
        (0.0, 2, 7.0, 7.0, 7.0, 7.0, 1),
        (2.0, 1, 5.0, 5.0, 5.0, 5.0, 1),
    ]
    assert rows[0]["time"].timestamp() == START_NS / S


@pytest.mark.slow
def test_texts_and_inner_fields_have_figures(tmp_path: Path) -> None:
    lake = skerry.lake.open(fleet(tmp_path))
    names = lake.series("Vessel", "name", "1min")
    assert names.schema.names == ["time", "time_ns", "space", "key", "mmsi", "last", "count"]
    assert [(r["mmsi"], r["last"], r["count"]) for r in names.to_pylist()] == [
        (1, "Maren", 1),
        (2, "Wren", 2),
    ]
    (place,) = lake.series("Vessel", "place.lat", 10).to_pylist()
    assert (place["last"], place["mean"]) == (1.0, 1.0)
    for field, words in (
        ("sped", "Vessel has no field sped"),
        ("place.alt", "there is no field place.alt"),
        ("marks", "marks is not a single value"),
        ("name.x", "there is no field name.x"),
    ):
        with pytest.raises(PipelineError, match=words):
            lake.series("Vessel", field)


@pytest.mark.slow
def test_an_interval_is_never_parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_plan(tmp_path, VESSEL)
    said = [update(n / 10, 1, speed=float(n)) for n in range(-200, 200)]
    put(tmp_path, "updates", VESSEL, said)
    lake = skerry.lake.open(tmp_path)
    whole = lake.series("Vessel", "speed", "7s").to_pylist()

    def small(files: Any, column: str, **bounds: Any) -> Any:
        found = slices(files, column, **bounds, rows_max=5)
        assert len(found) > 3
        return found

    monkeypatch.setattr(module, "slices", small)
    assert lake.series("Vessel", "speed", "7s").to_pylist() == whole
    assert sum(row["count"] for row in whole) == len(said)
    assert all(row["time_ns"] % (7 * S) == 0 for row in whole)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("500ms", S // 2), ("1s", S), (" 1.5 min ", 90 * S), (2, 2 * S), ("1d", 86400 * S)],
)
def test_lengths_of_time_are_read(text: Any, ns: int) -> None:
    assert duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "1", "0s", "-1s", "1 fortnight", -1, 0])
def test_an_invalid_duration_is_rejected(text: Any) -> None:
    with pytest.raises(PipelineError, match="is not a duration") as caught:
        duration_ns(text)
    assert "10min" in str(caught.value.hint)
