"""`skerry picture`, on a real node."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from skerry.cli.output import Output
from skerry.errors import SkerryError
from tests.unit.apps.test_system_watch import SNAPSHOT

module: Any = importlib.import_module("skerry.cli.picture")
Run = Callable[..., Any]


def test_a_node_alone_is_shown_as_a_system_of_one(run: Run, node: Any) -> None:
    done = run("picture")
    assert done.code == 0
    head, row, *facts, last = done.out.splitlines()
    assert head == "system local, picture 1"
    assert "(elected)  alive, full, id " in row
    assert any(node.place in fact for fact in facts)
    assert "digest " in last


def test_for_programs_it_is_one_line_with_all_nodes(run: Run, node: Any) -> None:
    done = run("picture", "--json")
    assert done.code == 0
    picture = json.loads(done.out)
    (only,) = picture["nodes"]
    assert picture["system"] == "local"
    assert picture["elected"] == picture["election"] == only["id"]
    assert (picture["sequence"], picture["is_detached"]) == (1, False)
    assert len(picture["digest"]) == 16
    assert (only["kind"], only["is_dead"], only["generation"]) == ("full", False, 0)
    assert node.place in only["endpoints"]


def test_missing_node_is_reported(run: Run) -> None:
    done = run("picture", "--node", "tcp://127.0.0.1:1")
    assert done.code == 3
    assert "127.0.0.1:1" in done.err


def shown(what: Any) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(what)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_the_tree_has_each_node_with_its_state_and_link() -> None:
    dead = replace(SNAPSHOT.nodes[1], id=3, name="west", is_dead=True, reason="silent")
    text = shown(module._tree(replace(SNAPSHOT, nodes=(*SNAPSHOT.nodes, dead))))
    lines = [line.lstrip("│├└─ ").rstrip() for line in text.splitlines()]
    assert lines == [
        "system harbour, picture 4",
        "north (elected, this node)  alive, full, type node, id 0000000000000001",
        "control 10.0.0.1:26660, data 10.0.0.1:26661",
        "listens at tcp://10.0.0.1:11235",
        "started 2023-11-14T22:13:20+00:00",
        "south  alive, full, type node, id 0000000000000002",
        "control 10.0.0.1:26660, data 10.0.0.1:26661",
        "round trip 0.5 ms, clock +0.002 s",
        "west  dead (silent), full, type node, id 0000000000000003",
        "control 10.0.0.1:26660, data 10.0.0.1:26661",
        "digest 000000000000001a, incarnation 00000000000000ff",
        "! west is excluded: silent",
    ]


def test_a_round_trip_is_shown_once_it_was_measured() -> None:
    link = replace(SNAPSHOT.links[0], round_trip_s=None)
    assert "round trip" not in shown(module._tree(replace(SNAPSHOT, links=(link,))))
    assert " ms" not in shown(module._link_table(replace(SNAPSHOT, links=(link,))))


def test_raw_has_a_row_for_each_pair() -> None:
    columns, row = shown(module._link_table(SNAPSHOT)).splitlines()
    assert columns.split()[:3] == ["observer", "node", "state"]
    assert row.split() == [
        *("north", "south", "alive", "10", "20", "4", "6"),
        *("0.5", "ms", "0.000", "s", "0", "+0.002", "s", "0.3", "s"),
    ]


def test_raw_as_json_has_a_line_for_each_pair(capsys: pytest.CaptureFixture[str]) -> None:
    module._print_json(Output(), SNAPSHOT, is_raw=True)
    row = json.loads(capsys.readouterr().out)
    assert (row["observer_name"], row["node_name"], row["round_trip_s"]) == (
        *("north", "south", 0.0005),
    )


def test_dead_nodes_are_found_by_name_or_id_and_others_are_refused() -> None:
    dead = replace(SNAPSHOT.nodes[1], id=255, name="west", is_dead=True)
    nodes = (*SNAPSHOT.nodes, dead)
    assert module._dead(nodes, None) == {255: "west"}
    assert module._dead(nodes, ["west", "00000000000000ff"]) == {255: "west"}
    # As JSON and as other programs write it.
    assert module._dead(nodes, ["255", "00000000000000FF"]) == {255: "west"}
    low = replace(dead, id=-(2**63))
    for text in ("8000000000000000", "-9223372036854775808"):
        assert module._dead([low], [text]) == {-(2**63): "west"}
    for text in ("ff", "18446744073709551616", "0x00000000000000ff", ""):
        with pytest.raises(SkerryError, match="is not in the picture, so it cannot be forgotten"):
            module._dead(nodes, [text])
    with pytest.raises(SkerryError, match="is alive"):
        module._dead(nodes, ["0000000000000002"])
    with pytest.raises(SkerryError, match="node south is alive, so it cannot be forgotten"):
        module._dead(nodes, ["south"])
    with pytest.raises(SkerryError, match="node east is not in the picture"):
        module._dead(nodes, ["east"])


def test_a_node_that_the_picture_does_not_show_any_more_is_forgotten_by_its_id() -> None:
    assert module._dead(SNAPSHOT.nodes, ["FFFFFFFFFFFFFFFE", "7fffffffffffffff"]) == {
        -2: "not in the picture",
        2**63 - 1: "not in the picture",
    }


def test_forget_needs_a_node_of_a_system(run: Run, node: Any) -> None:
    assert run("picture", "forget").code == 2
    assert run("picture", "--raw", "forget", "x").code == 2
    done = run("picture", "forget", "x")
    assert (done.code, done.err.splitlines()[0]) == (
        *(1, "error: node x is not in the picture, so it cannot be forgotten"),
    )
    assert run("picture", "forget", "--all").code == 0


def test_raw_of_a_node_alone_has_no_rows(run: Run, node: Any) -> None:
    done = run("picture", "--raw", "--json")
    assert (done.code, done.out) == (0, "")
