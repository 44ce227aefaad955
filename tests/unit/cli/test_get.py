"""`skerry get`, on a real node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry

Run = Callable[..., Any]


@pytest.fixture
def harbour(node: Any, types: Path) -> Any:
    """A node with two vessels and two legs."""
    known = skerry.load_types(types)
    with skerry.connect(node.place, types=known) as space:
        space.publish(known.Vessel(mmsi=1, name="Maren", lat=52.5))
        space.publish(known.Vessel(mmsi=2, name="it's", lat=2.5))
        space.publish(known.Leg(from_="a", kind=known.Kind.ferry, done=True))
        space.publish(known.Leg(from_="a", kind=known.Kind.tug, done=False))
        space.publish(known.Hail(text="ahoy"))
        space.flush()
    return node


def test_objects_are_shown_without_type_files(run: Run, harbour: Any) -> None:
    done = run("get", "Vessel")
    assert done.code == 0
    assert done.out.splitlines() == [
        'Vessel{ .mmsi = 1u, .name = "Maren", .lat = 52.5 }',
        'Vessel{ .mmsi = 2u, .name = "it\'s", .lat = 2.5 }',
    ]


def test_json_has_fields_by_name_and_additional_values(run: Run, harbour: Any) -> None:
    row = json.loads(run("get", "Vessel", "1", "--json").out)
    assert row.pop("_age_s") >= 0
    assert row.pop("_time") > 1.7e9
    assert row.pop("_sender") > 1
    assert row == {"mmsi": 1, "name": "Maren", "lat": 52.5, "_key": 1}


def test_key_of_several_fields_is_given_in_their_order(run: Run, harbour: Any) -> None:
    done = run("get", "Leg", "a", "tug", "--json")
    row = json.loads(done.out)
    assert (row["_key"], row["done"]) == (["a", "tug"], False)


def test_condition_and_fields_choose(run: Run, harbour: Any) -> None:
    done = run("get", "Vessel", "--where", "name like 'M%'", "--fields", "lat", "--json")
    row = json.loads(done.out)
    assert {k: v for k, v in row.items() if not k.startswith("_")} == {"mmsi": 1, "lat": 52.5}
    assert run("get", "Vessel", "2", "--where", "lat > 50").code == 1


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("Vessel", "3"), 1, "no Vessel has the key mmsi=3"),
        (("Vessel", "x"), 2, "'KEY': Vessel.mmsi: expected uint32"),
        (("Vessel", "1", "2"), 2, "the key of Vessel is mmsi"),
        (("Vezsel",), 1, "did you mean Vessel?"),
        (("Something",), 1, "`skerry types list` lists the types of the node"),
        (("Hail",), 1, "`skerry sub Hail`"),
        (("Kind",), 1, "Kind is an enum; only structs have objects"),
        (("Vessel", "--where", "lat >"), 2, "'--where': expected a value, found the end (at 6)"),
        (("Vessel", "1", "--where", "lad > 1"), 2, "'--where': Vessel has no field lad (at 1)"),
        (("Vessel", "--where", ""), 2, "'--where': there is no condition"),
        (("Vessel", "--fields", "lat,lad"), 2, "'--fields': Vessel has no field lad"),
        (("Vessel", "--fields", "lat,"), 2, "'--fields': a field name is empty in 'lat,'"),
    ],
)
def test_missing_types_and_objects_are_reported(
    run: Run, harbour: Any, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    done = run("get", *arguments)
    assert (done.code, done.out) == (code, "")
    assert complaint in done.err


def test_status_objects_can_be_printed(run: Run, harbour: Any) -> None:
    rows = [json.loads(line) for line in run("get", "DotsClient", "--json").out.splitlines()]
    assert "skerry-get" in [row["name"] for row in rows]


def test_no_node_is_exit_code_three_with_a_hint(run: Run, types: Path) -> None:
    done = run("get", "Vessel", "--node", f"uds:{types.parent}/none.sock")
    assert done.code == 3
    assert "no node answered" in done.err
    assert "skerry node run" in done.err


def test_key_that_begins_with_a_minus_gets_a_hint(run: Run, harbour: Any) -> None:
    done = run("get", "Vessel", "-3")
    assert done.code == 2
    assert "`skerry get ... -- -3`" in done.err


def test_other_definition_than_the_nodes_is_an_error(
    run: Run, harbour: Any, types: Path, tmp_path: Path
) -> None:
    assert run("get", "Vessel", "--types", str(types)).code == 0
    other = tmp_path / "other.dots"
    other.write_text("struct Vessel { 1: [key] uint32 mmsi; 2: uint64 name; }", encoding="utf-8")
    done = run("get", "Vessel", "--types", str(other))
    assert (done.code, done.out) == (1, "")
    assert "two definitions of Vessel" in done.err
    assert "another by the node" in done.err
    assert "omit --types" in done.err


def test_a_format_replaces_the_line(run: Run, harbour: Any) -> None:
    shape = "{_key} {name:>6} {lat:.2f} {_object}"
    done = run("get", "Vessel", "1", "--format", shape)
    assert done.out == '1  Maren 52.50 Vessel{ .mmsi = 1u, .name = "Maren", .lat = 52.5 }\n'
    assert run("get", "Vessel", "--format", "{nam}").code == 2
    assert run("get", "Vessel", "--format", "{name}", "--json").code == 2
