"""`skerry doctor` for nodes in a system, on real UDP in a network namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.namespaces import in_namespace, require_nft

pytestmark = pytest.mark.slow
SCENARIO = "tests.apps.doctor_scenario"


@dataclass(frozen=True, slots=True)
class Found:
    rows: list[dict[str, Any]]

    def __call__(self, phase: str) -> dict[str, dict[str, Any]]:
        return {row["check"]: row for row in self.rows if row["phase"] == phase}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("doctor")
    command = [sys.executable, "-m", SCENARIO, str(folder), require_nft()]
    done = subprocess.run(
        [*in_namespace(), *command], capture_output=True, text=True, timeout=120, cwd=Path.cwd()
    )
    assert done.returncode == 0, done.stderr
    return Found([json.loads(line) for line in done.stdout.splitlines()])


def test_nodes_that_reach_each_other_are_well(found: Found) -> None:
    rows = found("fine")
    assert rows.keys() == {"system", "node b"}
    assert {row["verdict"] for row in rows.values()} == {"ok"}
    assert rows["system"]["facts"].startswith("harbour: 2 nodes alive, elected ")
    facts = rows["node b"]["facts"]
    assert " answers in " in facts
    assert "datagrams of 32768 bytes pass in one piece" in facts
    assert "clock " in facts


def test_datagrams_that_are_dropped_for_their_size_are_found(found: Found) -> None:
    rows = found("divided")
    assert rows["node b"]["verdict"] == "ok"
    assert "one piece" not in rows["node b"]["facts"]
    row = rows["MTU to b"]
    assert (row["verdict"], "do not pass in one piece" in row["facts"]) == ("warn", True)
    assert "node.peers.link.datagram_bytes" in row["advice"]


def test_a_killed_node_is_named_with_the_reason(found: Found) -> None:
    rows = found("killed")
    assert rows["system"]["verdict"] == "warn"
    assert "no other node is alive" in rows["system"]["facts"]
    assert (rows["node b"]["verdict"], rows["node b"]["facts"]) == ("warn", "is excluded: silent")
