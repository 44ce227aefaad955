"""`skerry picture`, on a real node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

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
