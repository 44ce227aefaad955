"""Objects as dictionaries, tables and HTML."""

from __future__ import annotations

import datetime as dt
from typing import Any
from uuid import UUID

import pytest

import skerry
from skerry.objects import tables

TYPES = skerry.define_types(
    """
    enum Kind { 1: ferry, 2: tug }
    struct Place [substruct_only] { 1: float64 lat; 2: Kind kind; }
    struct Vessel {
        1: [key] uint32 mmsi; 2: string name; 3: timepoint seen; 4: Kind kind; 5: Place place;
        6: vector<Place> track; 7: uuid id; 8: bytes raw; 9: duration age; 10: property_set parts;
        11: any thing; 12: instance_ref<Vessel> tug; 13: uint64 big; 14: bool ok; 15: float32 speed;
        16: vector<string> names;
    }
    struct Other { 1: [key] int8 id; }
    """
)
Vessel, Place, Kind = TYPES.Vessel, TYPES.Place, TYPES.Kind


def whole() -> Any:
    return Vessel(
        mmsi=1,
        name="Maren <b>",
        seen=1_763_208_000.25,
        kind=Kind.tug,
        place=Place(lat=52.5, kind=Kind.ferry),
        track=[Place(lat=1.0), Place()],
        id=UUID(int=7),
        raw=b"\x01",
        age=2.5,
        parts=skerry.PropertySet.of([1, 2]),
        thing=skerry.pack(TYPES.Other(id=1)),
        tug=skerry.ref_to(Vessel(mmsi=2)),
        big=2**64 - 1,
        ok=True,
        speed=0.5,
        names=["a", "b"],
    )


def test_an_object_is_a_dictionary_of_its_set_fields() -> None:
    found = whole().to_dict()
    assert found["kind"] == "tug"
    assert found["place"] == {"lat": 52.5, "kind": "ferry"}
    assert found["track"] == [{"lat": 1.0}, {}]
    assert found["raw"] == b"\x01"
    assert Vessel(mmsi=3).to_dict() == {"mmsi": 3}
    assert skerry.to_dict([Vessel(mmsi=3), TYPES.Other(id=1)]) == [{"mmsi": 3}, {"id": 1}]
    assert skerry.to_dict(Vessel(mmsi=3)) == {"mmsi": 3}


def test_a_table_has_a_column_of_the_right_type_for_each_field() -> None:
    table = skerry.to_arrow([whole(), Vessel(mmsi=2**32 - 1)])
    assert {name: str(table.schema.field(name).type) for name in table.schema.names} == {
        "mmsi": "uint32",
        "name": "string",
        "seen": "timestamp[us, tz=UTC]",
        "kind": "string",
        "place": "struct<lat: double, kind: string>",
        "track": "list<item: struct<lat: double, kind: string>>",
        "id": "string",
        "raw": "binary",
        "age": "double",
        "parts": "uint32",
        "thing": "struct<type: string, payload: binary>",
        "tug": "struct<type: string, key: binary>",
        "big": "uint64",
        "ok": "bool",
        "speed": "float",
        "names": "list<item: string>",
    }
    first, second = table.to_pylist()
    assert first["seen"] == dt.datetime(2025, 11, 15, 12, 0, 0, 250_000, tzinfo=dt.UTC)
    assert (first["big"], first["kind"], first["parts"]) == (2**64 - 1, "tug", 6)
    assert first["track"] == [{"lat": 1.0, "kind": None}, {"lat": None, "kind": None}]
    assert first["thing"]["type"] == "Other"
    assert second == {**dict.fromkeys(first), "mmsi": 2**32 - 1}


def test_frames_have_the_same_columns() -> None:
    objects = [Vessel(mmsi=1, name="a"), Vessel(mmsi=2)]
    pandas = skerry.to_pandas(objects)
    assert list(pandas["mmsi"]) == [1, 2]
    polars = skerry.to_polars(objects)
    assert polars["name"].to_list() == ["a", None]
    assert polars.columns == list(pandas.columns)


def test_no_objects_need_their_class() -> None:
    assert skerry.to_arrow([], Vessel).num_rows == 0
    assert skerry.to_arrow([], cls=Vessel).schema.names[0] == "mmsi"
    with pytest.raises(ValueError, match="pass their class"):
        skerry.to_arrow([])


def test_a_table_has_one_type() -> None:
    with pytest.raises(TypeError, match="a table has objects of one type: Vessel, got Other"):
        skerry.to_arrow([Vessel(mmsi=1), TYPES.Other(id=1)])
    with pytest.raises(TypeError, match="got int"):
        skerry.to_arrow([1], Vessel)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(skerry.SkerryError, match="data frames need polars") as raised:
        skerry.to_polars([Vessel(mmsi=1)])
    assert raised.value.hint == "pip install 'skerry[frames]'"


def test_html_is_escaped_and_bounded() -> None:
    text = whole()._repr_html_()
    assert text.startswith("<table><caption>Vessel</caption>")
    assert "<td>Maren &lt;b&gt;</td>" in text
    assert "2025-11-15T12:00:00.250+00:00" in text
    rows = [Vessel(mmsi=number) for number in range(100)]
    text = tables.objects_html("100 objects of Vessel", Vessel, rows, 100)
    assert text.count("<tr>") == 21
    assert "100 objects of Vessel, the first 20" in text
