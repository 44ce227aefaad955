"""Containers: keys as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import skerry
from skerry.client.api.container import Container
from tests.unit.client.stage import Only, Pair, Shout, Stage, Vessel

Tagged: Any = skerry.define_types(
    "struct Tagged { 1: [key] vector<uint32> path; 2: string text; }"
).Tagged


def container_of(stage: Stage, cls: Any, released: list[int] | None = None) -> Container[Any, str]:
    core = stage.space()
    interest, shape = core.hold(cls, stage.now_ns)
    stage.run()
    gone = [] if released is None else released
    return Container(interest, shape, events=lambda: "events", release=lambda: gone.append(1))


def test_single_key_field_is_the_key() -> None:
    stage = Stage()
    vessels = container_of(stage, Vessel)
    stage.publish(stage.spaces[0], Vessel(mmsi=7, name="a"), Vessel(mmsi=8))
    assert isinstance(vessels, Mapping)
    assert dict(vessels) == {7: Vessel(mmsi=7, name="a"), 8: Vessel(mmsi=8)}
    assert vessels[7].name == "a"
    assert vessels[Vessel(mmsi=7)].name == "a"
    assert 7 in vessels
    for other in (9, "7", -1, (7,), None, Shout(), 2**40):
        assert other not in vessels
    with pytest.raises(KeyError):
        vessels[9]
    assert vessels.get(9) is None
    assert vessels.is_complete
    assert repr(vessels) == "<2 objects of Vessel>"


def test_several_key_fields_are_a_tuple_in_the_order_of_declaration() -> None:
    stage = Stage()
    pairs = container_of(stage, Pair)
    stage.publish(stage.spaces[0], Pair(first=1, second="b", on=True))
    assert list(pairs) == [(1, "b")]
    assert pairs[1, "b"].on
    assert ("b", 1) not in pairs
    assert 1 not in pairs


def test_type_without_key_has_one_object() -> None:
    stage = Stage()
    only = container_of(stage, Only)
    assert () not in only
    stage.publish(stage.spaces[0], Only(text="x"))
    assert only[()].text == "x"
    assert list(only) == [()]


def test_keys_can_be_hashed() -> None:
    stage = Stage()
    tagged = container_of(stage, Tagged)
    stage.publish(stage.spaces[0], Tagged(path=[1, 2], text="x"))
    assert list(tagged) == [(1, 2)]
    assert tagged[(1, 2)].text == "x"


def test_changes_of_an_object_do_not_change_the_container() -> None:
    stage = Stage()
    vessels = container_of(stage, Vessel)
    stage.publish(stage.spaces[0], Vessel(mmsi=7, name="a"))
    vessels[7].name = "changed"
    assert vessels[7].name == "a"


def test_info_has_client_and_time() -> None:
    stage = Stage()
    vessels = container_of(stage, Vessel)
    core = stage.spaces[0]
    core.publish(Vessel(mmsi=7, name="a"), 100.0)
    core.publish(Vessel(mmsi=7, name="b"), 200.0)
    stage.run()
    info = vessels.info(7)
    assert (info.created, info.modified, info.last_operation) == (100.0, 200.0, "update")
    assert info.created_from == info.modified_from == core.connection.client_id
    with pytest.raises(KeyError):
        vessels.info(8)


def test_iteration_is_over_a_snapshot() -> None:
    stage = Stage()
    vessels = container_of(stage, Vessel)
    stage.publish(stage.spaces[0], Vessel(mmsi=1), Vessel(mmsi=2))
    for key in vessels:
        stage.remove(stage.spaces[0], Vessel(mmsi=key))
    assert len(vessels) == 0


def test_closed_container_is_released_once() -> None:
    stage = Stage()
    released: list[int] = []
    vessels = container_of(stage, Vessel, released)
    assert vessels.events == "events"
    vessels.close()
    vessels.close()
    assert released == [1]


def test_a_container_is_a_table(live_node: Any) -> None:
    import pyarrow as pa

    types = skerry.define_types("struct Crane { 1: [key] int32 id; 2: float64 load; }")
    with skerry.connect(live_node.place, types=types) as space:
        space.publish(types.Crane(id=1, load=2.5))
        space.publish(types.Crane(id=2))
        space.flush()
        cranes = space.container(types.Crane)
        assert cranes.to_dict() == {1: {"id": 1, "load": 2.5}, 2: {"id": 2}}
        assert skerry.to_dict(cranes) == cranes.to_dict()
        assert cranes.to_arrow().to_pylist() == [{"id": 1, "load": 2.5}, {"id": 2, "load": None}]
        assert pa.table(cranes) == cranes.to_arrow(), "Arrow's stream interface"
        assert list(cranes.to_pandas()["id"]) == [1, 2]
        assert cranes.to_polars().columns == ["id", "load"]
        assert "2 objects of Crane" in cranes._repr_html_()
        space.remove(types.Crane(id=1))
        space.remove(types.Crane(id=2))
        space.flush()
        assert cranes.to_arrow().schema.names == ["id", "load"]
