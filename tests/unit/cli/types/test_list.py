"""`skerry types list`, on a real node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skerry

Run = Callable[..., Any]


@pytest.fixture
def harbour(node: Any, types: Path) -> Iterator[Any]:
    known = skerry.load_types(types)
    with skerry.connect(node.place, name="fleet", types=known) as space:
        for number in range(3):
            space.publish(known.Vessel(mmsi=number))
        space.publish(known.Leg(from_="a", kind=known.Kind.tug))
        space.flush()
        yield node


def wait_told(node: Any) -> None:
    """Wait until the node has published the publishers of vessels, which it does once a second."""
    with skerry.connect(node.place) as space, space.subscribe("DotsClient") as received:
        for event in iter(lambda: received.get(10), None):
            if "Vessel" in (event.object.publishedTypes or ()):
                return
    pytest.fail("no client publishes vessels")


def test_types_are_listed_with_their_flags(run: Run, harbour: Any) -> None:
    done = run("types", "list", "--quick", "--json")
    rows = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    assert done.code == 0
    assert sorted(rows) == ["Kind", "Leg", "Vessel"]
    assert (rows["Kind"]["kind"], rows["Leg"]["kind"]) == ("enum", "struct")
    assert rows["Leg"]["flags"] == ["persistent"]
    assert rows["Vessel"]["objects"] is None


@pytest.mark.slow
def test_counts_come_from_the_ledger(run: Run, harbour: Any) -> None:
    wait_told(harbour)
    done = run("types", "list", "--json")
    rows = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    assert (rows["Vessel"]["objects"], rows["Leg"]["objects"]) == (3, 1)
    assert rows["Vessel"]["members"] == 0
    assert [name.partition(" ")[0] for name in rows["Vessel"]["publishers"]] == ["fleet"]


def test_table_has_a_line_for_each(run: Run, harbour: Any) -> None:
    lines = run("types", "list", "--quick").out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "Kind", "Leg", "Vessel"]


def test_conflicting_definition_is_reported_and_fails(
    run: Run, harbour: Any, types: Path, clean_place: Path
) -> None:
    assert run("types", "list", "--quick", "--types", types).code == 0
    other = clean_place / "other.dots"
    other.write_text("struct Vessel { 1: [key] uint32 mmsi; 2: float64 name; }")
    done = run("types", "list", "--quick", "--types", other, "--json")
    rows = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    assert done.code == 1
    assert "name" in rows["Vessel"]["conflict"]
    assert rows["Leg"]["conflict"] is None
    assert "conflict with the type files" in done.err


def test_definitions_are_listed_with_their_clients(run: Run, harbour: Any) -> None:
    text = "struct Vessel {{ 1: [key] uint32 mmsi; {} }}"
    new = skerry.define_types(text.format("9: bool is_new;"))
    other = skerry.define_types(text.format("9: string is_new;"))
    with (
        skerry.connect(harbour.place, name="newer", types=new) as space,
        skerry.connect(harbour.place, name="other", types=other) as odd,
    ):
        space.publish(new.Vessel(mmsi=1, is_new=True))
        space.flush()
        odd.publish(other.Vessel(mmsi=1, is_new="yes"))
        with pytest.raises(skerry.Refused, match="is_new"):
            odd.flush()
        done = run("types", "list", "--quick", "--json")
        shown = run("types", "list", "--quick").out
    rows = {row["name"]: row for row in map(json.loads, done.out.splitlines())}
    first, second, third = rows["Vessel"]["definitions"]
    assert [d["served"] for d in (first, second, third)] == [True, True, False]
    assert first["clients"][0].startswith("fleet (")
    assert second["clients"][0].startswith("newer (")
    assert "9: bool is_new;" in second["text"]
    assert "is_new" in third["conflict"]
    assert len(rows["Leg"]["definitions"]) == 1
    assert "9: bool is_new;" in shown
    assert "other (" in shown
    assert "not served: Vessel.is_new" in shown
